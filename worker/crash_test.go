package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"annals/internal/index"
	"annals/internal/jobs"
	"annals/internal/metadata"
	"annals/internal/store/sqlite"
	"annals/worker"
)

// Variables by which a test tells a second process of the test binary to be
// the victim of a crash.
const (
	crashDir  = "ANNALS_TEST_CRASH_DIR"
	crashAt   = "ANNALS_TEST_CRASH_AT" // the commit point to die at, counted from 1; 0: none
	crashTale = "ANNALS_TEST_CRASH_TALE"
)

// tales are two histories of an upstream, the second a later state of the
// first: sessions gone, archived either way, renamed, born, and children.
func tale(n int) []index.Record {
	all := sessions(45)
	for i := range all {
		if i%5 == 0 {
			all[i].ParentID = all[(i+1)%45].ID
		}
	}
	if n == 1 {
		return all
	}
	for i := range 9 {
		all[i].Title += ", renamed"
	}
	all[10].Archived = 77
	all[11].Metadata = json.RawMessage(`{"openchamber":{"archive":{"archivedAt":78}}}`)
	all[12].Metadata = json.RawMessage(`{"openchamber":{"llm":{"purpose":"title"}}}`)
	born := sessions(60)[45:]
	return append(all[:38], born...)
}

// TestMain is in sync_test.go; this is what it does in a victim.
func victim(dir string) int {
	die, points := mustInt(os.Getenv(crashAt)), 0
	st, err := sqlite.Open(context.Background(), sqlite.Config{
		Path: filepath.Join(dir, "annals.db"), Log: slog.New(slog.DiscardHandler),
		AfterStep: func(string) {
			if points++; points == die {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // the signal is on its way
			}
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server := &fakeServer{caps: both, sessions: tale(mustInt(os.Getenv(crashTale)))}
	w := worker.New(worker.Config{
		Store: st, Ledger: st, Log: slog.New(slog.DiscardHandler), PageSize: 10,
		Keeper: jobs.New(jobs.Config{Ledger: st, LockDir: filepath.Join(dir, "locks"), StoreID: "crash",
			Owner: "host:" + strconv.Itoa(os.Getpid()), Now: time.Now}),
	})
	rep, err := w.Sync(context.Background(), worker.Request{Trigger: "manual", Upstreams: []worker.Upstream{{Name: "local",
		Connect: func(context.Context) (worker.Server, func() error, error) {
			return server, func() error { return nil }, nil
		}}}})
	if err != nil || rep.Outcome != jobs.OK || !rep.Upstreams[0].Complete {
		fmt.Fprintln(os.Stderr, err, rep.Outcome, rep.Upstreams[0].Error)
		return 1
	}
	if err := st.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func mustInt(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// crash runs a victim. It reports whether the victim was killed.
func crash(t *testing.T, dir string, tale, at int) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir, crashAt+"="+strconv.Itoa(at), crashTale+"="+strconv.Itoa(tale))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if st, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signaled() && st.Signal() == syscall.SIGKILL {
		return true
	}
	t.Fatalf("tale %d, point %d: %v\n%s", tale, at, err, out)
	return false
}

// outcome is what a reader can see of a store, and the ledger.
func outcome(t *testing.T, dir string) (rows []index.Entry, runs []jobs.Run) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "annals.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if err := st.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err = st.List(t.Context(), index.Query{Archived: index.ArchivedAll, Children: true, Missing: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows { // counted differently by runs that were cut, and by the clock
		rows[i].Revision = 0
		if rows[i].MissingAt > 0 {
			rows[i].MissingAt = 1
		}
	}
	if runs, err = st.Runs(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	return rows, runs
}

// TestAKillAtAnyCommitPointEndsInTheSameStore kills a run at each point of
// each of its transactions, starts it again, and compares with a run that
// nothing disturbed.
func TestAKillAtAnyCommitPointEndsInTheSameStore(t *testing.T) {
	calm := t.TempDir()
	crash(t, calm, 1, 0)
	first, _ := outcome(t, calm)
	crash(t, calm, 2, 0)
	second, _ := outcome(t, calm)
	if len(first) != 45 || len(second) == 45 {
		t.Fatalf("the tales tell nothing: %d, %d rows", len(first), len(second))
	}
	for tale, want := range [][]index.Entry{1: first, 2: second} {
		if tale == 0 {
			continue
		}
		t.Run(fmt.Sprintf("tale %d", tale), func(t *testing.T) {
			points, step := 0, 1
			if testing.Short() { // under the race detector a process takes ten times as long
				step = 7
			}
			for at := 1; ; at += step {
				dir := t.TempDir()
				if tale == 2 {
					crash(t, dir, 1, 0)
				}
				if !crash(t, dir, tale, at) {
					break
				}
				points += step
				crash(t, dir, tale, 0)
				got, runs := outcome(t, dir)
				if d := gocmp.Diff(want, got); d != "" {
					t.Fatalf("killed at point %d: %s", at, d)
				}
				for _, r := range runs[1:] {
					if r.Outcome == jobs.Running {
						t.Fatalf("killed at point %d: run %s stays open", at, r.ID)
					}
				}
			}
			if points < 15 {
				t.Errorf("only %d commit points: the test is not where the commits are", points)
			}
			t.Logf("%d commit points", points)
		})
	}
}

func TestTheTalesDiffer(t *testing.T) {
	archived := 0
	for _, r := range tale(2) {
		if at, _, _ := index.Project(&r, r.Metadata, metadata.DefaultNamespace); at > 0 {
			archived++
		}
	}
	if archived != 2 {
		t.Errorf("%d archived", archived)
	}
}
