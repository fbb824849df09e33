// Package store keeps the session index and the ledger of runs in a database.
// One Store implements index.Store and jobs.Ledger with one SQL text; what
// the databases differ in is in Dialect, and each one has a package below
// this that opens it.
//
// A page is one transaction: the fence is checked, the rows are merged by
// index.Merge against what is committed, and only what differs is written.
package store

import (
	"context"
	"database/sql"
	"errors"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
)

var (
	_ index.Store = (*Store)(nil)
	_ jobs.Ledger = (*Store)(nil)
)

// Config of a Store. Write and Read may be the same pool.
type Config struct {
	Write   *sql.DB // for writing transactions
	Read    *sql.DB // for reads; a read sees one commit whole or not at all
	Dialect Dialect
	// AfterStep is called at the points of every writing transaction, for
	// tests that kill the process there: "commit:rows", "commit:before" and
	// "commit:after" in a Commit, "<operation>:before" and
	// "<operation>:after" in the others. It may be nil.
	AfterStep func(point string)
}

// Store is a database with our tables in it. It is safe for concurrent use.
// Its errors have a code of the fault package: Store for what a person has to
// look at, Busy (retryable) when another process held the database too long,
// Cancelled when the context ended.
type Store struct {
	write, read *sql.DB
	d           Dialect
	afterStep   func(string)
}

// New returns a Store over a database that has our schema, and takes the
// pools over: Close closes them.
func New(c Config) *Store {
	if c.AfterStep == nil {
		c.AfterStep = func(string) {}
	}
	return &Store{write: c.Write, read: c.Read, d: c.Dialect, afterStep: c.AfterStep}
}

// Close closes the database. Reads go first, so that the last connection is
// one that may tidy up.
func (s *Store) Close() error {
	err := s.read.Close()
	if s.write != s.read {
		err = errors.Join(err, s.write.Close())
	}
	return s.explain(context.Background(), err)
}

// explain gives an error its code, once, where it leaves the store.
func (s *Store) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case fault.CodeOf(err) != "":
		return err
	case ctx.Err() != nil: // whatever the database called it
		return fault.Wrap(ctx.Err(), fault.Cancelled, "", "the store was not waited for").Again()
	}
	return s.d.Fault(err)
}

// tx is one writing transaction. Its statements run without the caller's
// cancellation, which ends the transaction as a whole instead: a watcher for
// each statement would cost more than most statements.
type tx struct {
	*sql.Tx
	ctx      context.Context
	d        *Dialect
	step     func(string)
	prepared map[string]*sql.Stmt
	feed     int64 // the feed's revision when the transaction began
	moved    bool  // a row changed: the feed moves on to revision()
}

// revision is that of every row which this transaction changes.
func (t *tx) revision() int64 { return t.feed + 1 }

// writeTx runs do in one transaction, behind the fence. A dry one is rolled
// back. op names the transaction's points.
func (s *Store) writeTx(ctx context.Context, op string, fence index.Fence, dry bool, do func(*tx) error) error {
	return s.explain(ctx, s.transact(ctx, op, fence, dry, do))
}

func (s *Store) transact(ctx context.Context, op string, fence index.Fence, dry bool, do func(*tx) error) error {
	raw, err := s.d.Begin(ctx, s.write)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Rollback() }() // nothing is left to roll back after a commit
	t := &tx{Tx: raw, ctx: context.WithoutCancel(ctx), d: &s.d, step: s.afterStep}
	if err := t.check(fence); err != nil {
		return err
	}
	if err := t.QueryRowContext(t.ctx, `SELECT revision FROM feed`).Scan(&t.feed); err != nil {
		return err
	}
	if err := do(t); err != nil || dry {
		return err
	}
	if t.moved {
		if err := t.exec(`UPDATE feed SET revision = $1`, t.revision()); err != nil {
			return err
		}
	}
	s.afterStep(op + ":before")
	if err := raw.Commit(); err != nil {
		return err
	}
	s.afterStep(op + ":after")
	return nil
}

// check refuses a fence whose lease has another owner by now, or none.
func (t *tx) check(f index.Fence) error {
	if f == (index.Fence{}) {
		return nil
	}
	var n int
	err := t.QueryRowContext(t.ctx, `SELECT COUNT(*) FROM leases WHERE job = $1 AND target = $2 AND epoch = $3 AND run <> ''`,
		f.Job, f.Target, f.Epoch).Scan(&n)
	if err == nil && n == 0 {
		return fenced()
	}
	return err
}

func fenced() error {
	return fault.New(fault.Fenced, "another process has taken over this job",
		"see `annals runs list`; what was committed before is kept")
}

// stmt prepares a statement once in the transaction, which closes it.
func (t *tx) stmt(query string) (*sql.Stmt, error) {
	if st, ok := t.prepared[query]; ok {
		return st, nil
	}
	st, err := t.PrepareContext(t.ctx, query)
	if err != nil {
		return nil, err
	}
	if t.prepared == nil {
		t.prepared = map[string]*sql.Stmt{}
	}
	t.prepared[query] = st
	return st, nil
}

// exec runs a statement, prepared.
func (t *tx) exec(query string, args ...any) error {
	_, err := t.affect(query, args...)
	return err
}

// affect runs a statement, prepared, and returns how many rows it touched.
func (t *tx) affect(query string, args ...any) (int64, error) {
	st, err := t.stmt(query)
	if err != nil {
		return 0, err
	}
	res, err := st.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// each runs a query and calls row for every row of its answer.
func (t *tx) each(row func(*sql.Rows) error, query string, args ...any) error {
	rows, err := t.QueryContext(t.ctx, query, args...)
	return scan(rows, err, row)
}

// eachOf runs a query for ids in lists of at most the dialect's bound. The
// query gets the list after args.
func (t *tx) eachOf(ids []string, row func(*sql.Rows) error, query func(list string) string, args ...any) error {
	return t.inLists(ids, len(args), func(list string, ids []any) error {
		return t.each(row, query(list), append(args[:len(args):len(args)], ids...)...)
	})
}

// inLists cuts ids into lists and hands out each with its placeholders, which
// follow the first `before`.
func (t *tx) inLists(ids []string, before int, do func(list string, ids []any) error) error {
	for len(ids) > 0 {
		n := min(len(ids), t.d.MaxList)
		part := make([]any, n)
		for i, id := range ids[:n] {
			part[i] = id
		}
		if err := do(t.d.List(before+1, n), part); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// queryer is a pool or a transaction to read from.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// readOne runs one query, which sees one state of the store by itself.
func (s *Store) readOne(ctx context.Context, row func(*sql.Rows) error, query string, args ...any) error {
	rows, err := s.read.QueryContext(ctx, query, args...)
	return s.explain(ctx, scan(rows, err, row))
}

// readTx runs several queries against one state of the store.
func (s *Store) readTx(ctx context.Context, do func(queryer) error) error {
	t, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.explain(ctx, err)
	}
	defer func() { _ = t.Rollback() }() // a read has nothing to keep
	return s.explain(ctx, do(t))
}

// scan calls row for each row of an answer and closes it.
func scan(rows *sql.Rows, err error, row func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := row(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}
