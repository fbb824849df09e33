package sqlite

import (
	"database/sql"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"annals/internal/index"
)

// rawDB opens a file beside the store.
func rawDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := pool(path, url.Values{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func embeddedFiles(t *testing.T) fs.FS {
	t.Helper()
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// next is our migrations and one more, as a later release would have.
func next(t *testing.T, statements string) fs.FS {
	t.Helper()
	files := fstest.MapFS{"00900_next.sql": {Data: []byte("-- +goose Up\n" + statements + "\n")}}
	names, err := fs.Glob(embeddedFiles(t), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		raw, err := fs.ReadFile(embeddedFiles(t), name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: raw}
	}
	return files
}

func TestAStoreOfANewerProgramIsRefused(t *testing.T) {
	path := newStore(t)
	st, err := open(t.Context(), Config{Path: path}, next(t, `CREATE TABLE later (x BIGINT);`))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Config{Path: path})
	if f := refused(t, err); !strings.Contains(f.Message, "newer") {
		t.Fatalf("the error is %v", f)
	}
}

func TestAnUpdateLeavesACopyOfTheStoreBehind(t *testing.T) {
	path := newStore(t)
	st, err := open(t.Context(), Config{Path: path}, next(t, `ALTER TABLE sessions ADD COLUMN note TEXT NOT NULL DEFAULT '';`))
	if err != nil {
		t.Fatal(err)
	}
	holdsPages(t, st, 1)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	backup := path + ".before-900"
	info, err := os.Stat(backup)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the copy: %v, %v", info, err)
	}
	if _, err := os.Stat(backup + ".part"); err == nil {
		t.Fatal("half a copy is left")
	}
	copied := openAt(t, Config{Path: backup}) // by the program that was
	holdsPages(t, copied, 1)
	if e, err := copied.Get(t.Context(), "p1-7"); err != nil || len(e) != 1 || !e[0].Pinned {
		t.Fatalf("the copy's pin: %+v, %v", e, err)
	}
}

func TestAnUpdateThatFailsOrLosesRowsIsTakenBack(t *testing.T) {
	for name, statements := range map[string]string{
		"fails":      `CREATE TABLE later (x BIGINT); INSERT INTO no_such_table VALUES (1);`,
		"loses rows": `CREATE TABLE later (x BIGINT); DELETE FROM pins;`,
	} {
		t.Run(name, func(t *testing.T) {
			path := newStore(t)
			reader := openAt(t, Config{Path: path}) // another process has it open
			_, err := open(t.Context(), Config{Path: path}, next(t, statements))
			refused(t, err)
			holdsPages(t, reader, 1)
			st := openAt(t, Config{Path: path})
			holdsPages(t, st, 1)
			if e, err := st.Get(t.Context(), "p1-7"); err != nil || len(e) != 1 || !e[0].Pinned {
				t.Fatalf("the pin: %+v, %v", e, err)
			}
			if err := commitPage(t.Context(), st, 2); err != nil {
				t.Fatal(err)
			}
			list, err := reader.List(t.Context(), index.Query{})
			if err != nil || len(list) != 2*pageRows {
				t.Fatalf("the other process sees %d rows, %v", len(list), err)
			}
		})
	}
}

func TestAStoreWhoseMakingWasInterruptedIsMade(t *testing.T) {
	for name, statements := range map[string]string{
		"before anything":       ``,
		"after goose had begun": `CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now'))); INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1)`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "annals.db")
			db := rawDB(t, path)
			if _, err := db.ExecContext(t.Context(), statements); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			st := openAt(t, Config{Path: path})
			if err := commitPage(t.Context(), st, 1); err != nil {
				t.Fatal(err)
			}
			holdsPages(t, st, 1)
		})
	}
}
