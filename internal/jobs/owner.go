package jobs

import (
	"context"
	"strconv"
	"strings"
	"time"

	"annals/internal/index"
)

// abandoned is how long a run may have nothing to do, waiting for a job or
// between two, before it counts as lost although its process cannot be seen.
const abandoned = 24 * time.Hour

// gone reports whether the owner of a lease is known to be dead: its lock is
// ours (token is that of the lock we have, "" for none), or it was a process
// of this machine that is no more. Of another machine's owner nothing is known
// until its lease ends.
func (k *Keeper) gone(l *Lease, token string) bool {
	return token != "" && l.Lock == token || k.dead(l.Owner)
}

// dead reports whether an owner was a process of this machine and is no more.
// A process id that has been given out again looks alive, which only makes
// others wait.
func (k *Keeper) dead(owner string) bool {
	host, pid, ok := parseOwner(owner)
	here, _, _ := parseOwner(k.cfg.Owner)
	return ok && host == here && !alive(pid)
}

// parseOwner takes "host:pid" apart.
func parseOwner(owner string) (host string, pid int, ok bool) {
	i := strings.LastIndexByte(owner, ':')
	if i < 0 {
		return "", 0, false
	}
	pid, err := strconv.Atoi(owner[i+1:])
	return owner[:i], pid, err == nil && pid > 0
}

// CloseOrphans closes as Lost every run that no live process owns, as `doctor
// --fix` and a starting daemon do, and returns their ids.
func (k *Keeper) CloseOrphans(ctx context.Context) ([]string, error) {
	open, err := k.cfg.Ledger.OpenRuns(ctx)
	if err != nil {
		return nil, err
	}
	var lost []string
	for i := range open {
		closed, err := k.closeOrphan(ctx, &open[i])
		if err != nil {
			return lost, err
		}
		if closed {
			lost = append(lost, open[i].ID)
		}
	}
	return lost, nil
}

func (k *Keeper) closeOrphan(ctx context.Context, r *Run) (bool, error) {
	var dead []index.Fence
	last := r.StartedAt
	for i := range r.Targets {
		t := &r.Targets[i]
		last = max(last, t.StartedAt, t.FinishedAt)
		if t.Outcome != Running {
			continue
		}
		lock, err := k.lockFor(t.Job, t.Name)
		if err != nil {
			return false, err
		}
		locked, err := lock.try()
		if err != nil {
			return false, err
		}
		if locked { // kept until the run is closed, so that nobody takes the job meanwhile
			defer func() { _ = lock.release() }()
		}
		owned, err := k.owned(ctx, t, lock, locked)
		if owned || err != nil {
			return false, err
		}
		dead = append(dead, index.Fence{Job: t.Job, Target: t.Name, Epoch: t.Epoch})
	}
	if len(dead) == 0 && !k.dead(r.Owner) && k.now()-last < abandoned.Milliseconds() {
		return false, nil // it waits for a job, or is between two
	}
	return k.cfg.Ledger.LoseRun(ctx, r.ID, dead, k.now())
}

// owned reports whether a live process may still work on an open target.
func (k *Keeper) owned(ctx context.Context, t *Target, lock *lockFile, locked bool) (bool, error) {
	l, err := k.cfg.Ledger.Lease(ctx, t.Job, t.Name)
	if err != nil || l == nil || l.Run != t.Run || l.Epoch != t.Epoch {
		return false, err
	}
	if !locked {
		return !k.dead(l.Owner), nil // the lock is somebody's, most likely its
	}
	return l.Held(k.now()) && !k.gone(l, lock.token), nil
}
