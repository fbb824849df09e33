package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"annals/internal/fault"
	"annals/internal/index"
)

// Hold is ownership of one job, renewed in the background until Finish.
type Hold struct {
	keeper *Keeper
	fence  index.Fence
	lease  Lease
	lost   []string
	lock   *lockFile // nil when a silent owner still has it

	ctx    context.Context
	cancel context.CancelCauseFunc
	base   context.Context // the caller's without its end: Finish works past it
	stop   context.CancelFunc
	quiet  chan struct{} // closed when the renewal has ended

	once sync.Once
	err  error // what Finish returned
}

func (k *Keeper) hold(ctx context.Context, fence index.Fence, lease Lease, lost []string, lock *lockFile) *Hold {
	h := &Hold{keeper: k, fence: fence, lease: lease, lost: lost, lock: lock,
		base: context.WithoutCancel(ctx), quiet: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	renewal, stop := context.WithCancel(h.base)
	h.stop = stop
	go h.renew(renewal)
	return h
}

// Context is done when the caller's is, and also when the lease was lost; its
// cause is then an error with code fault.Fenced. After Finish it is done.
func (h *Hold) Context() context.Context { return h.ctx }

// Fence is what each write of the job carries.
func (h *Hold) Fence() index.Fence { return h.fence }

// LostRuns are the runs that this one closed as lost when it took over.
func (h *Hold) LostRuns() []string { return h.lost }

// renew keeps the lease until ctx ends or the lease is lost.
func (h *Hold) renew(ctx context.Context) {
	defer close(h.quiet)
	k := h.keeper
	tick := time.NewTicker(k.renewEvery())
	defer tick.Stop()
	for expires := h.lease.Expires; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next := k.now() + k.cfg.TTL.Milliseconds()
		err := h.renewOnce(ctx, next)
		switch {
		case err == nil:
			expires = next
		case ctx.Err() != nil:
			return
		case fault.Is(err, fault.Fenced):
			h.cancel(err)
			return
		case k.now() >= expires:
			h.cancel(fault.Wrap(err, fault.Fenced, "see the store; what was committed before is kept",
				"this job's lease ended and could not be renewed").Again())
			return
		}
	}
}

func (h *Hold) renewOnce(ctx context.Context, expires int64) error {
	ctx, cancel := context.WithTimeout(ctx, h.keeper.renewEvery())
	defer cancel()
	return h.keeper.cfg.Ledger.RenewLease(ctx, h.fence, expires)
}

// Finish records how the target ended, frees the lease and the lock, and ends
// the renewal. t needs Outcome, ErrorCode, Error and Detail only. It works
// although the context is done, and fails with code fault.Fenced when the
// lease was lost. It is called once, also after a failure; another call
// returns what the first one did.
func (h *Hold) Finish(t Target) error {
	h.once.Do(func() { h.err = h.finish(t) })
	return h.err
}

func (h *Hold) finish(t Target) error {
	h.stop()
	<-h.quiet
	k := h.keeper
	t.Run, t.Job, t.Name, t.Epoch = h.lease.Run, h.fence.Job, h.fence.Target, h.fence.Epoch
	t.FinishedAt = k.now()
	ctx, cancel := context.WithTimeout(h.base, k.cfg.TTL)
	defer cancel()
	err := k.cfg.Ledger.FinishTarget(ctx, h.fence, t)
	h.cancel(errFinished)
	// The lock goes last: who gets it next must find the lease free.
	if h.lock != nil {
		if e := h.lock.release(); e != nil {
			err = errors.Join(err, k.lockFault(e))
		}
	}
	return err
}

var errFinished = errors.New("the job is finished")
