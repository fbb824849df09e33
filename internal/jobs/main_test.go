package jobs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
	"annals/internal/store"
	"annals/internal/store/sqlite"
)

// childDir makes this test binary a process that owns the job of the store in
// that directory, until it is killed or finds itself fenced.
const childDir = "ANNALS_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := own(dir); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// shortTTL is the life of a lease in tests of processes, whose clock is real.
const shortTTL = 600 * time.Millisecond

// machine is a keeper over a store, as the processes of one machine have it.
func machine(ctx context.Context, dir string, ttl time.Duration) (*store.Store, *jobs.Keeper, error) {
	st, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "annals.db")})
	if err != nil {
		return nil, nil, err
	}
	return st, jobs.New(jobs.Config{Ledger: st, LockDir: filepath.Join(dir, "locks"), StoreID: "s",
		Owner: fmt.Sprintf("here:%d", os.Getpid()), Now: time.Now, TTL: ttl}), nil
}

// own takes the job, says so, and waits to lose it.
func own(dir string) error {
	ctx := context.Background()
	st, k, err := machine(ctx, dir, shortTTL)
	if err != nil {
		return err
	}
	if err := st.StartRun(ctx, jobs.Run{ID: "the child's run", Trigger: "manual", Owner: k.Owner(), StartedAt: time.Now().UnixMilli()}); err != nil {
		return err
	}
	h, err := k.Acquire(ctx, job, target, "the child's run", 0, nil)
	if err != nil {
		return err
	}
	fmt.Println("owner")
	<-h.Context().Done()
	_, commit := st.Commit(ctx, h.Fence(), index.Commit{Upstream: target, Records: []index.Record{{ID: "late"}}})
	fmt.Println("lost:", fault.CodeOf(context.Cause(h.Context())), fault.CodeOf(commit), fault.CodeOf(h.Finish(jobs.Target{Outcome: jobs.OK})))
	return st.Close()
}

// child is another process of this machine.
type child struct {
	*exec.Cmd
	out *bufio.Reader
}

// startChild starts a process that owns the job, and ends it with the test.
func startChild(t *testing.T, dir string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), childDir+"="+dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	c.says(t, "owner\n")
	return c
}

// says reads the child's next line.
func (c *child) says(t *testing.T, want string) {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if line != want || err != nil && err != io.EOF {
		t.Fatalf("the child says %q, %v; want %q", line, err, want)
	}
}

// parent opens the store in dir for the length of a test, with a run of its
// own.
func parent(t *testing.T, dir string, ttl time.Duration) (*store.Store, *jobs.Keeper) {
	t.Helper()
	st, k, err := machine(t.Context(), dir, ttl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := st.StartRun(t.Context(), jobs.Run{ID: "ours", Trigger: "manual", Owner: k.Owner(), StartedAt: time.Now().UnixMilli()}); err != nil {
		t.Fatal(err)
	}
	return st, k
}
