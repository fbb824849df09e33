package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
)

// lostWhy is what the ledger says of a run whose process died.
const (
	lostCode = "lost"
	lostWhy  = "its process ended without a word"
)

// StartRun records a run.
func (s *Store) StartRun(ctx context.Context, r jobs.Run) error {
	return s.writeTx(ctx, "run", index.Fence{}, false, func(t *tx) error {
		return t.exec(`INSERT INTO runs (id, cause, owner, started_at, finished_at, outcome, error_code, error)
			VALUES ($1, $2, $3, $4, 0, '', '', '')`, r.ID, r.Trigger, r.Owner, r.StartedAt)
	})
}

// FinishRun closes a run, and as Lost what it left open of its targets.
func (s *Store) FinishRun(ctx context.Context, r jobs.Run) error {
	if r.Outcome == jobs.Running {
		return fault.New(fault.Internal, "a run cannot end without an outcome", "")
	}
	return s.writeTx(ctx, "run", index.Fence{}, false, func(t *tx) error {
		if err := t.openRun(r.ID); err != nil {
			return err
		}
		err := t.exec(`UPDATE runs SET finished_at = $1, outcome = $2, error_code = $3, error = $4 WHERE id = $5`,
			r.FinishedAt, string(r.Outcome), r.ErrorCode, r.Error, r.ID)
		if err != nil {
			return err
		}
		return t.loseTargets(r.ID, r.FinishedAt)
	})
}

// openRun checks that a run is in the ledger and has not ended.
func (t *tx) openRun(id string) error {
	var outcome string
	err := t.QueryRowContext(t.ctx, `SELECT outcome FROM runs WHERE id = $1`, id).Scan(&outcome)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return noRun(id)
	case err != nil:
		return err
	case outcome != "":
		return fault.New(fault.Fenced, fmt.Sprintf("run %s is closed as %s", id, outcome),
			"another process took over; see `annals runs list`")
	}
	return nil
}

func noRun(id string) error {
	return fault.New(fault.NotFound, fmt.Sprintf("there is no run %q", id), "see `annals runs list`")
}

// loseTargets closes the open targets of a run as Lost and frees its leases.
func (t *tx) loseTargets(run string, at int64) error {
	err := t.exec(`UPDATE run_targets SET outcome = $1, finished_at = $2, error_code = $3, error = $4 WHERE run = $5 AND outcome = ''`,
		string(jobs.Lost), at, lostCode, lostWhy, run)
	if err != nil {
		return err
	}
	return t.exec(`UPDATE leases SET run = '', owner = '', lock_token = '', expires = 0 WHERE run = $1`, run)
}

// TakeLease makes l.Run the owner of (l.Job, l.Target).
func (s *Store) TakeLease(ctx context.Context, l jobs.Lease, now, dead int64) (index.Fence, []string, error) {
	var lost []string
	fence := index.Fence{Job: l.Job, Target: l.Target}
	err := s.writeTx(ctx, "lease", index.Fence{}, false, func(t *tx) error {
		if err := t.openRun(l.Run); err != nil {
			return err
		}
		have, err := lease(t.ctx, t, l.Job, l.Target)
		if err != nil {
			return err
		}
		if have.Held(now) && have.Run != l.Run && have.Epoch != dead {
			return fault.New(fault.Busy, fmt.Sprintf("run %s holds %s %q", have.Run, l.Job, l.Target), "").Again()
		}
		fence.Epoch = 1
		if have != nil {
			fence.Epoch = have.Epoch + 1
		}
		err = t.exec(`INSERT INTO leases (job, target, epoch, run, owner, lock_token, expires) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (job, target) DO UPDATE SET epoch = excluded.epoch, run = excluded.run, owner = excluded.owner,
			lock_token = excluded.lock_token, expires = excluded.expires`,
			l.Job, l.Target, fence.Epoch, l.Run, l.Owner, l.Lock, l.Expires)
		if err != nil {
			return err
		}
		if lost, err = t.loseEarlier(&l, now); err != nil {
			return err
		}
		return t.exec(`INSERT INTO run_targets (run, job, name, epoch, started_at, finished_at, outcome, error_code, error, detail)
			VALUES ($1, $2, $3, $4, $5, 0, '', '', '', $6)
			ON CONFLICT (run, job, name) DO UPDATE SET epoch = excluded.epoch, started_at = excluded.started_at, finished_at = 0,
			outcome = '', error_code = '', error = '', detail = excluded.detail`,
			l.Run, l.Job, l.Target, fence.Epoch, now, []byte("{}"))
	})
	if err != nil {
		return index.Fence{}, nil, err
	}
	return fence, lost, nil
}

// loseEarlier closes what earlier owners of a job left open, and the runs of
// which nothing else is open. It returns the ids of these.
func (t *tx) loseEarlier(l *jobs.Lease, now int64) ([]string, error) {
	var runs []string
	err := t.each(func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		runs = append(runs, id)
		return err
	}, `UPDATE run_targets SET outcome = $1, finished_at = $2, error_code = $3, error = $4
		WHERE job = $5 AND name = $6 AND outcome = '' AND run <> $7 RETURNING run`,
		string(jobs.Lost), now, lostCode, lostWhy, l.Job, l.Target, l.Run)
	if err != nil {
		return nil, err
	}
	var lost []string
	for _, id := range runs {
		n, err := t.affect(`UPDATE runs SET outcome = $1, finished_at = $2, error_code = $3, error = $4 WHERE id = $5 AND outcome = ''
			AND NOT EXISTS (SELECT 1 FROM run_targets x WHERE x.run = $5 AND x.outcome = '')`,
			string(jobs.Lost), now, lostCode, lostWhy, id)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			lost = append(lost, id)
		}
	}
	return lost, nil
}

// RenewLease moves the expiry of a lease that fence still owns.
func (s *Store) RenewLease(ctx context.Context, fence index.Fence, expires int64) error {
	return s.writeTx(ctx, "lease", fence, false, func(t *tx) error {
		return t.exec(`UPDATE leases SET expires = $1 WHERE job = $2 AND target = $3`, expires, fence.Job, fence.Target)
	})
}

// FinishTarget closes a target and frees its lease.
func (s *Store) FinishTarget(ctx context.Context, fence index.Fence, target jobs.Target) error {
	if target.Outcome == jobs.Running {
		return fault.New(fault.Internal, "a target cannot end without an outcome", "")
	}
	detail := []byte(target.Detail)
	if len(detail) == 0 {
		detail = []byte("{}")
	}
	return s.writeTx(ctx, "target", fence, false, func(t *tx) error {
		n, err := t.affect(`UPDATE run_targets SET finished_at = $1, outcome = $2, error_code = $3, error = $4, detail = $5
			WHERE run = $6 AND job = $7 AND name = $8 AND outcome = ''`,
			target.FinishedAt, string(target.Outcome), target.ErrorCode, target.Error, detail, target.Run, target.Job, target.Name)
		if err != nil {
			return err
		}
		if n == 0 {
			return fenced()
		}
		return t.exec(`UPDATE leases SET run = '', owner = '', lock_token = '', expires = 0 WHERE job = $1 AND target = $2 AND run = $3`,
			target.Job, target.Name, target.Run)
	})
}

// LoseRun closes a run whose process is known to be gone.
func (s *Store) LoseRun(ctx context.Context, run string, dead []index.Fence, at int64) (bool, error) {
	lost := false
	err := s.writeTx(ctx, "run", index.Fence{}, false, func(t *tx) error {
		if err := t.openRun(run); err != nil {
			if fault.Is(err, fault.Fenced) {
				return nil
			}
			return err
		}
		known := make(map[index.Fence]bool, len(dead))
		for _, f := range dead {
			known[f] = true
		}
		err := t.each(func(rows *sql.Rows) error {
			var f index.Fence
			err := rows.Scan(&f.Job, &f.Target, &f.Epoch)
			if err == nil && !known[f] {
				known = nil // it has moved on
			}
			return err
		}, `SELECT job, name, epoch FROM run_targets WHERE run = $1 AND outcome = ''`, run)
		if err != nil || known == nil {
			return err
		}
		lost = true
		err = t.exec(`UPDATE runs SET outcome = $1, finished_at = $2, error_code = $3, error = $4 WHERE id = $5`,
			string(jobs.Lost), at, lostCode, lostWhy, run)
		if err != nil {
			return err
		}
		return t.loseTargets(run, at)
	})
	return lost && err == nil, err
}

// Lease returns the lease of (job, target), or nil when there never was one.
func (s *Store) Lease(ctx context.Context, job, target string) (*jobs.Lease, error) {
	l, err := lease(ctx, s.read, job, target)
	return l, s.explain(ctx, err)
}

func lease(ctx context.Context, from queryer, job, target string) (*jobs.Lease, error) {
	l := jobs.Lease{Job: job, Target: target}
	err := from.QueryRowContext(ctx, `SELECT epoch, run, owner, lock_token, expires FROM leases WHERE job = $1 AND target = $2`, job, target).
		Scan(&l.Epoch, &l.Run, &l.Owner, &l.Lock, &l.Expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &l, nil
}
