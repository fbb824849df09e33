package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"annals/internal/fault"
	"annals/internal/index"
)

const (
	// entryColumns are a row's and what is kept outside it.
	entryColumns = rowColumns + `, COALESCE(d.canonical, s.directory), CASE WHEN p.id IS NULL THEN 0 ELSE 1 END,
		(SELECT COUNT(*) FROM sessions k WHERE k.upstream = s.upstream AND k.parent_id = s.id
			AND k.parent_id <> '' AND k.missing_at = 0 AND k.system = 0)`

	selectEntries = `SELECT ` + entryColumns + ` FROM sessions s
		LEFT JOIN directories d ON d.upstream = s.upstream AND d.given = s.directory
		LEFT JOIN pins p ON p.upstream = s.upstream AND p.id = s.id`

	// few is how many entries are so few that the database does all the work.
	few = 1000
)

// clause builds the part of a query that depends on its arguments.
type clause struct {
	conditions []string
	args       []any
}

// arg adds an argument and returns its placeholder.
func (c *clause) arg(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

func (c *clause) and(condition string) { c.conditions = append(c.conditions, condition) }

func (c *clause) where() string {
	if len(c.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.conditions, " AND ")
}

// List returns the entries of a query, the last active first.
func (s *Store) List(ctx context.Context, q index.Query) ([]index.Entry, error) {
	var c clause
	c.and("s.system = 0")
	switch q.Archived {
	case "", index.ArchivedNo:
		c.and("s.archived_at = 0")
	case index.ArchivedOnly:
		c.and("s.archived_at > 0")
	case index.ArchivedAll:
	default:
		return nil, fault.New(fault.Usage, fmt.Sprintf("there is no archive filter %q", q.Archived), "no, only or all")
	}
	if !q.Children {
		c.and("s.parent_id = ''")
	}
	if !q.Missing {
		c.and("s.missing_at = 0")
	}
	if q.Directory == "" && (q.Limit <= 0 || q.Limit > few) {
		return s.listMany(ctx, q, &c)
	}
	if q.Upstream != "" {
		c.and("s.upstream = " + c.arg(q.Upstream))
	}
	if q.Directory != "" {
		match := "d.canonical = " + c.arg(q.Directory)
		if q.Given != "" {
			match = "(" + match + " OR s.directory = " + c.arg(q.Given) + ")"
		}
		c.and(match)
	}
	order := " ORDER BY s.activity DESC, s.id, s.upstream"
	if q.Limit > 0 {
		order += " LIMIT " + c.arg(q.Limit)
	}
	return s.entries(ctx, s.read, selectEntries+c.where()+order, c.args...)
}

func (s *Store) entries(ctx context.Context, from queryer, query string, args ...any) ([]index.Entry, error) {
	var list []index.Entry
	var e index.Entry
	var digest sql.RawBytes
	dest := append(rowDest(&e.Row, &digest), &e.Canonical, &e.Pinned, &e.Children)
	rows, err := from.QueryContext(ctx, query, args...)
	err = scan(rows, err, func(rows *sql.Rows) error {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		copy(e.Digest[:], digest)
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return list, nil
}

// Get returns the entries with this id, one an upstream, by its name, in any
// state.
func (s *Store) Get(ctx context.Context, id string) ([]index.Entry, error) {
	// Every row has its directory in directories, so these name all upstreams,
	// and the key is looked up once in each.
	return s.entries(ctx, s.read, selectEntries+`
		WHERE s.upstream IN (SELECT DISTINCT upstream FROM directories) AND s.id = $1 ORDER BY s.upstream`, id)
}

// Changes returns the entries whose revision is above since, in order of
// revision, then upstream and id. The entries of one revision come together,
// since a Point cannot name a place within it: the answer ends with the last
// revision that fits the limit whole, or has exactly one revision, of whatever
// size. A limit of 0 is no bound.
func (s *Store) Changes(ctx context.Context, since int64, limit int) ([]index.Entry, error) {
	var list []index.Entry
	err := s.readTx(ctx, func(r queryer) error {
		var c clause
		c.and("s.revision > " + c.arg(since))
		if limit > 0 {
			last, err := lastRevision(ctx, r, since, limit)
			if err != nil {
				return err
			}
			if last > 0 {
				c.and("s.revision <= " + c.arg(last))
			}
		}
		var err error
		list, err = s.entries(ctx, r, selectEntries+c.where()+
			" ORDER BY s.revision, s.upstream, s.id", c.args...)
		return err
	})
	return list, err
}

// lastRevision returns the last revision that limit rows after since reach
// whole, or the first one when it does not fit; 0 when all fit.
func lastRevision(ctx context.Context, r queryer, since int64, limit int) (int64, error) {
	var beyond int64 // the revision of the first row that is too many
	err := r.QueryRowContext(ctx, `SELECT revision FROM sessions WHERE revision > $1 ORDER BY revision LIMIT 1 OFFSET $2`,
		since, limit).Scan(&beyond)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var whole sql.NullInt64
	err = r.QueryRowContext(ctx, `SELECT MAX(revision) FROM sessions WHERE revision > $1 AND revision < $2`, since, beyond).Scan(&whole)
	if whole.Valid {
		return whole.Int64, err
	}
	return beyond, err
}

// Counts returns the counts of every upstream that has rows, by name.
func (s *Store) Counts(ctx context.Context) ([]index.Counts, error) {
	var all []index.Counts
	err := s.readOne(ctx, func(rows *sql.Rows) error {
		var c index.Counts
		err := rows.Scan(&c.Upstream, &c.Active, &c.Archived, &c.Missing, &c.Children, &c.System, &c.Rows)
		all = append(all, c)
		return err
	}, `SELECT upstream,
		SUM(CASE WHEN system = 0 AND missing_at = 0 AND parent_id = '' AND archived_at = 0 THEN 1 ELSE 0 END),
		SUM(CASE WHEN system = 0 AND missing_at = 0 AND parent_id = '' AND archived_at > 0 THEN 1 ELSE 0 END),
		SUM(CASE WHEN system = 0 AND missing_at > 0 THEN 1 ELSE 0 END),
		SUM(CASE WHEN system = 0 AND missing_at = 0 AND parent_id <> '' THEN 1 ELSE 0 END),
		SUM(CASE WHEN system = 1 AND missing_at = 0 THEN 1 ELSE 0 END),
		COUNT(*) FROM sessions GROUP BY upstream ORDER BY upstream`)
	return all, err
}
