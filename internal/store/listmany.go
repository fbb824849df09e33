package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"annals/internal/index"
)

// name is what identifies a session, or a directory, in the whole store.
type name struct{ upstream, id string }

// listMany returns the entries of a query that may be most of the index. The
// rows are read in the table's order, and joined and sorted here: the database
// would look up the same few directories once a row, and takes twice the time.
func (s *Store) listMany(ctx context.Context, q index.Query, c *clause) ([]index.Entry, error) {
	if q.Upstream != "" {
		// Hidden from the planner, which would go through an index.
		c.and("CASE WHEN s.upstream = " + c.arg(q.Upstream) + " THEN 1 ELSE 0 END = 1")
	}
	var list []index.Entry
	err := s.readTx(ctx, func(r queryer) error {
		beside, err := readBeside(ctx, r)
		if err != nil {
			return err
		}
		var e index.Entry
		var digest sql.RawBytes
		dest := rowDest(&e.Row, &digest)
		rows, err := r.QueryContext(ctx, `SELECT `+rowColumns+` FROM sessions s`+c.where(), c.args...)
		return scan(rows, err, func(rows *sql.Rows) error {
			if err := rows.Scan(dest...); err != nil {
				return err
			}
			copy(e.Digest[:], digest)
			beside.fill(&e)
			list = append(list, e)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b index.Entry) int {
		return cmp.Or(cmp.Compare(b.Activity, a.Activity), strings.Compare(a.ID, b.ID), strings.Compare(a.Upstream, b.Upstream))
	})
	if q.Limit > 0 && len(list) > q.Limit {
		list = list[:q.Limit]
	}
	return list, nil
}

// beside is what entries show that is kept outside their rows.
type beside struct {
	canonical map[name]string
	pinned    map[name]bool
	children  map[name]int
}

// fill completes an entry.
func (b *beside) fill(e *index.Entry) {
	e.Canonical = b.canonical[name{e.Upstream, e.Directory}]
	e.Pinned = b.pinned[name{e.Upstream, e.ID}]
	e.Children = b.children[name{e.Upstream, e.ID}]
}

func readBeside(ctx context.Context, r queryer) (*beside, error) {
	b := beside{canonical: map[name]string{}, pinned: map[name]bool{}, children: map[name]int{}}
	var n name
	var canonical string
	var count int
	rows, err := r.QueryContext(ctx, `SELECT upstream, given, canonical FROM directories`)
	err = scan(rows, err, func(rows *sql.Rows) error {
		err := rows.Scan(&n.upstream, &n.id, &canonical)
		b.canonical[n] = canonical
		return err
	})
	if err != nil {
		return nil, err
	}
	rows, err = r.QueryContext(ctx, `SELECT upstream, id FROM pins`)
	err = scan(rows, err, func(rows *sql.Rows) error {
		err := rows.Scan(&n.upstream, &n.id)
		b.pinned[n] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	rows, err = r.QueryContext(ctx, `SELECT upstream, parent_id, COUNT(*) FROM sessions
		WHERE parent_id <> '' AND missing_at = 0 AND system = 0 GROUP BY upstream, parent_id`)
	err = scan(rows, err, func(rows *sql.Rows) error {
		err := rows.Scan(&n.upstream, &n.id, &count)
		b.children[n] = count
		return err
	})
	return &b, err
}
