package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"annals/internal/fault"
	"annals/internal/index"
)

// Point returns the present place in the feed.
func (s *Store) Point(ctx context.Context) (index.Point, error) {
	var p index.Point
	err := s.read.QueryRowContext(ctx, `SELECT epoch, revision FROM feed`).Scan(&p.Epoch, &p.Revision)
	return p, s.explain(ctx, err)
}

// Known returns what is kept of every row of an upstream, by id.
func (s *Store) Known(ctx context.Context, upstream string) (map[string]index.Known, error) {
	// The condition hides the key from the planner: nearly every row is wanted,
	// and reading them in the table's order takes half the time.
	known := map[string]index.Known{}
	var id string
	var digest sql.RawBytes
	var missing int64
	dest := []any{&id, &digest, &missing}
	err := s.readOne(ctx, func(rows *sql.Rows) error {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		k := index.Known{Missing: missing > 0}
		copy(k.Digest[:], digest)
		known[id] = k
		return nil
	}, `SELECT id, digest, missing_at FROM sessions WHERE CASE WHEN upstream = $1 THEN 1 ELSE 0 END = 1`, upstream)
	return known, err
}

// KnownIn returns the ids of the rows that are present and whose directory as
// given is one of those named.
func (s *Store) KnownIn(ctx context.Context, upstream string, directories []string) ([]string, error) {
	var ids []string
	err := s.readTx(ctx, func(r queryer) error {
		for _, dir := range slices.Compact(slices.Sorted(slices.Values(directories))) {
			rows, err := r.QueryContext(ctx, `SELECT id FROM sessions WHERE upstream = $1 AND directory = $2 AND missing_at = 0 ORDER BY id`,
				upstream, dir)
			err = scan(rows, err, func(rows *sql.Rows) error {
				var id string
				err := rows.Scan(&id)
				ids = append(ids, id)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}

// MarkMissing sets the missing state of rows that have it not, at a time in
// ms, and returns how many it set.
func (s *Store) MarkMissing(ctx context.Context, fence index.Fence, upstream string, ids []string, at int64) (int, error) {
	if at <= 0 {
		return 0, fault.New(fault.Internal, "a session cannot be missing since no time", "")
	}
	set := 0
	err := s.writeTx(ctx, "missing", fence, false, func(t *tx) error {
		return t.inLists(ids, 3, func(list string, ids []any) error {
			n, err := t.affect(`UPDATE sessions SET missing_at = $1, revision = $2 WHERE upstream = $3 AND missing_at = 0 AND id IN (`+list+`)`,
				append([]any{at, t.revision(), upstream}, ids...)...)
			set += int(n)
			t.moved = t.moved || n > 0
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	return set, nil
}

// Document returns the committed metadata of a session; NoMetadata when it
// has none, or is not known.
func (s *Store) Document(ctx context.Context, upstream, id string) ([]byte, error) {
	var doc []byte
	err := s.read.QueryRowContext(ctx, `SELECT document FROM session_metadata WHERE upstream = $1 AND id = $2`, upstream, id).Scan(&doc)
	if errors.Is(err, sql.ErrNoRows) {
		return index.NoMetadata(), nil
	}
	return doc, s.explain(ctx, err)
}

// SetPinned pins or unpins a session in any state; fault.NotFound when it is
// unknown. A pin is part of what a reader sees, so the row gets a new
// revision when the pin changes, and only then.
func (s *Store) SetPinned(ctx context.Context, upstream, id string, pinned bool) error {
	return s.writeTx(ctx, "pin", index.Fence{}, false, func(t *tx) error {
		var known, is int64
		err := t.QueryRowContext(t.ctx, `SELECT (SELECT COUNT(*) FROM sessions WHERE upstream = $1 AND id = $2),
			(SELECT COUNT(*) FROM pins WHERE upstream = $1 AND id = $2)`, upstream, id).Scan(&known, &is)
		if err != nil {
			return err
		}
		if known == 0 {
			return fault.New(fault.NotFound, "no such session is indexed", "run `annals sync`, or see `annals sessions list --archived all --children --missing`")
		}
		if is == bit(pinned) {
			return nil
		}
		change := `INSERT INTO pins (upstream, id) VALUES ($1, $2)`
		if !pinned {
			change = `DELETE FROM pins WHERE upstream = $1 AND id = $2`
		}
		if err := t.exec(change, upstream, id); err != nil {
			return err
		}
		t.moved = true
		return t.exec(`UPDATE sessions SET revision = $1 WHERE upstream = $2 AND id = $3`, t.revision(), upstream, id)
	})
}
