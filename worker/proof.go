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
	if p.in.overlap || len(p.present) == 0 || p.req.AcceptMassChange {
		return nil
	}
	err := p.findKnown(ctx)
	if errors.Is(err, errKnown) {
		p.in.overlap = true
		return nil
	}
	if err != nil {
		return err
	}
	p.rep.Held = len(p.present)
	return fault.New(OtherStore,
		fmt.Sprintf("none of the sessions that %q has now is known, and none of the %d known ones is there: it looks like another store; nothing was changed", p.up.Name, len(p.present)),
		p.acceptHint())
}

// errKnown ends findKnown at the first known id. It never leaves this file.
var errKnown = errors.New("a known session came")

// findKnown goes through the ids of the run's own list and returns errKnown
// at the first that the index holds.
func (p *pass) findKnown(ctx context.Context) error {
	req := opencode.Request{Route: opencode.Bare, Limit: listingLimit}
	if !p.caps.Bare {
		req.Route, req.Limit = p.rep.List, p.w.cfg.PageSize
	}
	if req.Route == opencode.Plain {
		// Rows of the plain list come a project at a time; what this one has
		// is in hand already, and the others are asked when their turn comes.
		return p.findKnownPlain(ctx)
	}
	sent := tokens{}
	for _, dir := range p.scope {
		req.Directory, req.Cursor = dir, ""
		for {
			sum, err := p.server.Stubs(ctx, req, p.isKnown)
			if err != nil {
				return err
			}
			if sum.Next == "" || req.Route == opencode.Bare && sum.Rows < req.Limit {
				break
			}
			if err := sent.follow(sum.Next, req.Route, p.rep.Pages); err != nil {
				return err
			}
			req.Cursor = sum.Next
		}
	}
	return nil
}

func (p *pass) findKnownPlain(ctx context.Context) error {
	projects, err := p.server.Projects(ctx)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	requests := []opencode.Request{{Route: opencode.Plain, Limit: listingLimit}}
	for _, pr := range projects {
		requests = append(requests, opencode.Request{Route: opencode.Plain, Directory: pr.Worktree, WholeProject: true, Limit: listingLimit})
	}
	for _, req := range requests {
		if _, err := p.server.Stubs(ctx, req, p.isKnown); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) isKnown(r *index.Record) error {
	if _, ok := p.present[r.ID]; ok {
		return errKnown
	}
	return nil
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
	var why error
	unexplained := 0
	for _, id := range differ {
		if err := p.lookUp(ctx, id); err != nil {
			if fatal(ctx, err) {
				return err
			}
			unexplained++
			why = err
		}
	}
	for _, id := range moved {
		if err := p.lookUp(ctx, id); err != nil && fatal(ctx, err) {
			return err
		}
	}
	if err := p.in.flush(ctx, nil); err != nil {
		return err
	}
	if unexplained > 0 {
		p.incomplete = fault.Wrap(why, Unexplained, "run it again; if it stays, see `annals doctor`",
			"%d sessions are in one of two lists and could not be looked up", unexplained).Again()
	}
	return nil
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
	asked := 0
	for i := 0; i < len(p.rep.Skipped); {
		id := p.rep.Skipped[i].ID
		if id == "" || asked == maxReread {
			i++
			continue
		}
		asked++
		err := p.lookUp(ctx, id)
		switch {
		case err == nil:
			p.rep.Skipped = slices.Delete(p.rep.Skipped, i, i+1)
		case fatal(ctx, err):
			return err
		default:
			i++
		}
	}
	return p.in.flush(ctx, nil)
}

// lookUp reads one session's own record: it is taken when it is there, and
// not seen when the upstream says that it is not.
func (p *pass) lookUp(ctx context.Context, id string) error {
	rec, err := p.server.Lookup(ctx, p.caps, id)
	switch {
	case fault.Is(err, fault.NotFound):
		p.in.forget(id)
		return nil
	case err != nil:
		return err
	case rec.ID != id:
		return fault.New(fault.Upstream, "the server answered with another session than the one asked for", "")
	}
	p.rows++
	return p.in.take(ctx, &rec)
}

// sortedKeys returns the keys of a set in order, for lists that people read
// and runs that must repeat exactly.
func sortedKeys(set map[string]struct{}) []string { return slices.Sorted(maps.Keys(set)) }
