package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"annals/internal/fault"
	"annals/internal/jobs"
)

const (
	job    = "index"
	target = "local"
	ttl    = 30 * time.Second
)

// here is an owner on this machine, alive: this process.
var here = fmt.Sprintf("here:%d", os.Getpid())

// keeper returns a Keeper of a process, in a lock directory.
func keeper(l jobs.Ledger, dir string) *jobs.Keeper {
	return jobs.New(jobs.Config{Ledger: l, LockDir: dir, StoreID: "store", Owner: here, Now: time.Now, TTL: ttl})
}

// acquire takes the usual job or fails the test.
func acquire(t *testing.T, k *jobs.Keeper, run string, wait time.Duration) *jobs.Hold {
	t.Helper()
	h, err := k.Acquire(t.Context(), job, target, run, wait, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func finish(t *testing.T, h *jobs.Hold) {
	t.Helper()
	if err := h.Finish(jobs.Target{Outcome: jobs.OK}); err != nil {
		t.Fatal(err)
	}
}

// busy fails the test unless the job is somebody else's.
func busy(t *testing.T, k *jobs.Keeper, wait time.Duration) *fault.Error {
	t.Helper()
	h, err := k.Acquire(t.Context(), job, target, "other", wait, nil)
	if h != nil {
		t.Fatal("the job of another owner was taken")
	}
	f := fault.From(err)
	if f.Code != fault.Busy || !f.Retryable {
		t.Fatalf("the error is %v", err)
	}
	return f
}

// after waits on the test's clock.
func after(d time.Duration) { <-time.After(d) }

func lease(t *testing.T, l jobs.Ledger) jobs.Lease {
	t.Helper()
	have, err := l.Lease(t.Context(), job, target)
	if err != nil || have == nil {
		t.Fatal(have, err)
	}
	return *have
}

func TestALeaseIsRenewedUntilTheJobIsFinished(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := acquire(t, keeper(m, dir), "one", 0)
		for range 10 {
			after(ttl)
			if l := lease(t, m); !l.Held(time.Now().UnixMilli()) {
				t.Fatalf("the lease ended: %+v", l)
			}
		}
		if err := h.Context().Err(); err != nil {
			t.Fatal(err)
		}
		detail := jobs.Target{Outcome: jobs.Partial, ErrorCode: "page_budget", Error: "stopped", Detail: []byte(`{"seen":1}`)}
		if err := h.Finish(detail); err != nil {
			t.Fatal(err)
		}
		done := m.closed[0]
		if done.Run != "one" || done.Job != job || done.Name != target || done.Epoch != 1 || done.FinishedAt != time.Now().UnixMilli() ||
			done.Outcome != jobs.Partial || done.Error != "stopped" || string(done.Detail) != `{"seen":1}` {
			t.Fatalf("closed as %+v", done)
		}
		if h.Context().Err() == nil {
			t.Fatal("the context of a finished job goes on")
		}
		if l := lease(t, m); l.Run != "" {
			t.Fatalf("the lease is held: %+v", l)
		}
	})
}

func TestALeaseThatIsTakenOverEndsTheContext(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := acquire(t, keeper(m, dir), "one", 0)
		m.set(jobs.Lease{Job: job, Target: target, Epoch: 2, Run: "two", Owner: "there:1", Expires: time.Now().Add(time.Hour).UnixMilli()})
		began := time.Now()
		<-h.Context().Done()
		if took := time.Since(began); took > ttl/3 {
			t.Errorf("it took %v to notice", took)
		}
		if cause := context.Cause(h.Context()); !fault.Is(cause, fault.Fenced) {
			t.Errorf("the cause is %v", cause)
		}
		if err := h.Finish(jobs.Target{Outcome: jobs.OK}); !fault.Is(err, fault.Fenced) {
			t.Errorf("a lost job was finished: %v", err)
		}
	})
}

func TestALeaseThatCannotBeRenewedUntilItEndsEndsTheContext(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		broken := errors.New("the disk is gone")
		m.fail = func() error { return broken }
		h := acquire(t, keeper(m, dir), "one", 0)
		began := time.Now()
		<-h.Context().Done()
		if took := time.Since(began); took < ttl || took > ttl+ttl/3 {
			t.Errorf("it ended after %v", took)
		}
		if cause := context.Cause(h.Context()); !fault.Is(cause, fault.Fenced) || !errors.Is(cause, broken) {
			t.Errorf("the cause is %v", cause)
		}
		finish(t, h) // the database is back, and nobody has taken the job
	})
}

func TestARenewalThatFailsIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		calls := 0
		m.fail = func() error {
			if calls++; calls%3 != 0 {
				return fault.New(fault.Busy, "busy", "").Again()
			}
			return nil
		}
		h := acquire(t, keeper(m, dir), "one", 0)
		after(10 * ttl)
		if err := context.Cause(h.Context()); err != nil {
			t.Error(err)
		}
		finish(t, h)
	})
}

func TestAJobIsFinishedAfterItsCallerHasStopped(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		ctx, cancel := context.WithCancel(t.Context())
		h, err := keeper(m, dir).Acquire(ctx, job, target, "one", 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-h.Context().Done()
		after(2 * ttl) // the last page takes its time, and keeps the lease
		finish(t, h)
		if len(m.closed) != 1 {
			t.Fatal("the target was not closed")
		}
		finish(t, h) // once more does nothing
		if len(m.closed) != 1 {
			t.Fatal("the target was closed twice")
		}
	})
}

func TestAnOwnerIsWaitedForAndNamedOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		first, second := keeper(m, dir), keeper(m, dir)
		h := acquire(t, first, "one", 0)
		go func() {
			after(5 * time.Second)
			if err := h.Finish(jobs.Target{Outcome: jobs.OK}); err != nil {
				t.Error(err)
			}
		}()
		var named []jobs.Lease
		began := time.Now()
		next, err := second.Acquire(t.Context(), job, target, "two", time.Minute, func(l jobs.Lease) { named = append(named, l) })
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it was waited for %v", took)
		}
		if len(named) != 1 || named[0].Run != "one" || named[0].Owner != here {
			t.Errorf("named %+v", named)
		}
		if len(next.LostRuns()) != 0 || next.Fence().Epoch != 2 {
			t.Errorf("lost %q at epoch %d", next.LostRuns(), next.Fence().Epoch)
		}
		finish(t, next)
	})
}

func TestAnOwnerThatDoesNotEndIsNamed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		if err := m.StartRun(t.Context(), jobs.Run{ID: "one", StartedAt: time.Now().UnixMilli()}); err != nil {
			t.Fatal(err)
		}
		h := acquire(t, keeper(m, dir), "one", 0)
		for _, wait := range []time.Duration{0, 10 * time.Second, 10 * ttl} {
			began := time.Now()
			f := busy(t, keeper(m, dir), wait)
			if took := time.Since(began); took != wait {
				t.Errorf("with a wait of %v it took %v", wait, took)
			}
			for _, part := range []string{"one", here, "2000-01-01T00:00:00Z"} {
				if !strings.Contains(f.Hint, part) {
					t.Errorf("the hint %q does not name %q", f.Hint, part)
				}
			}
		}
		finish(t, h)
	})
}

func TestWithoutAWaitNobodyIsTold(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := acquire(t, keeper(m, dir), "one", 0)
		_, err := keeper(m, dir).Acquire(t.Context(), job, target, "two", 0, func(jobs.Lease) { t.Error("somebody was told") })
		if !fault.Is(err, fault.Busy) {
			t.Error(err)
		}
		finish(t, h)
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := acquire(t, keeper(m, dir), "one", 0)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := keeper(m, dir).Acquire(ctx, job, target, "two", time.Hour, nil)
		if !fault.Is(err, fault.Cancelled) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		finish(t, h)
	})
}

func TestJobsTargetsAndStoresAreApart(t *testing.T) {
	m, dir := newMemory(), t.TempDir()
	k := keeper(m, dir)
	other := jobs.New(jobs.Config{Ledger: newMemory(), LockDir: dir, StoreID: "another", Owner: here, Now: time.Now})
	for _, name := range []string{"local", "../../etc/passwd", "a/b", "", "nul\x00", strings.Repeat("long", 200)} {
		h, err := k.Acquire(t.Context(), job, name, "one", 0, nil)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		defer finish(t, h)
	}
	h, err := k.Acquire(t.Context(), "another job", "local", "one", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	finish(t, h)
	finish(t, acquire(t, other, "one", 0))
}

func TestOwnersThatTheLockDoesNotReach(t *testing.T) {
	const nobody = 1 << 30 // above any process id
	tests := []struct {
		name, owner string
		taken       bool // at once; otherwise when the lease ends
	}{
		{"a live process of this machine, with locks elsewhere", here, false},
		{"a dead process of this machine", fmt.Sprintf("here:%d", nobody), true},
		{"a process of another machine", fmt.Sprintf("there:%d", nobody), false},
		{"an owner that does not say", "somebody", false},
		{"an owner that makes no sense", "here:-1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				m.set(jobs.Lease{Job: job, Target: target, Epoch: 7, Run: "old", Owner: tt.owner, Lock: "another lock", Expires: time.Now().Add(ttl).UnixMilli()})
				k := keeper(m, dir)
				if !tt.taken {
					busy(t, k, 0)
					began := time.Now()
					h := acquire(t, k, "new", time.Hour)
					if took := time.Since(began); took < ttl || took > ttl+time.Second {
						t.Errorf("taken after %v", took)
					}
					finish(t, h)
					return
				}
				h := acquire(t, k, "new", 0)
				if h.Fence().Epoch != 8 || len(h.LostRuns()) != 1 {
					t.Errorf("epoch %d, lost %q", h.Fence().Epoch, h.LostRuns())
				}
				finish(t, h)
			})
		})
	}
}

func TestADeadOwnerWhoseProcessIDLivesOnIsKnownByItsLock(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := acquire(t, keeper(m, dir), "one", 0)
		left := lease(t, m)
		finish(t, h)
		m.set(left) // as if it had died: the lock is free, the lease is not
		next := acquire(t, keeper(m, dir), "two", 0)
		if len(next.LostRuns()) != 1 || next.LostRuns()[0] != "one" {
			t.Errorf("lost %q", next.LostRuns())
		}
		finish(t, next)
	})
}

// TestASilentOwner is about an owner that has its lock and lets its lease end:
// it is stopped, or it has just woken up with the whole machine.
func TestASilentOwner(t *testing.T) {
	for _, wakes := range []bool{false, true} {
		t.Run(fmt.Sprintf("that wakes up %v", wakes), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				asleep := true
				m.fail = func() error {
					if asleep {
						return errors.New("stopped")
					}
					return nil
				}
				h := acquire(t, keeper(m, dir), "one", 0)
				l := lease(t, m)
				l.Expires = time.Now().UnixMilli() // hours have passed
				m.set(l)
				m.mu.Lock()
				asleep = !wakes
				m.mu.Unlock()
				next, err := keeper(m, dir).Acquire(t.Context(), job, target, "two", ttl-time.Second, nil)
				if wakes {
					if !fault.Is(err, fault.Busy) {
						t.Errorf("the job was taken from an owner that woke up: %v", err)
					}
					finish(t, h)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				// The lock is still the first one's. When it gives it back, a
				// third one may have the lock, and not the job.
				if err := h.Finish(jobs.Target{Outcome: jobs.OK}); !fault.Is(err, fault.Fenced) {
					t.Errorf("the old owner finished: %v", err)
				}
				busy(t, keeper(m, dir), 0)
				m.mu.Lock()
				m.fail = nil
				m.mu.Unlock()
				finish(t, next)
				finish(t, acquire(t, keeper(m, dir), "three", 0))
			})
		})
	}
}

func TestAnEndedLeaseOfASilentOwnerIsTakenAtOnceWithoutAWait(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := acquire(t, keeper(m, dir), "one", 0)
		l := lease(t, m)
		l.Expires = time.Now().UnixMilli()
		m.set(l)
		next := acquire(t, keeper(m, dir), "two", 0)
		if err := h.Finish(jobs.Target{Outcome: jobs.OK}); !fault.Is(err, fault.Fenced) {
			t.Error(err)
		}
		finish(t, next)
	})
}
