package worker

import (
	"context"
	"encoding/json"
	"time"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
	"annals/worker/opencode"
)

// Codes of the errors that a walk can end with, beside those of the fault
// package. The first group leaves a run partial, the second holds it.
const (
	CursorRepeated = "cursor_repeated" // the server sent a page token twice
	PageBudget     = "page_budget"     // stopped at the configured number of pages
	TimeBudget     = "time_budget"     // stopped at the configured time
	FullPage       = "full_page"       // a full page, and no way to ask for what is behind it
	Unexplained    = "unexplained"     // two lists differ, and a lookup could not say why
	SomeFailed     = "failed_directories"
	SkippedRows    = "skipped_rows"

	EmptyList  = "empty_list"  // the upstream has no sessions, the index has
	OtherStore = "other_store" // none of the upstream's sessions is known, the index has others
	MassChange = "mass_change" // more would turn missing than max_missing allows
)

// pass is one upstream's part of one run.
type pass struct {
	w      *Worker
	run    string
	up     Upstream
	req    Request
	fence  index.Fence
	server Server
	caps   opencode.Capabilities
	rep    *UpstreamReport
	in     *intake

	scope   []string            // directories as the upstream writes them; one "" means everything
	present map[string]struct{} // ids of the scope that were present before the run
	started time.Time
	rows    int // rows read, of all lists

	counted map[string]struct{} // ids of the independent listing; nil without one
	walked  map[string]int64    // ids of the walk, where it is not the one that feeds the index
	twice   bool                // two lists were read and must agree

	generation int64
	resume     *index.Walk
	skipped    map[string]struct{} // ids in rep.Skipped
	documents  bool                // some row carried metadata
	anonymous  int                 // skipped rows that did not even tell their id
	incomplete *fault.Error        // why the run must not conclude; nil when it may
}

// runUpstream does one upstream's part of a run and fills in its report.
func (w *Worker) runUpstream(ctx context.Context, run string, up Upstream, req Request, fence index.Fence, rep *UpstreamReport) {
	p := &pass{w: w, run: run, up: up, req: req, fence: fence, rep: rep, skipped: map[string]struct{}{}}
	err := p.do(ctx)
	if p.server != nil {
		rep.Requests = p.server.Requests()
	}
	if p.in != nil {
		rep.Seen = len(p.in.seen)
	}
	rep.Counted = len(p.counted)
	switch {
	case err != nil:
		err = stopped(ctx, err)
	case p.incomplete != nil:
		err = p.incomplete
	}
	rep.Outcome = p.outcome(err)
	rep.Error = AsFault(err)
}

func (p *pass) do(ctx context.Context) (err error) {
	server, done, err := p.up.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if e := done(); e != nil && err == nil {
			err = e
		}
	}()
	p.server, p.started = server, p.w.cfg.Now()
	if p.caps, err = server.Probe(ctx); err != nil {
		return err
	}
	p.rep.Version = p.caps.Version
	if err := p.open(ctx); err != nil {
		return err
	}
	if err := p.read(ctx); err != nil {
		return err
	}
	return p.conclude(ctx)
}

// open loads what the run compares with.
func (p *pass) open(ctx context.Context) error {
	st, cfg := p.w.cfg.Store, &p.w.cfg
	known, err := st.Known(ctx, p.up.Name)
	if err != nil {
		return err
	}
	resolver := &index.Resolver{Lexical: p.server.Lexical()}
	dirs, err := p.directories(ctx, resolver)
	if err != nil {
		return err
	}
	p.in = &intake{store: st, fence: p.fence, upstream: p.up.Name, namespace: cfg.Namespace,
		dryRun: p.req.DryRun, full: p.req.Full, size: cfg.PageSize,
		known: known, seen: make(map[string]sighting, len(known)),
		inBatch: map[string]struct{}{}, dirs: dirs, resolver: resolver, rep: p.rep,
		vet: p.vet}
	if err := p.setScope(ctx, resolver, dirs); err != nil {
		return err
	}
	return p.openWalk(ctx)
}

// directories loads the known directories and looks at each again: a link may
// point elsewhere today. A directory that cannot be resolved now keeps the
// form it had; unknown is not disproved.
func (p *pass) directories(ctx context.Context, resolver *index.Resolver) (map[string]string, error) {
	list, err := p.w.cfg.Store.Directories(ctx, p.up.Name)
	if err != nil {
		return nil, err
	}
	dirs := make(map[string]string, len(list))
	var changed []index.Directory
	for _, d := range list {
		if now, ok := resolver.Resolve(d.Given); ok && now != d.Canonical {
			d.Canonical = now
			changed = append(changed, d)
		}
		dirs[d.Given] = d.Canonical
	}
	if len(changed) > 0 && !p.req.DryRun {
		err = p.w.cfg.Store.SetDirectories(ctx, p.fence, p.up.Name, changed)
	}
	return dirs, err
}

// setScope finds what the run may conclude about: everything, or the sessions
// of the named directories under every spelling that the index knows of them.
func (p *pass) setScope(ctx context.Context, resolver *index.Resolver, dirs map[string]string) error {
	p.present = map[string]struct{}{}
	if len(p.req.Directories) == 0 {
		p.scope = []string{""}
		for id, k := range p.in.known {
			if !k.Missing {
				p.present[id] = struct{}{}
			}
		}
		return nil
	}
	listed := map[string]bool{}
	add := func(dir string) {
		if dir != "" && !listed[dir] {
			listed[dir] = true
			p.scope = append(p.scope, dir)
		}
	}
	for _, want := range p.req.Directories {
		canonical, _ := resolver.Resolve(want)
		add(want)
		add(canonical)
		for given, c := range dirs {
			if c == canonical {
				add(given)
			}
		}
	}
	ids, err := p.w.cfg.Store.KnownIn(ctx, p.up.Name, p.scope)
	for _, id := range ids {
		p.present[id] = struct{}{}
	}
	return err
}

// whole reports whether the run is about every session of the upstream, and
// not about those of some directories.
func (p *pass) whole() bool { return len(p.req.Directories) == 0 }

// openWalk numbers the walk, and goes on with an unfinished one when it may.
func (p *pass) openWalk(ctx context.Context) error {
	last, err := p.w.cfg.Store.Checkpoint(ctx, p.up.Name)
	if err != nil {
		return err
	}
	p.generation = 1
	if last != nil {
		p.generation = last.Generation + 1
	}
	if p.req.Full || p.req.DryRun || !p.whole() {
		return nil
	}
	p.resume, err = p.w.cfg.Store.LoadWalk(ctx, p.up.Name)
	if p.resume != nil {
		p.generation = p.resume.Generation
	}
	return err
}

// outcome says how the run ended: nothing kept is failed, something left out
// is partial, a mass change is held.
func (p *pass) outcome(err error) jobs.Outcome {
	switch fault.CodeOf(err) {
	case "":
		if err == nil {
			return jobs.OK
		}
	case EmptyList, OtherStore, MassChange:
		return jobs.Held
	case fault.Fenced, fault.Store, fault.Busy:
		return jobs.Failed
	}
	if p.rep.Added+p.rep.Updated+p.rep.Unchanged == 0 && len(p.rep.Skipped) == 0 {
		return jobs.Failed
	}
	return jobs.Partial
}

func detail(rep UpstreamReport) json.RawMessage {
	raw, err := json.Marshal(rep)
	if err != nil { // a struct of texts and numbers always marshals
		return json.RawMessage("{}")
	}
	return raw
}
