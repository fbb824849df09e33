// Package jobs says who runs what. Every run is in the ledger, each job of a
// run is owned by one process at a time through a lease with an epoch, and a
// run whose process died is closed as lost. A lock file tells a dead owner
// from a slow one at once; the lease and its epoch hold where a lock file
// cannot reach.
//
// A job is taken by getting its lock and then its lease. Whoever gets the lock
// that an unexpired lease names knows that its owner is gone, and takes the
// lease from it. An owner that is alive but silent, stopped for longer than
// its lease lasts, keeps its lock: then the lease alone is taken, and the old
// owner finds itself fenced.
package jobs

import (
	"context"
	"fmt"
	"time"

	"annals/internal/fault"
)

// pollEvery is how often a job that somebody else owns is asked for.
const pollEvery = 200 * time.Millisecond

// Config of a Keeper. All fields but TTL are required.
type Config struct {
	Ledger Ledger
	// LockDir holds the lock files; it is made with mode 0700. StoreID keeps
	// the locks of different stores apart.
	LockDir string
	StoreID string
	Owner   string           // "host:pid"
	Now     func() time.Time // the wall clock
	TTL     time.Duration    // life of a lease between renewals; 30 s when 0
}

// Keeper hands out ownership of jobs. It is safe for concurrent use.
type Keeper struct{ cfg Config }

// New returns a Keeper. It touches nothing.
func New(c Config) *Keeper {
	if c.TTL == 0 {
		c.TTL = 30 * time.Second
	}
	return &Keeper{cfg: c}
}

// Owner is what a Run should carry as its owner.
func (k *Keeper) Owner() string { return k.cfg.Owner }

func (k *Keeper) now() int64 { return k.cfg.Now().UnixMilli() }

// renewEvery is how often an owner renews its lease: two renewals may fail
// before it ends.
func (k *Keeper) renewEvery() time.Duration { return k.cfg.TTL / 3 }

// Acquire makes run, which is in the ledger, the owner of (job, target). When
// another live process owns it, waiting (if not nil) is called once with the
// owner's lease, and Acquire tries again until wait has passed, then fails
// with code fault.Busy and a hint that names the owner, its run and its start.
// With a wait of 0 it tries once and calls nobody. It fails with code
// fault.Cancelled when ctx ends first.
func (k *Keeper) Acquire(ctx context.Context, job, target, run string, wait time.Duration, waiting func(Lease)) (*Hold, error) {
	lock, err := k.lockFor(job, target)
	if err != nil {
		return nil, err
	}
	a := attempt{keeper: k, lock: lock, want: Lease{Job: job, Target: target, Run: run, Owner: k.cfg.Owner},
		patience: min(wait, k.cfg.TTL/2)}
	deadline := time.Now().Add(wait)
	for {
		hold, owner, err := a.try(ctx)
		if hold != nil || err != nil {
			return hold, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return nil, k.busy(ctx, &a.want, owner)
		}
		if waiting != nil && owner != nil {
			waiting(*owner)
			waiting = nil
		}
		if err := pause(ctx, min(left, pollEvery)); err != nil {
			return nil, err
		}
	}
}

// pause waits for d, or fails when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fault.Wrap(context.Cause(ctx), fault.Cancelled, "", "stopped while another run was waited for").Again()
	}
}

// busy says who has the job. owner may be nil: somebody is just taking the job
// or just leaving it.
func (k *Keeper) busy(ctx context.Context, want, owner *Lease) error {
	err := fault.New(fault.Busy, fmt.Sprintf("another process has %s %q", want.Job, want.Target),
		"it is just starting or ending; run it again").Again()
	if owner == nil {
		return err
	}
	since := ""
	if r, e := k.cfg.Ledger.Run(ctx, owner.Run); e == nil {
		since = ", started " + time.UnixMilli(r.StartedAt).UTC().Format(time.RFC3339)
	}
	err.Message = fmt.Sprintf("another run has %s %q", want.Job, want.Target)
	err.Hint = fmt.Sprintf("wait for run %s (%s%s) to end, or end that process", owner.Run, owner.Owner, since)
	return err
}

// attempt is one wish to own a job, tried again and again.
type attempt struct {
	keeper *Keeper
	lock   *lockFile
	want   Lease

	// An owner whose lease has ended but who still has its lock is alive. It
	// may just have woken up together with us, so it gets this long to renew,
	// which is longer than a renewal is away.
	patience time.Duration
	seen     Lease // the lease as it was found last
	since    time.Time
}

// try takes the job, or returns the lease of its owner. Both are nil when
// somebody has the lock and nobody the lease.
func (a *attempt) try(ctx context.Context) (*Hold, *Lease, error) {
	k := a.keeper
	locked, err := a.lock.try()
	if err != nil {
		return nil, nil, err
	}
	hold, owner, err := a.take(ctx, locked)
	if hold == nil && locked {
		if e := a.lock.release(); e != nil && err == nil {
			err = k.lockFault(e)
		}
	}
	return hold, owner, err
}

func (a *attempt) take(ctx context.Context, locked bool) (*Hold, *Lease, error) {
	k := a.keeper
	owner, err := k.cfg.Ledger.Lease(ctx, a.want.Job, a.want.Target)
	if err != nil {
		return nil, nil, err
	}
	want, now, token, dead := a.want, k.now(), "", int64(0)
	if locked {
		token = a.lock.token
	}
	if owner.Held(now) {
		if !k.gone(owner, token) {
			return nil, owner, nil
		}
		dead = owner.Epoch
	} else if !locked && !a.silent(owner) {
		if owner != nil && owner.Run == "" {
			owner = nil
		}
		return nil, owner, nil
	}
	want.Lock, want.Expires = token, now+k.cfg.TTL.Milliseconds()
	fence, lost, err := k.cfg.Ledger.TakeLease(ctx, want, now, dead)
	if fault.Is(err, fault.Busy) {
		// Another one was quicker, or the database is busy: see again.
		owner, err = k.cfg.Ledger.Lease(ctx, want.Job, want.Target)
		if err != nil || !owner.Held(now) {
			owner = nil
		}
		return nil, owner, err
	}
	if err != nil {
		return nil, nil, err
	}
	var lock *lockFile
	if locked {
		lock = a.lock
	}
	return k.hold(ctx, fence, want, lost, lock), nil, nil
}

// silent reports whether a lease that no longer keeps anybody out has stayed
// as it is for as long as its owner may take to renew it.
func (a *attempt) silent(l *Lease) bool {
	var now Lease
	if l != nil {
		now = *l
	}
	if a.since.IsZero() || now != a.seen {
		a.seen, a.since = now, time.Now()
	}
	return time.Since(a.since) >= a.patience
}
