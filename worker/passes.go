package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/worker/opencode"
)

// listingLimit asks for every row in one answer. 1.18 has no bound of its own
// (100,000 was tried); an answer that is full all the same is noticed.
const listingLimit = 1_000_000

// read does the lists. Which ones, and why, is the request plan in
// docs/RATIONALE.md:
//
//	envelope and bare  the bare listing, whole, feeds the index (it has the
//	                   metadata); the envelope is walked by cursor as the proof
//	envelope and plain the plain lists feed the index, project by project; the
//	                   envelope is walked as the proof
//	envelope alone     the walk feeds the index; what is gone is looked up
//	bare alone         a walk that no tie escapes feeds the index; the whole
//	                   listing is the proof
//	plain alone        one whole list a project
func (p *pass) read(ctx context.Context) error {
	failed := 0
	var last error
	for _, dir := range p.scope {
		err := p.readDirectory(ctx, dir)
		if err == nil {
			continue
		}
		if dir == "" || fatal(ctx, err) {
			return err
		}
		last = err
		failed++
		p.rep.FailedDirectories = append(p.rep.FailedDirectories, dir)
	}
	if failed == len(p.scope) {
		return last
	}
	return nil
}

func (p *pass) readDirectory(ctx context.Context, dir string) error {
	switch {
	case p.caps.Envelope && p.caps.Bare:
		p.rep.List, p.twice = opencode.Envelope, true
		if err := p.listing(ctx, dir); err != nil {
			return err
		}
		return p.walk(ctx, dir, p.stub)
	case p.caps.Envelope && p.caps.Plain:
		p.rep.List, p.twice = opencode.Envelope, true
		p.ensureCounted()
		if err := p.plain(ctx, dir); err != nil {
			return err
		}
		return p.walk(ctx, dir, p.stub)
	case p.caps.Envelope:
		p.rep.List = opencode.Envelope
		p.in.silent = map[string]struct{}{}
		if err := p.walk(ctx, dir, p.feed); err != nil {
			return err
		}
		return p.clearMetadata(ctx)
	case p.caps.Bare:
		p.rep.List, p.twice = opencode.Bare, true
		if err := p.walkTies(ctx, dir); err != nil {
			return err
		}
		return p.count(ctx, dir)
	default:
		p.rep.List = opencode.Plain
		return p.plain(ctx, dir)
	}
}

// sink is where a list's rows go: how to ask for them, what to do with each.
type sink struct {
	list  func(context.Context, opencode.Request, func(*index.Record) error) (opencode.Summary, error)
	take  func(*index.Record) error
	feeds bool // the rows feed the index; otherwise only their ids count
}

// feed is the sink that feeds the index. Where two lists are read, what feeds
// is the one that is counted, except on the bare list alone, which is counted
// by itself.
func (p *pass) feed(ctx context.Context) sink {
	return sink{p.server.List, func(r *index.Record) error {
		if p.counted != nil && p.caps.Envelope {
			p.counted[r.ID] = struct{}{}
		}
		return p.in.take(ctx, r)
	}, true}
}

// stub is the sink that only remembers what the walk saw.
func (p *pass) stub(context.Context) sink {
	return sink{list: p.server.Stubs, take: func(r *index.Record) error {
		p.walked[r.ID] = max(p.walked[r.ID], r.Updated)
		return nil
	}}
}

// ask sends one list request to a sink and accounts for it.
func (p *pass) ask(ctx context.Context, req opencode.Request, s sink) (opencode.Summary, error) {
	if err := p.in.rebase(ctx); err != nil {
		return opencode.Summary{}, err
	}
	sum, err := s.list(ctx, req, func(r *index.Record) error {
		p.rows++
		if p.rows%p.w.cfg.PageSize == 0 {
			p.progress()
		}
		return s.take(r)
	})
	p.progress()
	if err != nil {
		return sum, err
	}
	p.documents = p.documents || sum.HasMetadata
	for _, skip := range sum.Skipped {
		p.skip(skip, s.feeds)
	}
	return sum, nil
}

// skip names a row that could not be read. Its session, when it told its id,
// is there all the same.
func (p *pass) skip(s opencode.Skip, feeds bool) {
	switch {
	case !feeds: // the list that feeds the index has named it
		if s.ID != "" && p.walked != nil {
			p.walked[s.ID] = max(p.walked[s.ID], 0)
		} else if s.ID != "" && p.counted != nil {
			p.counted[s.ID] = struct{}{}
		}
		return
	case s.ID == "":
		p.anonymous++
	default:
		p.in.meet(s.ID)
		if p.counted != nil && p.caps.Envelope {
			p.counted[s.ID] = struct{}{}
		}
		if _, named := p.skipped[s.ID]; named {
			return
		}
		p.skipped[s.ID] = struct{}{}
	}
	p.rep.Skipped = append(p.rep.Skipped, SkippedRow(s))
}

func (p *pass) progress() {
	if p.w.cfg.Progress != nil {
		p.w.cfg.Progress(Progress{Upstream: p.up.Name, Pages: p.rep.Pages, Rows: p.rows, Expected: len(p.present)})
	}
}

// listing reads the bare list whole, in one answer, metadata included, and
// feeds the index from it in commits of a page.
func (p *pass) listing(ctx context.Context, dir string) error {
	p.ensureCounted()
	sum, err := p.ask(ctx, opencode.Request{Route: opencode.Bare, Directory: dir, Limit: listingLimit}, p.feed(ctx))
	if err != nil {
		return err
	}
	if err := p.in.flush(ctx, nil); err != nil {
		return err
	}
	if capped(sum, listingLimit) {
		// The server bounds its answers: the rest comes page by page.
		if err := p.walkTies(ctx, dir); err != nil {
			return err
		}
		if p.incomplete != nil && p.incomplete.Code == FullPage {
			p.incomplete = nil // the envelope's walk names what this list held back
		}
	}
	return nil
}

// capped reports whether an answer may hold back rows. 1.18 sends a token only
// with a full page.
func capped(sum opencode.Summary, limit int) bool { return sum.Rows >= limit || sum.Next != "" }

// count reads the bare list whole for its ids alone: the independent listing
// of a walk over the same route.
func (p *pass) count(ctx context.Context, dir string) error {
	p.ensureCounted()
	sum, err := p.ask(ctx, opencode.Request{Route: opencode.Bare, Directory: dir, Limit: listingLimit},
		sink{list: p.server.Stubs, take: func(r *index.Record) error {
			p.counted[r.ID] = struct{}{}
			return nil
		}})
	if err == nil && capped(sum, listingLimit) {
		// A bounded answer proves nothing: the walk stands alone, and what it
		// did not see is looked up before it turns missing.
		p.counted, p.twice = nil, false
	}
	return err
}

func (p *pass) ensureCounted() {
	if p.counted == nil {
		p.counted = make(map[string]struct{}, len(p.present))
	}
}

// walk goes through the envelope list by its cursor, page by page, until the
// list, the budget or the server's patience ends.
func (p *pass) walk(ctx context.Context, dir string, to func(context.Context) sink) error {
	if p.walked == nil {
		p.walked = make(map[string]int64, len(p.present))
	}
	req := opencode.Request{Route: opencode.Envelope, Directory: dir, Limit: p.w.cfg.PageSize}
	sent := tokens{}
	if p.resume != nil && p.resume.List == string(req.Route) && dir == "" {
		req.Cursor = p.resume.Cursor
		sent[req.Cursor] = struct{}{}
		p.remember(p.resume.IDs)
	}
	s := to(ctx)
	for first := p.rep.Pages; ; {
		sum, err := p.ask(ctx, req, s)
		if err != nil {
			if p.resume != nil && p.rep.Pages == first && fault.Is(err, fault.Upstream) {
				return p.walkAnew(ctx, dir, to)
			}
			return err
		}
		p.rep.Pages++
		if err := p.endPage(ctx, req, sum.Next); err != nil {
			return err
		}
		if sum.Next == "" {
			p.joined()
			return p.dropWalk(ctx)
		}
		if err := sent.follow(sum.Next, req.Route, p.rep.Pages); err != nil {
			return err
		}
		req.Cursor = sum.Next
		if p.overBudget(p.rep.Pages - first) {
			return p.saveWalk(ctx, req)
		}
	}
}

// remember counts the sessions that an unfinished walk saw in earlier runs.
func (p *pass) remember(ids []string) {
	for _, id := range ids {
		if p.twice {
			p.walked[id] = max(p.walked[id], 0)
		} else {
			p.in.meet(id)
		}
	}
}

// joined notes that a walk which feeds the index has come to its end over
// several runs: what changed in its earlier parts since was not seen.
func (p *pass) joined() {
	if p.resume != nil && !p.twice {
		p.incomplete = fault.New(PageBudget, "the list was read to its end, but over several runs; what changed in between may not have been seen",
			"raise index.page_budget and index.time_budget so that one run reads the whole list").Again()
	}
}

// endPage commits what is left of a page with its checkpoint.
func (p *pass) endPage(ctx context.Context, req opencode.Request, next string) error {
	if !p.whole() { // a run over directories leaves the whole walk's checkpoint alone
		return p.in.flush(ctx, nil)
	}
	return p.in.flush(ctx, &index.Checkpoint{Upstream: p.up.Name, Run: p.run, Generation: p.generation,
		List: string(req.Route), Cursor: next, Pages: p.rep.Pages, Seen: max(len(p.walked), len(p.in.seen)), Done: next == ""})
}

// overBudget reports whether the walk has used its budget of pages or of time,
// and notes it as the reason why the run is not complete.
func (p *pass) overBudget(pages int) bool {
	cfg := &p.w.cfg
	var why *fault.Error
	switch {
	case cfg.PageBudget > 0 && pages >= cfg.PageBudget:
		why = fault.New(PageBudget, fmt.Sprintf("stopped after %d pages, the page budget", pages),
			"index.page_budget = 0 walks to the end")
	case p.late():
		why = fault.New(TimeBudget, fmt.Sprintf("stopped after %s, the time budget", cfg.TimeBudget),
			"index.time_budget sets how long a run may take")
	default:
		return false
	}
	p.incomplete = why.Again()
	return true
}

// late reports whether the time budget is used up.
func (p *pass) late() bool {
	cfg := &p.w.cfg
	return cfg.TimeBudget > 0 && cfg.Now().Sub(p.started) >= cfg.TimeBudget
}

// cut reports whether something was left out, so that the run must not
// conclude.
func (p *pass) cut() bool { return p.incomplete != nil }

// saveWalk keeps an unfinished walk for the next run.
func (p *pass) saveWalk(ctx context.Context, req opencode.Request) error {
	if p.req.DryRun || !p.whole() {
		return nil
	}
	ids := slices.Sorted(maps.Keys(p.in.seen))
	if p.twice {
		ids = slices.Sorted(maps.Keys(p.walked))
	}
	return p.w.cfg.Store.SaveWalk(context.WithoutCancel(ctx), p.fence, index.Walk{
		Checkpoint: index.Checkpoint{Upstream: p.up.Name, Run: p.run, Generation: p.generation,
			List: string(req.Route), Cursor: req.Cursor, Pages: p.rep.Pages, Seen: len(ids)}, IDs: ids})
}

// walkAnew gives an unfinished walk up whose token the server takes no more,
// and starts another.
func (p *pass) walkAnew(ctx context.Context, dir string, to func(context.Context) sink) error {
	if err := p.dropWalk(ctx); err != nil {
		return err
	}
	p.resume = nil
	p.generation++
	p.walked = nil
	if !p.twice {
		clear(p.in.seen) // nothing but what the old walk had seen
	}
	return p.walk(ctx, dir, to)
}

func (p *pass) dropWalk(ctx context.Context) error {
	if p.req.DryRun || !p.whole() || p.resume == nil && !p.req.Full {
		return nil
	}
	return p.w.cfg.Store.DropWalk(context.WithoutCancel(ctx), p.fence, p.up.Name)
}

// maxPages is where any list ends, whatever it says: a server that makes up
// tokens for ever must not keep a run for ever.
const maxPages = 100_000

// tokens are the page tokens that a walk has followed.
type tokens map[string]struct{}

// follow notes a token and refuses one that was followed before: the walk
// would go round for ever.
func (t tokens) follow(token string, route opencode.Route, pages int) error {
	if len(t) >= maxPages {
		return fault.New(PageBudget, fmt.Sprintf("%s has not ended after %d pages; what came before is kept", route, pages),
			"the server's list cannot be walked to its end; restart or update it")
	}
	if _, repeated := t[token]; repeated {
		return fault.New(CursorRepeated, fmt.Sprintf("%s sent the same page token twice after %d pages; what came before is kept", route, pages),
			"the server's list cannot be walked to its end; restart or update it")
	}
	t[token] = struct{}{}
	return nil
}

// clearMetadata settles what a row without metadata means where the envelope
// is the only list. When the server lists metadata (some row carries some, or
// it is of 2.x, where rows do), a row without it has none: a stamp that was
// there is gone.
func (p *pass) clearMetadata(ctx context.Context) error {
	silent := p.in.silent
	p.in.silent = nil
	if !p.documents && !strings.HasPrefix(p.caps.Version, "2.") {
		return nil
	}
	ids, err := p.w.cfg.Store.Documented(ctx, p.up.Name)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { _, ok := silent[id]; return !ok })
	_, err = p.eachLookup(ctx, ids, func(id string) error {
		rec, err := p.record(ctx, id)
		if fault.Is(err, fault.NotFound) {
			return nil // gone since; the next run says so
		}
		if err != nil {
			return err
		}
		if rec.Metadata == nil {
			rec.Metadata = index.NoMetadata()
		}
		return p.in.rewrite(ctx, &rec)
	})
	return err
}
