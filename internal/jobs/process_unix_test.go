//go:build unix

package jobs_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"annals/internal/fault"
	"annals/internal/jobs"
)

func TestAKilledOwnersJobIsTakenOverAtOnce(t *testing.T) {
	dir := t.TempDir()
	st, k := parent(t, dir, time.Hour)
	c := startChild(t, dir)
	if _, err := k.Acquire(t.Context(), job, target, "ours", 0, nil); !fault.Is(err, fault.Busy) {
		t.Fatalf("the job of a live process: %v", err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	h := acquire(t, k, "ours", 0)
	if !slices.Equal(h.LostRuns(), []string{"the child's run"}) {
		t.Errorf("lost %q", h.LostRuns())
	}
	r, err := st.Run(t.Context(), "the child's run")
	if err != nil || r.Outcome != jobs.Lost || r.Targets[0].Outcome != jobs.Lost {
		t.Errorf("the run of the dead: %+v, %v", r, err)
	}
	finish(t, h)
}

func TestAStoppedOwnerFindsItselfFenced(t *testing.T) {
	dir := t.TempDir()
	st, k := parent(t, dir, shortTTL)
	c := startChild(t, dir)
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h := acquire(t, k, "ours", time.Minute)
	if !slices.Equal(h.LostRuns(), []string{"the child's run"}) {
		t.Errorf("lost %q", h.LostRuns())
	}
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.says(t, "lost: fenced fenced fenced\n")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := h.Context().Err(); err != nil {
		t.Errorf("the new owner lost the job too: %v", err)
	}
	if found, err := st.Get(t.Context(), "late"); err != nil || len(found) != 0 {
		t.Errorf("the old owner wrote %+v, %v", found, err)
	}
	finish(t, h)
}

func TestOrphansAreClosedAndTheLivingLeftAlone(t *testing.T) {
	dir := t.TempDir()
	st, k := parent(t, dir, time.Hour)
	begin := func(r jobs.Run) {
		if err := st.StartRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UnixMilli()
	const day = 24 * 60 * 60 * 1000
	begin(jobs.Run{ID: "of a dead process", Owner: "here:1073741824", StartedAt: now})
	begin(jobs.Run{ID: "of another machine", Owner: "there:1073741824", StartedAt: now})
	begin(jobs.Run{ID: "of yesterday", Owner: "there:1", StartedAt: now - day - 1})
	begin(jobs.Run{ID: "of nobody", StartedAt: now})
	c := startChild(t, dir)
	closed := func(want ...string) {
		t.Helper()
		lost, err := k.CloseOrphans(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(lost)
		if !slices.Equal(lost, want) {
			t.Fatalf("closed %q, want %q", lost, want)
		}
	}
	closed("of a dead process", "of yesterday")
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	closed("the child's run")
	closed()
	open, err := st.OpenRuns(t.Context())
	if err != nil || len(open) != 3 { // ours, nobody's and the other machine's
		t.Fatalf("open are %+v, %v", open, err)
	}
	finish(t, acquire(t, k, "ours", 0))
	if err := st.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnOrphanOfAnotherLockDirectoryIsClosedWhenItsLeaseEnds(t *testing.T) {
	dir := t.TempDir()
	st, k := parent(t, dir, time.Hour)
	if err := st.StartRun(t.Context(), jobs.Run{ID: "theirs", StartedAt: 1}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		expires time.Duration
		closed  int
	}{{time.Hour, 0}, {-time.Second, 1}} {
		_, _, err := st.TakeLease(t.Context(), jobs.Lease{Job: job, Target: target, Run: "theirs", Owner: "there:1", Lock: "theirs",
			Expires: time.Now().Add(step.expires).UnixMilli()}, 5, 0)
		if err != nil {
			t.Fatal(err)
		}
		lost, err := k.CloseOrphans(t.Context())
		if err != nil || len(lost) != step.closed {
			t.Fatalf("closed %q, %v; want %d", lost, err, step.closed)
		}
	}
}

func TestARemovedLockFileDoesNotGiveTheJobAway(t *testing.T) {
	m, dir := newMemory(), filepath.Join(t.TempDir(), "locks")
	h := acquire(t, keeper(m, dir), "one", 0)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	busy(t, keeper(m, dir), 0)
	finish(t, h)
	finish(t, acquire(t, keeper(m, dir), "two", 0))
}

func TestLockFilesAreTheirOwnersAlone(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	m, dir := newMemory(), filepath.Join(t.TempDir(), "state", "locks")
	for range 2 {
		finish(t, acquire(t, keeper(m, dir), "one", 0))
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		for path, want := range map[string]os.FileMode{dir: 0o700, files[0]: 0o600} {
			st, err := os.Stat(path)
			if err != nil || st.Mode().Perm() != want {
				t.Errorf("%s has mode %v, %v", path, st.Mode(), err)
			}
			if err := os.Chmod(path, 0o755); err != nil { // the next time closes it again
				t.Fatal(err)
			}
		}
	}
}

func TestALockDirectoryThatCannotBeIsAClearError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		_, err := keeper(newMemory(), dir).Acquire(t.Context(), job, target, "one", time.Minute, nil)
		if f := fault.From(err); f == nil || f.Code != fault.Store || f.Hint == "" {
			t.Errorf("the error is %v", err)
		}
	}
}
