package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/pressly/goose/v3"
	sqlitedriver "modernc.org/sqlite"

	"annals/internal/fault"
)

// upgrade migrates a store that holds data. A copy is made first; when a
// migration fails, or ends with fewer rows than there were, the copy's content
// is put back and the store is what it was.
func (m *migrator) upgrade(ctx context.Context, goosed *goose.Provider, current, target int64) error {
	if m.path == InMemory {
		return errors.New("a store in memory is always new")
	}
	backup := fmt.Sprintf("%s.before-%d", m.path, target)
	before, err := m.rowCounts(ctx)
	if err != nil {
		return err
	}
	if err := m.backUp(ctx, backup); err != nil {
		return err
	}
	m.log.Info("updating the store", "path", m.path, "from", current, "to", target, "backup", backup)
	_, err = goosed.Up(ctx)
	if err == nil {
		err = m.compare(ctx, before)
	}
	if err == nil {
		return nil
	}
	if e := m.restore(context.WithoutCancel(ctx), backup); e != nil {
		return fault.Wrap(errors.Join(err, e), fault.Store, "stop every annals process and move "+backup+" to "+m.path,
			"the store could not be updated from schema %d to %d, nor put back", current, target)
	}
	return fault.Wrap(err, fault.Store, "the store is as it was, and "+backup+" is a copy of it; use the version of Annals that you had, and report this",
		"the store could not be updated from schema %d to %d", current, target)
}

// backUp writes a copy of the store with mode 0600, in place of an earlier
// one. It appears whole or not at all.
func (m *migrator) backUp(ctx context.Context, backup string) error {
	temp := backup + ".part"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unusable(err, temp)
	}
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return unusable(err, temp)
	}
	defer func() { _ = f.Close() }()
	if _, err := m.db.ExecContext(ctx, `VACUUM INTO $1`, temp); err != nil {
		return errors.Join(explain(temp, err), os.Remove(temp))
	}
	if err := errors.Join(f.Chmod(0o600), f.Sync(), os.Rename(temp, backup)); err != nil {
		return unusable(err, backup)
	}
	return nil
}

// restore puts the content of a backup back, in one transaction, so that
// other processes may have the store open.
func (m *migrator) restore(ctx context.Context, backup string) error {
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	from := (&url.URL{Scheme: "file", Path: backup, RawQuery: "mode=ro"}).String()
	return conn.Raw(func(c any) error {
		restorer, ok := c.(interface {
			NewRestore(from string) (*sqlitedriver.Backup, error)
		})
		if !ok {
			return errors.New("the driver cannot restore")
		}
		b, err := restorer.NewRestore(from)
		if err != nil {
			return err
		}
		_, err = b.Step(-1)
		return errors.Join(err, b.Finish())
	})
}

// rowCounts returns how many rows each of our tables has.
func (m *migrator) rowCounts(ctx context.Context) (map[string]int64, error) {
	var names []string
	rows, err := m.db.QueryContext(ctx, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> $1`, versionTable)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	counts := make(map[string]int64, len(names))
	for _, name := range names {
		n, err := countRows(ctx, m.db, name)
		if err != nil {
			return nil, err
		}
		counts[name] = n
	}
	return counts, nil
}

func countRows(ctx context.Context, db *sql.DB, table string) (int64, error) {
	var n int64
	err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM "`+table+`"`).Scan(&n)
	return n, err
}

// compare refuses a migration after which a table that is still there has
// fewer rows.
func (m *migrator) compare(ctx context.Context, before map[string]int64) error {
	after, err := m.rowCounts(ctx)
	if err != nil {
		return err
	}
	for name, n := range before {
		if now, there := after[name]; there && now < n {
			return fmt.Errorf("table %s had %d rows and has %d", name, n, now)
		}
	}
	return nil
}
