// Package sqlite opens the store in one SQLite file: a write-ahead log, one
// connection that writes, a few that read beside it.
//
// The file is never opened but by SQLite: closing any other descriptor of it
// would drop SQLite's locks in this process. Backups are made by VACUUM INTO.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"time"

	sqlitedriver "modernc.org/sqlite"

	"annals/internal/store"
)

//go:embed migrations/*.sql
var embedded embed.FS

// InMemory is the path of a store that lives as long as it is open, as a dry
// run on a machine without a store needs.
const InMemory = ":memory:"

// Config of a store. Path is required.
type Config struct {
	Path string       // of the file, or InMemory; made with mode 0600 when it is not there
	Log  *slog.Logger // warnings about the file and its migrations; nil for none
	// BusyTimeout is how long a writer waits for one in another process; 5 s
	// when 0.
	BusyTimeout time.Duration
	AfterStep   func(point string) // see store.Config
}

// Open opens the store, makes it when it is not there, and brings an older
// schema up to date behind a backup. Errors have code fault.Store and say what
// to do; fault.Busy when another process kept the file locked.
func Open(ctx context.Context, c Config) (*store.Store, error) {
	migrations, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return nil, err
	}
	return open(ctx, c, migrations)
}

// open is Open with any migrations. pragmas are for tests: of the writing
// connection, beside ours.
func open(ctx context.Context, c Config, migrations fs.FS, pragmas ...string) (*store.Store, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = 5 * time.Second
	}
	if c.Path != InMemory {
		path, err := prepare(c.Path, c.Log)
		if err != nil {
			return nil, err
		}
		c.Path = path
	}
	write, read, err := pools(&c, pragmas)
	if err != nil {
		return nil, explain(c.Path, err)
	}
	m := migrator{db: write, path: c.Path, files: migrations, log: c.Log}
	if err := m.run(ctx); err != nil {
		err = errors.Join(err, read.Close(), write.Close())
		return nil, explain(c.Path, err)
	}
	tighten(c.Path, c.Log)
	return store.New(store.Config{Write: write, Read: read, AfterStep: c.AfterStep, Dialect: store.Dialect{
		Begin:   begin,
		List:    list,
		MaxList: 500,
		Fault:   func(err error) error { return explain(c.Path, err) },
		Check:   m.check,
	}}), nil
}

// begin opens a transaction as the one writer, BEGIN IMMEDIATE by the pool's
// _txlock: one that began as a reader could not become one later.
func begin(ctx context.Context, db *sql.DB) (*sql.Tx, error) { return db.BeginTx(ctx, nil) }

// list writes placeholders without their numbers, which SQLite gives them in
// order: it looks numbered ones up one by one, and a list of them costs the
// square of its length.
func list(_, n int) string {
	b := make([]byte, 0, 2*n)
	for range n {
		b = append(b, '?', ',')
	}
	return string(b[:max(0, len(b)-1)])
}

// pools returns the connections that write, one, and those that read. pragmas
// are the writer's alone.
func pools(c *Config, pragmas []string) (write, read *sql.DB, err error) {
	common := []string{
		fmt.Sprintf("busy_timeout(%d)", c.BusyTimeout.Milliseconds()),
		"foreign_keys(on)",
		"synchronous(normal)", // with a log, a crash of the machine loses the last commits at most, never the file
		"temp_store(memory)",  // titles do not reach files of the system's temporary directory
		"journal_size_limit(16777216)",
	}
	// The caches are in KiB, of each connection; random ids make a writer touch
	// most of an index's pages.
	values := url.Values{"_dqs": {"0"}, "_error_rc": {"1"},
		"_pragma": slices.Concat(common, []string{"cache_size(-16000)"}, pragmas)}
	if c.Path != InMemory {
		values.Set("mode", "rw") // SQLite makes no file: prepare has, with its mode
		values.Set("_txlock", "immediate")
	}
	if write, err = pool(c.Path, values, 1); err != nil || c.Path == InMemory {
		return write, write, err
	}
	values.Del("_txlock")
	values.Set("_query_only", "1")
	values["_pragma"] = append(common, "cache_size(-4000)")
	if read, err = pool(c.Path, values, 4); err != nil {
		return nil, nil, errors.Join(err, write.Close())
	}
	return write, read, nil
}

func pool(path string, values url.Values, size int) (*sql.DB, error) {
	dsn := path + "?" + values.Encode()
	if path != InMemory {
		dsn = (&url.URL{Scheme: "file", Path: path, RawQuery: values.Encode()}).String()
	}
	connector, err := sqlitedriver.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db, nil
}
