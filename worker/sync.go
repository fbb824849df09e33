// Package worker is the sync worker: it walks each upstream's session list
// page by page, projects what it finds, commits it, and proves at the end
// that nothing was left out. It knows no SQL, no HTTP server and no flags.
//
// One run of one upstream goes forward through these steps, each in a file:
//
//	sync.go     own the job, open the ledger, one upstream after the other
//	upstream.go connect, probe, plan, and turn what happened into an outcome
//	passes.go   the lists: the listing, the walk by cursor, the plain lists
//	intake.go   rows into commits: duplicates, digests, directories, chunks
//	proof.go    compare what the lists saw, explain what differs
//	conclude.go what is gone, the brake, the hold
package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
	"annals/internal/metadata"
	"annals/worker/opencode"
)

// IndexJob is the name of the session index's job in the ledger.
const IndexJob = "index"

// Server is what the worker needs of one OpenCode server; *opencode.Client
// is one.
type Server interface {
	Probe(ctx context.Context) (opencode.Capabilities, error)
	List(ctx context.Context, r opencode.Request, yield func(*index.Record) error) (opencode.Summary, error)
	Stubs(ctx context.Context, r opencode.Request, yield func(*index.Record) error) (opencode.Summary, error)
	Lookup(ctx context.Context, caps opencode.Capabilities, id string) (index.Record, error)
	Projects(ctx context.Context) ([]opencode.Project, error)
	Lexical() bool
	Requests() int64
}

// Upstream is one OpenCode server under its configured name.
type Upstream struct {
	Name string
	// Connect returns the server and what to call when the run is over with
	// it. A managed upstream starts its server here.
	Connect func(ctx context.Context) (Server, func() error, error)
}

// Config of a Worker. Store, Ledger, Keeper and Log are required; numbers
// that are 0 take the defaults named.
type Config struct {
	Store  index.Store
	Ledger jobs.Ledger
	Keeper *jobs.Keeper
	Log    *slog.Logger
	Now    func() time.Time // time.Now

	Namespace      string        // metadata namespace; metadata.DefaultNamespace
	PageSize       int           // rows a page; 1000
	PageBudget     int           // pages a run; 0: to the end
	TimeBudget     time.Duration // for the lists of one upstream; 0: none
	MaxMissing     int           // per cent of the known rows; 50
	MaxMissingRows int           // and at least so many rows; 20
	Wait           time.Duration // for another run of the same job to end

	Progress func(Progress)         // after each page; may be nil
	Waiting  func(owner jobs.Lease) // another run is waited for; may be nil
}

// Request is what one run is asked to do.
type Request struct {
	Trigger   string // "manual"
	Upstreams []Upstream
	// Directories limits the run to sessions of these directories, absolute
	// paths as a person names them; empty for all.
	Directories      []string
	Full             bool // start the walk anew and look at every row, whatever is remembered
	DryRun           bool // read everything, write nothing
	AcceptMassChange bool // conclude what the brake would hold
}

// Worker runs syncs. One run function serves the command line, the schedule
// and tests.
type Worker struct{ cfg Config }

// New returns a Worker.
func New(c Config) *Worker {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Namespace == "" {
		c.Namespace = metadata.DefaultNamespace
	}
	if c.PageSize == 0 {
		c.PageSize = 1000
	}
	if c.MaxMissing == 0 {
		c.MaxMissing = 50
	}
	if c.MaxMissingRows == 0 {
		c.MaxMissingRows = 20
	}
	return &Worker{cfg: c}
}

// Sync does one run over the upstreams of the request, one after the other; a
// failing one does not keep the next from running. The error is non-nil only
// when the run could not be recorded: what went wrong at an upstream is in
// its part of the report.
func (w *Worker) Sync(ctx context.Context, req Request) (Report, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Report{}, fault.Wrap(err, fault.Internal, "", "no run id")
	}
	rep := Report{SchemaVersion: 1, Run: id.String(), Trigger: req.Trigger, DryRun: req.DryRun,
		StartedAt: w.now(), Upstreams: []UpstreamReport{}, Sources: []struct{}{}}
	run := jobs.Run{ID: rep.Run, Trigger: req.Trigger, StartedAt: rep.StartedAt}
	if !req.DryRun {
		run.Owner = w.cfg.Keeper.Owner()
		w.closeOrphans(ctx)
		if err := w.cfg.Ledger.StartRun(ctx, run); err != nil {
			return rep, err
		}
	}
	for _, up := range req.Upstreams {
		rep.Upstreams = append(rep.Upstreams, w.syncOne(ctx, rep.Run, up, req))
	}
	rep.FinishedAt, rep.Outcome = w.now(), overall(rep.Upstreams)
	w.logRun(&rep)
	if req.DryRun {
		return rep, nil
	}
	run.FinishedAt, run.Outcome = rep.FinishedAt, rep.Outcome
	for i := range rep.Upstreams {
		if e := rep.Upstreams[i].Error; e != nil && run.Error == "" {
			run.ErrorCode, run.Error = e.Code, e.Message
		}
	}
	return rep, w.cfg.Ledger.FinishRun(context.WithoutCancel(ctx), run)
}

// closeOrphans closes what dead processes left open in the ledger. A run that
// cannot do this can still do its work.
func (w *Worker) closeOrphans(ctx context.Context) {
	lost, err := w.cfg.Keeper.CloseOrphans(ctx)
	if err != nil {
		w.cfg.Log.Warn("the ledger was not tidied", "error", err.Error())
	}
	if len(lost) > 0 {
		w.cfg.Log.Warn("earlier runs did not end; they are closed as lost", "runs", lost)
	}
}

func (w *Worker) now() int64 { return w.cfg.Now().UnixMilli() }

// syncOne owns the upstream's job for as long as its part of the run takes.
func (w *Worker) syncOne(ctx context.Context, run string, up Upstream, req Request) UpstreamReport {
	rep := UpstreamReport{Name: up.Name, Skipped: []SkippedRow{}, FailedDirectories: []string{}}
	if req.DryRun {
		w.runUpstream(ctx, run, up, req, index.Fence{}, &rep)
		return rep
	}
	hold, err := w.cfg.Keeper.Acquire(ctx, IndexJob, up.Name, run, w.cfg.Wait, w.cfg.Waiting)
	if err != nil {
		rep.Outcome, rep.Error = jobs.Failed, AsFault(stopped(ctx, err))
		return rep
	}
	if lost := hold.LostRuns(); len(lost) > 0 {
		w.cfg.Log.Warn("an earlier run fell silent; its job was taken over", "upstream", up.Name, "runs", lost)
	}
	w.runUpstream(hold.Context(), run, up, req, hold.Fence(), &rep)
	target := jobs.Target{Outcome: rep.Outcome, Detail: detail(rep)}
	if rep.Error != nil {
		target.ErrorCode, target.Error = rep.Error.Code, rep.Error.Message
	}
	if err := hold.Finish(target); err != nil {
		rep.Outcome, rep.Error = jobs.Failed, AsFault(err)
	}
	return rep
}

// stopped names a cancellation by what it is: a person's or the service's
// wish to stop, or a lease that was lost.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); fault.Is(cause, fault.Fenced) {
		return cause
	}
	return &fault.Error{Code: fault.Cancelled, Message: "stopped before the end; finished pages are kept",
		Hint: "run it again to go on", Retryable: true}
}

// logRun writes the one line a run leaves in the log.
func (w *Worker) logRun(rep *Report) {
	for i := range rep.Upstreams {
		u := &rep.Upstreams[i]
		level := slog.LevelInfo
		attrs := []any{"run", rep.Run, "upstream", u.Name, "outcome", u.Outcome, "complete", u.Complete,
			"seen", u.Seen, "added", u.Added, "updated", u.Updated, "unchanged", u.Unchanged, "archived", u.Archived,
			"restored", u.Restored, "missing", u.Missing, "held", u.Held, "skipped", len(u.Skipped),
			"pages", u.Pages, "requests", u.Requests, "ms", rep.FinishedAt - rep.StartedAt}
		if u.Error != nil {
			level = slog.LevelWarn
			attrs = append(attrs, "code", u.Error.Code, "error", u.Error.Message)
		}
		w.cfg.Log.Log(context.Background(), level, "sync", attrs...)
	}
}
