package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"

	"annals/internal/fault"
)

const (
	// applicationID marks the file as ours; the first migration sets it.
	applicationID = 0x414e4c53
	// versionTable is goose's.
	versionTable = goose.DefaultTablename
	// migrationWait is how long another process's migration is waited for.
	migrationWait = time.Minute
)

// migrator brings a database to the newest schema.
type migrator struct {
	db    *sql.DB // writes
	path  string
	files fs.FS
	log   *slog.Logger
}

// run refuses what is not ours or newer than we are, and makes or updates the
// schema.
func (m *migrator) run(ctx context.Context) error {
	goosed, err := goose.NewProvider(goose.DialectSQLite3, m.db, m.files,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	current, err := m.version(ctx)
	if err != nil {
		return err
	}
	sources := goosed.ListSources()
	target := sources[len(sources)-1].Version
	if current > target {
		return fault.New(fault.Store, fmt.Sprintf("the store %s was made by a newer version of Annals (schema %d, this one knows %d)", m.path, current, target),
			"update this program, or give it another store")
	}
	if current == target {
		return nil
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	err = m.bring(ctx, goosed, target)
	return errors.Join(err, unlock())
}

// bring does the migration under the lock, unless another process was first.
func (m *migrator) bring(ctx context.Context, goosed *goose.Provider, target int64) error {
	current, err := m.version(ctx)
	switch {
	case err != nil:
		return err
	case current >= target:
		return nil
	case current > 0:
		return m.upgrade(ctx, goosed, current, target)
	}
	if m.path != InMemory {
		if _, err := m.db.ExecContext(ctx, `PRAGMA journal_mode = wal`); err != nil {
			return err
		}
	}
	_, err = goosed.Up(ctx)
	return err
}

// version returns the schema's version, 0 for an empty database.
func (m *migrator) version(ctx context.Context) (int64, error) {
	var app, tables, others int64
	err := m.db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		COUNT(*), COALESCE(SUM(CASE WHEN name <> $1 AND name NOT LIKE 'sqlite%' THEN 1 ELSE 0 END), 0)
		FROM sqlite_master WHERE type = 'table'`, versionTable).Scan(&app, &tables, &others)
	if err != nil {
		return 0, err
	}
	if app != applicationID {
		if app != 0 || others > 0 {
			return 0, fault.New(fault.Store, fmt.Sprintf("%s is a database of another program", m.path),
				"Annals leaves it alone; give it another path")
		}
		return 0, nil // empty, or its making was interrupted
	}
	var version int64
	err = m.db.QueryRowContext(ctx, `SELECT MAX(version_id) FROM `+versionTable).Scan(&version)
	return version, err
}

// lock keeps other processes from migrating the same store. It locks the
// directory, so that no lock file is left behind.
func (m *migrator) lock(ctx context.Context) (unlock func() error, err error) {
	if m.path == InMemory {
		return func() error { return nil }, nil
	}
	ctx, cancel := context.WithTimeout(ctx, migrationWait)
	defer cancel()
	l := flock.New(filepath.Dir(m.path), flock.SetFlag(os.O_RDONLY))
	if _, err := l.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fault.Wrap(err, fault.Busy, "wait for it to end", "another process is making or updating the store").Again()
	}
	return l.Unlock, nil
}

// check looks for damage below our tables.
func (m *migrator) check(ctx context.Context, db *sql.DB) ([]string, error) {
	var found []string
	rows, err := db.QueryContext(ctx, `PRAGMA quick_check(20)`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return found, err
		}
		if line != "ok" {
			found = append(found, "the file is damaged: "+line)
		}
	}
	if err := rows.Err(); err != nil {
		return found, err
	}
	var broken int64
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM pragma_foreign_key_check`).Scan(&broken); err != nil {
		return found, err
	}
	if broken > 0 {
		found = append(found, fmt.Sprintf("%d rows refer to rows that are not there", broken))
	}
	return found, nil
}
