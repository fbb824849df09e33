package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/worker/opencode"
)

// vet is asked before the first row of a run is written. The index knows
// sessions of this upstream and none has come yet: perhaps they come later,
// perhaps this is another store behind the same name. The ids are read to
// their end, or to the first that is known, before anything is written.
func (p *pass) vet(ctx context.Context) error {
	if p.req.AcceptMassChange {
		return nil
	}
	same, err := p.sameStore(ctx)
	if err != nil || same {
		return err
	}
	p.rep.Held = len(p.present)
	return fault.New(OtherStore,
		fmt.Sprintf("none of the sessions that %q has now is known, and none of the %d known ones is there: it looks like another store; nothing was changed", p.up.Name, p.remembered()),
		p.acceptHint())
}

// remembered counts the sessions of the upstream that were present before this
// run.
func (p *pass) remembered() int {
	n := 0
	for _, k := range p.in.known {
		if !k.Missing {
			n++
		}
	}
	return n
}

// sameStore reports whether the upstream still has a session that the index
// knows of it, whichever directory it is in. An index that knows none cannot
// tell, and says yes.
func (p *pass) sameStore(ctx context.Context) (bool, error) {
	if p.in.overlap || p.remembered() == 0 {
		return true, nil
	}
	err := p.findKnown(ctx)
	if errors.Is(err, errKnown) {
		p.in.overlap = true
		return true, nil
	}
	return false, err
}

// errKnown ends findKnown at the first known id. It never leaves this file.
var errKnown = errors.New("a known session came")

// findKnown goes through the ids of the upstream's whole list and returns
// errKnown at the first that the index holds.
func (p *pass) findKnown(ctx context.Context) error {
	switch {
	case p.caps.Bare:
		return p.findIn(ctx, opencode.Request{Route: opencode.Bare, Limit: listingLimit})
	case p.caps.Envelope:
		return p.findIn(ctx, opencode.Request{Route: opencode.Envelope, Limit: p.w.cfg.PageSize})
	}
	projects, err := p.server.Projects(ctx)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	requests := []opencode.Request{{Route: opencode.Plain, Limit: listingLimit}}
	for _, pr := range projects {
		requests = append(requests, opencode.Request{Route: opencode.Plain, Directory: pr.Worktree, WholeProject: true, Limit: listingLimit})
	}
	for _, req := range requests {
		if err := p.findIn(ctx, req); err != nil {
			return err
		}
	}
	return nil
}

// findIn goes through one list by its token, within the budget of time. That
// of pages does not count here: nothing is kept of these.
func (p *pass) findIn(ctx context.Context, req opencode.Request) error {
	for sent := (tokens{}); ; {
		if p.late() {
			return fault.New(TimeBudget, fmt.Sprintf("whether this is the store that is known was not found out within %s; nothing was changed", p.w.cfg.TimeBudget),
				"index.time_budget sets how long a run may take")
		}
		sum, err := p.server.Stubs(ctx, req, func(r *index.Record) error {
			if k, ok := p.in.known[r.ID]; ok && !k.Missing {
				return errKnown
			}
			return nil
		})
		if err != nil || sum.Next == "" {
			return err
		}
		if err := sent.follow(sum.Next, req.Route, p.rep.Pages); err != nil {
			return err
		}
		req.Cursor = sum.Next
	}
}

// prove compares what the lists saw. Two lists of a live server are not
// atomic: each session that only one of them has is looked up, and the run is
// complete when each is explained. Sessions that moved between the two are
// read again, so that the newest copy is what is kept.
func (p *pass) prove(ctx context.Context) error {
	if err := p.readSkipped(ctx); err != nil || !p.twice || p.cut() {
		return err
	}
	differ, moved := p.compare()
	why, err := p.eachLookup(ctx, differ, func(id string) error { return p.lookUp(ctx, id) })
	if err != nil {
		return err
	}
	// A session that moved on is seen whatever its record says: a failed look
	// leaves the copy that the listing had.
	if _, err := p.eachLookup(ctx, moved, func(id string) error { return p.lookUp(ctx, id) }); err != nil {
		return err
	}
	if why != nil {
		p.incomplete = fault.Wrap(why, Unexplained, "run it again; if it stays, see `annals doctor`",
			"sessions are in one of two lists and could not be looked up").Again()
	}
	return p.in.flush(ctx, nil)
}

// maxFailures is how many lookups in a row may fail before the rest is left:
// the server does not tell today.
const maxFailures = 10

// eachLookup looks sessions up one after the other. It returns why some could
// not be (the first reason), and an error when the run must end. A server that
// does not answer, refuses, or fails many times in a row is not asked for the
// rest, and neither is any when the time budget is used up.
func (p *pass) eachLookup(ctx context.Context, ids []string, look func(id string) error) (why, err error) {
	failures := 0
	for _, id := range ids {
		if p.late() {
			return fault.New(TimeBudget, fmt.Sprintf("the time budget of %s was used up", p.w.cfg.TimeBudget), ""), nil
		}
		err := look(id)
		switch {
		case err == nil:
			failures = 0
			continue
		case fatal(ctx, err):
			return why, err
		case why == nil:
			why = err
		}
		failures++
		if failures == maxFailures || fault.Is(err, fault.Unreachable) || fault.Is(err, fault.Unauthorized) {
			return why, nil
		}
	}
	return why, nil
}

// compare returns the ids that one list alone has, and those of which the walk
// has a newer copy than the index was fed.
func (p *pass) compare() (differ, moved []string) {
	if p.walked == nil { // the bare walk feeds the index itself
		p.walked = make(map[string]int64, len(p.in.seen))
		for id, s := range p.in.seen {
			p.walked[id] = s.updated
		}
	}
	for id, updated := range p.walked {
		if _, ok := p.counted[id]; !ok {
			differ = append(differ, id)
		} else if updated > p.in.seen[id].updated {
			moved = append(moved, id)
		}
	}
	for id := range p.counted {
		if _, ok := p.walked[id]; !ok {
			differ = append(differ, id)
		}
	}
	slices.Sort(differ)
	slices.Sort(moved)
	return differ, moved
}

// maxReread bounds how many sessions whose rows could not be read are asked
// for by themselves.
const maxReread = 100

// readSkipped asks for the sessions whose rows could not be read: what a list
// makes unreadable, the session's own record may tell. What cannot be read
// there either stays skipped.
func (p *pass) readSkipped(ctx context.Context) error {
	var ids []string
	for _, row := range p.rep.Skipped {
		if row.ID != "" && len(ids) < maxReread {
			ids = append(ids, row.ID)
		}
	}
	_, err := p.eachLookup(ctx, ids, func(id string) error {
		err := p.lookUp(ctx, id)
		if err == nil {
			p.rep.Skipped = slices.DeleteFunc(p.rep.Skipped, func(row SkippedRow) bool { return row.ID == id })
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.in.flush(ctx, nil)
}

// record reads one session's own record.
func (p *pass) record(ctx context.Context, id string) (index.Record, error) {
	if err := p.in.rebase(ctx); err != nil {
		return index.Record{}, err
	}
	return p.server.Lookup(ctx, p.caps, id)
}

// lookUp reads one session's own record: it is taken when it is there, and
// not seen when the upstream says that it is not.
func (p *pass) lookUp(ctx context.Context, id string) error {
	rec, err := p.record(ctx, id)
	if fault.Is(err, fault.NotFound) {
		p.in.forget(id)
		return nil
	}
	if err != nil {
		return err
	}
	p.rows++
	return p.in.take(ctx, &rec)
}

// sortedKeys returns the keys of a set in order, for lists that people read
// and runs that must repeat exactly.
func sortedKeys(set map[string]struct{}) []string { return slices.Sorted(maps.Keys(set)) }
