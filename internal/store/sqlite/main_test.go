package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/metadata"
	"annals/internal/store"
)

// childEnv makes this test binary a process that stops in the middle of a
// commit: "path\npoint".
const (
	childPath  = "ANNALS_TEST_CHILD_PATH"
	childPoint = "ANNALS_TEST_CHILD_POINT"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := stopAt(path, os.Getenv(childPoint)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// stopAt commits one page, and stops for ever at a point of the next one.
func stopAt(path, point string) error {
	ctx := context.Background()
	armed := false
	st, err := Open(ctx, Config{Path: path, AfterStep: func(at string) {
		if armed && at == point {
			fmt.Println("stopped")
			select {}
		}
	}})
	if err != nil {
		return err
	}
	if err := commitPage(ctx, st, 1); err != nil {
		return err
	}
	armed = true
	return commitPage(ctx, st, 2)
}

// pageRows is how many rows each page of the tests has.
const pageRows = 50

// commitPage commits rows of a page with its checkpoint.
func commitPage(ctx context.Context, st *store.Store, page int) error {
	recs := make([]index.Record, pageRows)
	for i := range recs {
		recs[i] = index.Record{ID: fmt.Sprintf("p%d-%d", page, i), Title: "a title", Directory: "/d", Updated: int64(i), Metadata: []byte(`{"n":1}`)}
	}
	_, err := st.Commit(ctx, index.Fence{}, index.Commit{Upstream: "local", Namespace: metadata.DefaultNamespace, Records: recs,
		Checkpoint: &index.Checkpoint{Upstream: "local", Run: "r", Pages: page}})
	return err
}

// startChild runs a child until it stops at a point.
func startChild(t *testing.T, path, point string) *exec.Cmd {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childPath+"="+path, childPoint+"="+point)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "stopped\n" {
		_ = child.Process.Kill()
		_ = child.Wait()
		t.Fatalf("the child said %q, %v", line, err)
	}
	return child
}

// openAt opens a store for the length of a test.
func openAt(t *testing.T, c Config) *store.Store {
	t.Helper()
	st, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// newStore makes a store with one page, and closes it.
func newStore(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "annals.db")
	st, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := commitPage(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	if err := st.SetPinned(t.Context(), "local", "p1-7", true); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// holdsPages fails the test unless the store is sound and has exactly these
// pages, the last with its checkpoint.
func holdsPages(t *testing.T, st *store.Store, pages int) {
	t.Helper()
	if err := st.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	known, err := st.Known(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	cp, err := st.Checkpoint(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	if len(known) != pages*pageRows || cp == nil || cp.Pages != pages {
		t.Fatalf("%d rows and the checkpoint %+v; want %d pages", len(known), cp, pages)
	}
}

// refused fails the test unless err is of the store, and says what to do.
func refused(t *testing.T, err error) *fault.Error {
	t.Helper()
	f := fault.From(err)
	if f == nil || f.Code != fault.Store || f.Hint == "" {
		t.Fatalf("the error is %v", err)
	}
	return f
}
