package store

import (
	"context"
	"database/sql"

	"annals/internal/index"
)

// Directories returns every directory of an upstream.
func (s *Store) Directories(ctx context.Context, upstream string) ([]index.Directory, error) {
	var dirs []index.Directory
	err := s.readOne(ctx, func(rows *sql.Rows) error {
		var d index.Directory
		err := rows.Scan(&d.Given, &d.Canonical)
		dirs = append(dirs, d)
		return err
	}, `SELECT given, canonical FROM directories WHERE upstream = $1 ORDER BY given`, upstream)
	return dirs, err
}

// SetDirectories replaces canonical forms; the rows of a directory whose form
// changes get a new revision.
func (s *Store) SetDirectories(ctx context.Context, fence index.Fence, upstream string, dirs []index.Directory) error {
	return s.writeTx(ctx, "directories", fence, false, func(t *tx) error {
		return t.putDirectories(upstream, dirs, nil)
	})
}

// putDirectories keeps the canonical forms in dirs. A directory that a record
// names and nobody has given a form gets its lexical one, so that every row
// has one.
func (t *tx) putDirectories(upstream string, dirs []index.Directory, recs []*index.Record) error {
	given := make(map[string]bool, len(dirs)) // true: in dirs
	var names []string
	for _, d := range dirs {
		if !given[d.Given] {
			given[d.Given] = true
			names = append(names, d.Given)
		}
	}
	for _, r := range recs {
		if _, ok := given[r.Directory]; !ok {
			given[r.Directory] = false
			names = append(names, r.Directory)
		}
	}
	have := make(map[string]string, len(names))
	err := t.eachOf(names, func(rows *sql.Rows) error {
		var d index.Directory
		err := rows.Scan(&d.Given, &d.Canonical)
		have[d.Given] = d.Canonical
		return err
	}, func(list string) string {
		return `SELECT given, canonical FROM directories WHERE upstream = $1 AND given IN (` + list + `)`
	}, upstream)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := have[name]; !ok && !given[name] {
			dirs = append(dirs[:len(dirs):len(dirs)], index.Directory{Given: name, Canonical: index.Canonical(name)})
		}
	}
	for _, d := range dirs {
		if old, ok := have[d.Given]; ok && old == d.Canonical {
			continue
		}
		have[d.Given] = d.Canonical
		if err := t.putDirectory(upstream, d); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) putDirectory(upstream string, d index.Directory) error {
	err := t.exec(`INSERT INTO directories (upstream, given, canonical) VALUES ($1, $2, $3)
		ON CONFLICT (upstream, given) DO UPDATE SET canonical = excluded.canonical`, upstream, d.Given, d.Canonical)
	if err != nil {
		return err
	}
	n, err := t.affect(`UPDATE sessions SET revision = $1 WHERE upstream = $2 AND directory = $3`, t.revision(), upstream, d.Given)
	t.moved = t.moved || n > 0
	return err
}
