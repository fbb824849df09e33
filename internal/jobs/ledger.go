package jobs

import (
	"context"
	"encoding/json"

	"annals/internal/index"
)

// Outcome is how a run or one of its targets ended. "" means that it has not.
type Outcome string

// The outcomes of the ledger.
const (
	Running Outcome = ""
	OK      Outcome = "ok"
	Partial Outcome = "partial" // something was left out and is named
	Held    Outcome = "held"    // a mass change waits to be accepted
	Failed  Outcome = "failed"
	Lost    Outcome = "lost" // its process died
)

// Run is one run of the worker: what started it and how it ended. Times are
// milliseconds since the epoch, UTC; FinishedAt is 0 while it runs.
type Run struct {
	ID         string
	Trigger    string // "manual" so far
	Owner      string // as Keeper.Owner has it; tells a run that waits from one that died
	StartedAt  int64
	FinishedAt int64
	Outcome    Outcome
	ErrorCode  string // of the fault that ended it; "" otherwise
	Error      string // its message; never session text or a secret
	Targets    []Target
}

// Target is one job of a run on one upstream.
type Target struct {
	Run        string
	Job        string // "index" so far
	Name       string // the upstream
	Epoch      int64  // of the lease it ran under
	StartedAt  int64
	FinishedAt int64
	Outcome    Outcome
	ErrorCode  string
	Error      string
	Detail     json.RawMessage // the target's part of the report, as `sync --json` prints it; {} while it runs
}

// Lease is the claim of one process on one job.
type Lease struct {
	Job    string
	Target string
	Epoch  int64  // counts the owners; each new owner raises it
	Run    string // "" when nobody holds it
	Owner  string // "host:pid"
	// Lock is the token of the lock file that the owner has locked: whoever
	// gets that lock knows that this owner is gone. "" when it has none.
	Lock    string
	Expires int64 // ms; past this another process may take it
}

// Held reports whether the lease keeps others out at a time in ms.
func (l *Lease) Held(now int64) bool { return l != nil && l.Run != "" && l.Expires > now }

// Ledger is what this package needs of a database. All writes are
// transactions of their own. The fenced ones check the fence inside theirs and
// fail with code fault.Fenced when the lease has another owner by now, or none.
type Ledger interface {
	// StartRun records a run.
	StartRun(ctx context.Context, r Run) error
	// FinishRun closes a run. What it left open of its targets is closed as
	// Lost. Closing a run that is closed already is an error with code
	// fault.Fenced, closing one that was never started fault.NotFound.
	FinishRun(ctx context.Context, r Run) error
	// TakeLease makes the run in l the owner of (job, target), raises the epoch
	// and records the target as started, in one transaction. While another run
	// holds an unexpired lease it refuses with code fault.Busy, unless the epoch
	// of that lease is dead: then the caller knows that its owner is gone (0:
	// it knows of none). The run has to be in the ledger (fault.NotFound) and
	// open (fault.Fenced). Targets of the same job left open by earlier owners
	// are closed as Lost, and so are their runs when nothing else of them is
	// open; the ids of these runs are returned.
	TakeLease(ctx context.Context, l Lease, now int64, dead int64) (index.Fence, []string, error)
	// RenewLease moves the expiry of a lease that fence still owns.
	RenewLease(ctx context.Context, fence index.Fence, expires int64) error
	// FinishTarget closes a target and frees its lease, in one transaction.
	FinishTarget(ctx context.Context, fence index.Fence, t Target) error
	// LoseRun closes a run and its open targets as Lost at a time in ms, and
	// frees their leases. dead are the leases of exactly these targets; when
	// something else of the run is open by now, or it is closed already,
	// nothing happens and the answer is false.
	LoseRun(ctx context.Context, run string, dead []index.Fence, at int64) (bool, error)
	// Lease returns the lease of (job, target), or nil when there never was
	// one.
	Lease(ctx context.Context, job, target string) (*Lease, error)
	// Runs returns the newest runs first, with their targets; all of them when
	// limit is 0.
	Runs(ctx context.Context, limit int) ([]Run, error)
	// OpenRuns returns the runs that have not ended, the newest first.
	OpenRuns(ctx context.Context) ([]Run, error)
	// Run returns one run; an unambiguous prefix of at least 8 characters of
	// its id will do. Codes fault.NotFound, and fault.Usage when the prefix
	// fits several.
	Run(ctx context.Context, id string) (Run, error)
}
