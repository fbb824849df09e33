package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/store"
)

func TestAStoreInMemoryEndsWithItsHandle(t *testing.T) {
	first, second := openAt(t, Config{Path: InMemory}), openAt(t, Config{Path: InMemory})
	if err := commitPage(t.Context(), first, 1); err != nil {
		t.Fatal(err)
	}
	holdsPages(t, first, 1)
	if list, err := second.List(t.Context(), index.Query{}); err != nil || len(list) != 0 {
		t.Fatalf("another store in memory has %d rows, %v", len(list), err)
	}
}

func TestAPathMayHaveAnyCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c#d%41&e=f'\"", "ä😀.db")
	st := openAt(t, Config{Path: path})
	if err := commitPage(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

func TestALinkToAStoreOpensTheStore(t *testing.T) {
	path := newStore(t)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	holdsPages(t, openAt(t, Config{Path: link}), 1)
	if _, err := os.Stat(link + "-wal"); err == nil {
		t.Fatal("the log is beside the link")
	}
}

func TestManyMayMakeAStoreAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "annals.db")
	var wg sync.WaitGroup
	epochs := make([]string, 6)
	for i := range epochs {
		wg.Go(func() {
			st, err := Open(t.Context(), Config{Path: path})
			if err != nil {
				t.Error(err)
				return
			}
			p, err := st.Point(t.Context())
			if err != nil {
				t.Error(err)
			}
			epochs[i] = p.Epoch
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, e := range epochs {
		if e == "" || e != epochs[0] {
			t.Fatalf("epochs %q", epochs)
		}
	}
}

func TestWhatIsNoStoreIsRefusedAndLeftAlone(t *testing.T) {
	tests := map[string]func(t *testing.T, path string){
		"a text": func(t *testing.T, path string) {
			write(t, path, strings.Repeat("this is no database, it is a letter\n", 200))
		},
		"a directory": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"another program's database": func(t *testing.T, path string) {
			db := rawDB(t, path)
			if _, err := db.ExecContext(t.Context(), `CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)`); err != nil {
				t.Fatal(err)
			}
		},
		"another program's mark": func(t *testing.T, path string) {
			if _, err := rawDB(t, path).ExecContext(t.Context(), `PRAGMA application_id = 77`); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "annals.db")
			make(t, path)
			before, readErr := os.ReadFile(path)
			_, err := Open(t.Context(), Config{Path: path})
			refused(t, err)
			if after, err := os.ReadFile(path); readErr == nil && (err != nil || string(after) != string(before)) {
				t.Fatal("it was changed")
			}
		})
	}
}

func TestAPathThatCannotBeIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "x")
	for _, path := range []string{
		filepath.Join(file, "annals.db"),
		filepath.Join(file, "below", "annals.db"),
		filepath.Join(t.TempDir(), strings.Repeat("n", 300)),
	} {
		_, err := Open(t.Context(), Config{Path: path})
		refused(t, err)
	}
}

func TestADamagedFileIsFound(t *testing.T) {
	path := newStore(t)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 4096 * 2; at < len(raw); at++ { // the header and the schema's first page stay
		raw[at] ^= 0x5a
	}
	write(t, path, string(raw))
	st, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		refused(t, err)
		return
	}
	defer func() { _ = st.Close() }()
	refused(t, st.Check(t.Context()))
	_, err = st.Known(t.Context(), "local")
	refused(t, err)
}

func TestAFullDiskLosesNothingThatWasCommitted(t *testing.T) {
	path := newStore(t)
	st, err := open(t.Context(), Config{Path: path}, embeddedFiles(t), "max_page_count(60)")
	if err != nil {
		t.Fatal(err)
	}
	pages := 1
	for err == nil {
		if pages++; pages > 200 {
			t.Fatal("the disk never fills up")
		}
		err = commitPage(t.Context(), st, pages)
	}
	if f := refused(t, err); !f.Retryable || !strings.Contains(f.Message, "full") {
		t.Fatalf("the error is %+v", f)
	}
	holdsPages(t, st, pages-1) // the handle goes on
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = openAt(t, Config{Path: path})
	holdsPages(t, st, pages-1)
	if err := commitPage(t.Context(), st, pages); err != nil {
		t.Fatal(err)
	}
	holdsPages(t, st, pages)
}

// stopper is a store that stops at a point until it is let go.
func stopper(t *testing.T, path, point string) (st *store.Store, stopped chan struct{}, letGo func()) {
	stopped, goOn := make(chan struct{}), make(chan struct{})
	var once, freed sync.Once
	st = openAt(t, Config{Path: path, AfterStep: func(at string) {
		if at == point {
			once.Do(func() { close(stopped) })
			<-goOn
		}
	}})
	return st, stopped, func() { freed.Do(func() { close(goOn) }) }
}

func TestAWriterInTheWayMakesOthersBusyNotReaders(t *testing.T) {
	path := newStore(t)
	first, stopped, letGo := stopper(t, path, "commit:before")
	defer letGo()
	second := openAt(t, Config{Path: path, BusyTimeout: 30 * time.Millisecond})
	patient := openAt(t, Config{Path: path, BusyTimeout: time.Minute})
	done := make(chan error, 1)
	go func() { done <- commitPage(t.Context(), first, 2) }()
	<-stopped
	err := commitPage(t.Context(), second, 3)
	if f := fault.From(err); f == nil || f.Code != fault.Busy || !f.Retryable {
		t.Fatalf("the error is %v", err)
	}
	holdsPages(t, second, 1)
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() { waiting <- commitPage(ctx, patient, 3) }()
	cancel()
	if err := <-waiting; !fault.Is(err, fault.Cancelled) {
		t.Fatalf("a writer that stops waiting: %v", err)
	}
	go func() { waiting <- commitPage(t.Context(), patient, 3) }()
	letGo()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	holdsPages(t, second, 3)
}

func TestAKilledCommitIsThereWholeOrNotAtAll(t *testing.T) {
	for point, pages := range map[string]int{"commit:rows": 1, "commit:before": 1, "commit:after": 2} {
		t.Run(point, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "annals.db")
			child := startChild(t, path, point)
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = child.Wait() // it was killed
			st := openAt(t, Config{Path: path})
			holdsPages(t, st, pages)
			if err := commitPage(t.Context(), st, 2); err != nil {
				t.Fatal(err)
			}
			holdsPages(t, st, 2)
		})
	}
}
