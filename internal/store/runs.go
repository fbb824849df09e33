package store

import (
	"context"
	"database/sql"
	"fmt"
	"unicode/utf8"

	"annals/internal/fault"
	"annals/internal/jobs"
)

// shortestRun is how many characters of a run's id may stand for it.
const shortestRun = 8

// Runs returns the newest runs first, with their targets; all of them when
// limit is 0.
func (s *Store) Runs(ctx context.Context, limit int) ([]jobs.Run, error) {
	var c clause
	order := ` ORDER BY r.started_at DESC, r.id DESC`
	if limit > 0 {
		order += ` LIMIT ` + c.arg(limit)
	}
	return s.runs(ctx, order, c.args...)
}

// OpenRuns returns the runs that have not ended, the newest first.
func (s *Store) OpenRuns(ctx context.Context) ([]jobs.Run, error) {
	return s.runs(ctx, ` WHERE r.outcome = '' ORDER BY r.started_at DESC, r.id DESC`)
}

// Run returns one run by its id or by an unambiguous prefix of it.
func (s *Store) Run(ctx context.Context, id string) (jobs.Run, error) {
	found, err := s.runs(ctx, ` WHERE r.id = $1`, id)
	if err == nil && len(found) == 0 && utf8.RuneCountInString(id) >= shortestRun {
		found, err = s.runs(ctx, ` WHERE substr(r.id, 1, $2) = $1 ORDER BY r.id LIMIT 2`, id, utf8.RuneCountInString(id))
	}
	switch {
	case err != nil:
		return jobs.Run{}, err
	case len(found) == 0:
		return jobs.Run{}, noRun(id)
	case len(found) > 1:
		return jobs.Run{}, fault.New(fault.Usage, fmt.Sprintf("several runs begin with %q", id), "give more of the id; see `annals runs list`")
	}
	return found[0], nil
}

// runs returns the runs that the end of a query chooses, with their targets in
// the order in which they started.
func (s *Store) runs(ctx context.Context, end string, args ...any) ([]jobs.Run, error) {
	var list []jobs.Run
	err := s.readTx(ctx, func(from queryer) error {
		at := map[string]int{}
		rows, err := from.QueryContext(ctx, `SELECT r.id, r.cause, r.owner, r.started_at, r.finished_at, r.outcome, r.error_code, r.error FROM runs r`+end, args...)
		err = scan(rows, err, func(rows *sql.Rows) error {
			var r jobs.Run
			err := rows.Scan(&r.ID, &r.Trigger, &r.Owner, &r.StartedAt, &r.FinishedAt, &r.Outcome, &r.ErrorCode, &r.Error)
			at[r.ID] = len(list)
			list = append(list, r)
			return err
		})
		if err != nil || len(list) == 0 {
			return err
		}
		rows, err = from.QueryContext(ctx, `SELECT t.run, t.job, t.name, t.epoch, t.started_at, t.finished_at, t.outcome, t.error_code, t.error, t.detail
			FROM run_targets t WHERE t.run IN (SELECT r.id FROM runs r`+end+`) ORDER BY t.started_at, t.job, t.name`, args...)
		return scan(rows, err, func(rows *sql.Rows) error {
			var t jobs.Target
			err := rows.Scan(&t.Run, &t.Job, &t.Name, &t.Epoch, &t.StartedAt, &t.FinishedAt, &t.Outcome, &t.ErrorCode, &t.Error, (*[]byte)(&t.Detail))
			r := &list[at[t.Run]]
			r.Targets = append(r.Targets, t)
			return err
		})
	})
	return list, err
}
