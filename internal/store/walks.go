package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"

	"annals/internal/fault"
	"annals/internal/index"
)

const checkpointColumns = `upstream, run, generation, list, page_token, pages, seen, done`

func checkpointArgs(c *index.Checkpoint) []any {
	return []any{c.Upstream, c.Run, c.Generation, c.List, c.Cursor, c.Pages, c.Seen, bit(c.Done)}
}

func checkpointDest(c *index.Checkpoint) []any {
	return []any{&c.Upstream, &c.Run, &c.Generation, &c.List, &c.Cursor, &c.Pages, &c.Seen, &c.Done}
}

func (t *tx) putCheckpoint(c *index.Checkpoint) error {
	return t.exec(`INSERT INTO checkpoints (`+checkpointColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (upstream) DO UPDATE SET run = excluded.run, generation = excluded.generation, list = excluded.list,
		page_token = excluded.page_token, pages = excluded.pages, seen = excluded.seen, done = excluded.done`,
		checkpointArgs(c)...)
}

// Checkpoint returns the last checkpoint of an upstream, or nil.
func (s *Store) Checkpoint(ctx context.Context, upstream string) (*index.Checkpoint, error) {
	var c index.Checkpoint
	err := s.read.QueryRowContext(ctx, `SELECT `+checkpointColumns+` FROM checkpoints WHERE upstream = $1`, upstream).
		Scan(checkpointDest(&c)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &c, nil
}

// SaveWalk keeps an unfinished walk, in place of an earlier one of the same
// upstream.
func (s *Store) SaveWalk(ctx context.Context, fence index.Fence, w index.Walk) error {
	return s.writeTx(ctx, "walk", fence, false, func(t *tx) error {
		return t.exec(`INSERT INTO walks (`+checkpointColumns+`, ids) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (upstream) DO UPDATE SET run = excluded.run, generation = excluded.generation, list = excluded.list,
			page_token = excluded.page_token, pages = excluded.pages, seen = excluded.seen, done = excluded.done, ids = excluded.ids`,
			append(checkpointArgs(&w.Checkpoint), packIDs(w.IDs))...)
	})
}

// LoadWalk returns the unfinished walk of an upstream, or nil.
func (s *Store) LoadWalk(ctx context.Context, upstream string) (*index.Walk, error) {
	var w index.Walk
	var packed []byte
	err := s.read.QueryRowContext(ctx, `SELECT `+checkpointColumns+`, ids FROM walks WHERE upstream = $1`, upstream).
		Scan(append(checkpointDest(&w.Checkpoint), &packed)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	if w.IDs, err = unpackIDs(packed); err != nil {
		return nil, fault.Wrap(err, fault.Store, "run `annals sync --full` to walk from the start", "the unfinished walk of %q", upstream)
	}
	return &w, nil
}

// DropWalk forgets the unfinished walk of an upstream, if there is one.
func (s *Store) DropWalk(ctx context.Context, fence index.Fence, upstream string) error {
	return s.writeTx(ctx, "walk", fence, false, func(t *tx) error {
		return t.exec(`DELETE FROM walks WHERE upstream = $1`, upstream)
	})
}

// packIDs writes ids one after the other, each behind its length: an id may
// hold any byte.
func packIDs(ids []string) []byte {
	packed := make([]byte, 0, 32*len(ids))
	for _, id := range ids {
		packed = binary.AppendUvarint(packed, uint64(len(id)))
		packed = append(packed, id...)
	}
	return packed
}

// unpackIDs reads what packIDs wrote.
func unpackIDs(packed []byte) ([]string, error) {
	var ids []string
	for len(packed) > 0 {
		size, n := binary.Uvarint(packed)
		if n <= 0 || size > uint64(len(packed)-n) {
			return nil, errors.New("its list of ids is damaged")
		}
		ids = append(ids, string(packed[n:n+int(size)]))
		packed = packed[n+int(size):]
	}
	return ids, nil
}
