package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
	"annals/internal/metadata"
	"annals/internal/store"
	"annals/internal/store/sqlite"
	"annals/worker"
	"annals/worker/opencode"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		os.Exit(victim(dir))
	}
	goleak.VerifyTestMain(m)
}

var (
	both     = opencode.Capabilities{Version: "1.18.33", Envelope: true, Bare: true, Plain: true}
	envelope = opencode.Capabilities{Envelope: true}
	bare     = opencode.Capabilities{Bare: true, Plain: true}
	plain    = opencode.Capabilities{Plain: true}
	noBare   = opencode.Capabilities{Envelope: true, Plain: true}
)

// house is a worker over a store in memory and one upstream, "local".
type house struct {
	t      testing.TB
	store  *store.Store
	server *fakeServer
	cfg    worker.Config
}

func newHouse(t testing.TB, server *fakeServer) *house {
	st, err := sqlite.Open(context.Background(), sqlite.Config{Path: sqlite.InMemory, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, store: st, server: server}
	h.cfg = worker.Config{Store: st, Ledger: st, Log: slog.New(slog.DiscardHandler), PageSize: 10}
	return h
}

// open is newHouse with the clean-up of a test.
func open(t *testing.T, server *fakeServer) *house {
	h := newHouse(t, server)
	t.Cleanup(h.close)
	return h
}

func (h *house) close() {
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

func (h *house) keeper(dir string) *jobs.Keeper {
	return jobs.New(jobs.Config{Ledger: h.store, LockDir: dir, StoreID: "test", Owner: "host:1", Now: time.Now})
}

func (h *house) run(ctx context.Context, lockDir string, req worker.Request) worker.UpstreamReport {
	h.t.Helper()
	h.cfg.Keeper = h.keeper(lockDir)
	h.server.requests.Store(0)
	req.Trigger = "manual"
	req.Upstreams = []worker.Upstream{{Name: "local", Connect: func(context.Context) (worker.Server, func() error, error) {
		return h.server, func() error { return nil }, nil
	}}}
	rep, err := worker.New(h.cfg).Sync(ctx, req)
	if err != nil {
		h.t.Fatal(err)
	}
	return rep.Upstreams[0]
}

func (h *house) sync(req worker.Request) worker.UpstreamReport {
	h.t.Helper()
	t, ok := h.t.(*testing.T)
	if !ok {
		h.t.Fatal("sync needs a test's directory")
	}
	return h.run(t.Context(), t.TempDir(), req)
}

func (h *house) all() []index.Entry {
	h.t.Helper()
	list, err := h.store.List(context.Background(), index.Query{Archived: index.ArchivedAll, Children: true, Missing: true})
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

func (h *house) status(id string) index.Status {
	h.t.Helper()
	found, err := h.store.Get(context.Background(), id)
	if err != nil || len(found) != 1 {
		h.t.Fatalf("%s: %v, %v", id, found, err)
	}
	return found[0].Status()
}

func (h *house) point() index.Point {
	h.t.Helper()
	p, err := h.store.Point(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

func sessions(n int) []index.Record {
	out := make([]index.Record, n)
	for i := range out {
		out[i] = index.Record{ID: fmt.Sprintf("ses_%05d", i), Title: "t" + strconv.Itoa(i), Directory: "/p/" + strconv.Itoa(i%3),
			Created: int64(1000 + i), Updated: int64(2000 + i), Metadata: index.NoMetadata()}
	}
	return out
}

func code(rep worker.UpstreamReport) string {
	if rep.Error == nil {
		return ""
	}
	return rep.Error.Code
}

// wantRun compares what a run says with what it should say.
func wantRun(t *testing.T, rep worker.UpstreamReport, outcome jobs.Outcome, complete bool, errCode string, seen int) {
	t.Helper()
	if rep.Outcome != outcome || rep.Complete != complete || code(rep) != errCode || rep.Seen != seen {
		t.Fatalf("outcome %q complete %v code %q seen %d, want %q %v %q %d\n%+v %+v",
			rep.Outcome, rep.Complete, code(rep), rep.Seen, outcome, complete, errCode, seen, rep, rep.Error)
	}
}

func TestEveryListGivesTheSameIndex(t *testing.T) {
	ties := sessions(95)
	for i := 20; i < 55; i++ { // 35 of them share one time, pages hold 10
		ties[i].Updated = 3000
	}
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope alone": envelope, "bare alone": bare, "plain alone": plain, "envelope and plain": noBare} {
		for _, bound := range []int{0, 50} {
			if bound > 0 && !caps.Bare && caps.Plain {
				continue // a bounded plain list cannot be read to its end by anyone
			}
			t.Run(fmt.Sprintf("%s, answers of %d", name, bound), func(t *testing.T) {
				h := open(t, &fakeServer{sessions: ties, caps: caps, cap: bound, metadata: caps == envelope, projects: []opencode.Project{{ID: "p", Worktree: "/p"}}})
				wantRun(t, h.sync(worker.Request{}), jobs.OK, true, "", 95)
				if got := len(h.all()); got != 95 {
					t.Fatalf("%d rows", got)
				}
				before := h.point()
				rep := h.sync(worker.Request{})
				wantRun(t, rep, jobs.OK, true, "", 95)
				if rep.Unchanged != 95 || h.point() != before {
					t.Errorf("a second run changed something: %+v, %v → %v", rep, before, h.point())
				}
			})
		}
	}
}

func TestAnArchiveFollowsBothWaysThoughTheTimeStays(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "bare": bare, "plain": plain, "envelope and plain": noBare} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(3), caps: caps})
			h.sync(worker.Request{})
			s := &h.server.sessions[1]
			stamp := func(v string) json.RawMessage {
				return json.RawMessage(`{"openchamber":{"archive":{"archivedAt":` + v + `}}}`)
			}
			for _, step := range []struct {
				name     string
				upstream int64
				doc      json.RawMessage
				want     index.Status
				archived int
				restored int
			}{
				{"archived upstream", 77, index.NoMetadata(), index.StatusArchived, 1, 0},
				{"explicitly active over it", 77, stamp("0"), index.StatusActive, 0, 1},
				{"no number: the upstream counts again", 77, stamp(`"x"`), index.StatusArchived, 1, 0},
				{"restored upstream", 0, stamp(`"x"`), index.StatusActive, 0, 1},
				{"archived in the metadata", 0, stamp("5"), index.StatusArchived, 1, 0},
				{"again, at another time", 0, stamp("6"), index.StatusArchived, 0, 0},
				{"restored by zero", 0, stamp("0"), index.StatusActive, 0, 1},
				{"metadata gone", 0, index.NoMetadata(), index.StatusActive, 0, 0},
			} {
				s.Archived, s.Metadata = step.upstream, step.doc
				rep := h.sync(worker.Request{})
				if got := h.status(s.ID); got != step.want || rep.Archived != step.archived || rep.Restored != step.restored {
					t.Errorf("%s: %s, archived %d, restored %d", step.name, got, rep.Archived, rep.Restored)
				}
			}
		})
	}
}

func TestAnArchiveThatLandsInTheMiddleOfARunIsNotUndoneByIt(t *testing.T) {
	for name, c := range map[string]struct {
		caps opencode.Capabilities
		at   int // the request whose answer holds the session
	}{"1.18": {both, 2}, "bare": {bare, 6}, "plain": {plain, 3}} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(30), caps: c.caps})
			h.sync(worker.Request{})
			h.server.sessions[3].Title = "renamed" // so that its row is written in the run
			h.server.before = func(n int) error {
				if n != c.at {
					return nil
				}
				// Somebody archives through us; the list that is read now does not know.
				rec := h.server.sessions[3]
				rec.Metadata = json.RawMessage(`{"openchamber":{"archive":{"archivedAt":99}}}`)
				_, err := h.store.Commit(t.Context(), index.Fence{}, index.Commit{Upstream: "local",
					Namespace: metadata.DefaultNamespace, Base: h.point().Revision, Records: []index.Record{rec}})
				return err
			}
			h.sync(worker.Request{})
			if got := h.status("ses_00003"); got != index.StatusArchived {
				t.Fatalf("the run undid the archive: %s", got)
			}
			h.server.before = nil
			h.sync(worker.Request{}) // the upstream's own record is the durable one
			if got := h.status("ses_00003"); got != index.StatusActive {
				t.Errorf("the next run did not look again: %s", got)
			}
		})
	}
}

func TestAnArchiveStampThatLeavesThe2xListIsGone(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(3), caps: envelope, metadata: true})
	h.server.sessions[0].Metadata = json.RawMessage(`{"openchamber":{"archive":{"archivedAt":5}}}`)
	h.server.sessions[2].Metadata = json.RawMessage(`{"openchamber":{"archive":{"archivedAt":5}}}`)
	h.sync(worker.Request{})
	// On the wire a session without metadata has no such field.
	h.server.sessions[1].Metadata, h.server.sessions[2].Metadata = nil, nil
	wantRun(t, h.sync(worker.Request{}), jobs.OK, true, "", 3)
	if got := h.status("ses_00002"); got != index.StatusActive {
		t.Errorf("the stamp is gone, and the session still %s", got)
	}
	if got := h.status("ses_00000"); got != index.StatusArchived {
		t.Errorf("the other is %s", got)
	}
}

func TestOnlyACompleteRunConcludesThatSessionsAreGone(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope": envelope, "bare": bare, "plain": plain} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(50), caps: caps})
			h.sync(worker.Request{})
			h.server.sessions = h.server.sessions[:45]
			first := true
			h.server.before = func(n int) error { // the second list request fails
				if n >= 3 && first {
					return fault.New(fault.Upstream, "500", "").Again()
				}
				return nil
			}
			rep := h.sync(worker.Request{})
			if caps == plain { // one list, one request: it succeeded, or nothing was read
				h.server.before = nil
				rep = h.sync(worker.Request{})
			} else {
				wantRun(t, rep, jobs.Partial, false, fault.Upstream, rep.Seen)
				if rep.Missing != 0 || h.status("ses_00049") == index.StatusMissing {
					t.Fatal("an incomplete run concluded")
				}
				first = false
				rep = h.sync(worker.Request{})
			}
			wantRun(t, rep, jobs.OK, true, "", 45)
			if h.status("ses_00049") != index.StatusMissing || h.status("ses_00044") != index.StatusActive {
				t.Error("the gone are not missing")
			}
			h.server.sessions = sessions(50)
			wantRun(t, h.sync(worker.Request{}), jobs.OK, true, "", 50)
			if h.status("ses_00049") != index.StatusActive {
				t.Error("a session that came back is still missing")
			}
		})
	}
}

func TestAnEmptyUpstreamIsFineWhenNothingIsKnown(t *testing.T) {
	for _, caps := range []opencode.Capabilities{both, envelope, bare, plain} {
		h := open(t, &fakeServer{caps: caps})
		wantRun(t, h.sync(worker.Request{}), jobs.OK, true, "", 0)
	}
}

func TestARepeatedTokenEndsTheWalkAndKeepsWhatCame(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope": envelope} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(50), caps: caps})
			requests := 0
			h.server.answer = func(_ int, sum *opencode.Summary) {
				if sum.Rows == 10 {
					requests++
					sum.Next = "1010/ses_00010"
				}
			}
			rep := h.sync(worker.Request{})
			if rep.Outcome != jobs.Partial || code(rep) != worker.CursorRepeated || rep.Complete || requests != 2 {
				t.Fatalf("%d requests, %+v %+v", requests, rep, rep.Error)
			}
			if len(h.all()) == 0 {
				t.Error("what came before is not kept")
			}
		})
	}
}

func TestABudgetStopsTheWalkAndTheNextRunGoesOn(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope": envelope} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(45), caps: caps})
			h.cfg.PageBudget = 2
			var pages int
			for i := range 3 {
				rep := h.sync(worker.Request{})
				pages += rep.Pages
				if i < 2 {
					if rep.Outcome != jobs.Partial || code(rep) != worker.PageBudget || rep.Complete || rep.Pages != 2 {
						t.Fatalf("run %d: %+v %+v", i, rep, rep.Error)
					}
					continue
				}
				if caps == envelope { // the walk alone feeds the index: what changed meanwhile was not seen
					wantRun(t, rep, jobs.Partial, false, worker.PageBudget, 45)
					continue
				}
				wantRun(t, rep, jobs.OK, true, "", 45)
			}
			if pages != 6 || len(h.all()) != 45 {
				t.Errorf("%d pages, %d rows", pages, len(h.all()))
			}
			cp, err := h.store.Checkpoint(t.Context(), "local")
			if err != nil || cp == nil || !cp.Done || cp.Generation != 1 {
				t.Errorf("%+v, %v", cp, err)
			}
		})
	}
}

func TestATokenThatIsTakenNoMoreStartsTheWalkAnew(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(45), caps: both})
	h.cfg.PageBudget = 2
	h.sync(worker.Request{})
	h.cfg.PageBudget = 0
	refused := false
	h.server.before = func(n int) error {
		if n == 3 && !refused {
			refused = true
			return fault.New(fault.Upstream, "400", "")
		}
		return nil
	}
	wantRun(t, h.sync(worker.Request{}), jobs.OK, true, "", 45)
	if !refused {
		t.Error("the test refused nothing")
	}
}

func TestTheTimeBudgetIsOfTheClock(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(45), caps: both})
	now := time.UnixMilli(1_800_000_000_000)
	h.cfg.Now = func() time.Time { return now }
	h.cfg.TimeBudget = time.Minute
	h.server.before = func(int) error { now = now.Add(25 * time.Second); return nil }
	rep := h.sync(worker.Request{})
	if code(rep) != worker.TimeBudget || rep.Outcome != jobs.Partial || rep.Pages != 1 {
		t.Errorf("%+v %+v", rep, rep.Error)
	}
}

func TestRowsThatMoveBetweenPagesAreSeenOnceAndNewest(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(45), caps: both})
	h.server.before = func(n int) error {
		if n > 2 { // every page of the walk: one more session is touched, renamed, and one is born
			s := &h.server.sessions[n*3]
			s.Updated, s.Title = int64(9000+n), "renamed"
			born := sessions(1)[0]
			born.ID, born.Created = "ses_new"+strconv.Itoa(n), int64(5000+n)
			h.server.sessions = append(h.server.sessions, born)
		}
		if n > 20 {
			return errors.New("too many requests")
		}
		return nil
	}
	rep := h.sync(worker.Request{})
	if !rep.Complete || rep.Outcome != jobs.OK {
		t.Fatalf("%+v %+v", rep, rep.Error)
	}
	if rep.Added != len(h.all()) || rep.Added+rep.Updated+rep.Unchanged < rep.Seen {
		t.Errorf("%+v, %d rows", rep, len(h.all()))
	}
	h.server.before = nil
	again := h.sync(worker.Request{})
	wantRun(t, again, jobs.OK, true, "", len(h.server.sessions))
}

func TestASessionDeletedWhileTheListsAreReadEndsMissing(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(45), caps: both})
	h.server.before = func(n int) error {
		if n == 4 {
			h.server.sessions = slices.Delete(h.server.sessions, 0, 3) // old ones: not walked yet
		}
		return nil
	}
	rep := h.sync(worker.Request{})
	wantRun(t, rep, jobs.OK, true, "", 42)
	if h.status("ses_00000") != index.StatusMissing {
		t.Error("it was there and is gone, and the index calls it " + h.status("ses_00000"))
	}
}

func TestADifferenceThatNobodyExplainsKeepsTheRunFromConcluding(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(45), caps: both})
	h.sync(worker.Request{})
	h.server.sessions = h.server.sessions[:40]
	h.server.gone = map[string]error{}
	h.server.before = func(n int) error {
		if n == 3 {
			h.server.gone["ses_00007"] = fault.New(fault.Upstream, "html", "")
		}
		return nil
	}
	h.server.answer = func(n int, sum *opencode.Summary) {
		if n == 2 {
			h.server.sessions = slices.DeleteFunc(h.server.sessions, func(r index.Record) bool { return r.ID == "ses_00007" })
		}
	}
	rep := h.sync(worker.Request{})
	if rep.Outcome != jobs.Partial || code(rep) != worker.Unexplained || rep.Missing != 0 || h.status("ses_00044") == index.StatusMissing {
		t.Errorf("%+v %+v", rep, rep.Error)
	}
}

func TestADryRunWritesNothingAndSaysTheSame(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope": envelope, "bare": bare, "plain": plain} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(45), caps: caps})
			h.sync(worker.Request{})
			h.server.sessions[0].Title = "renamed"
			h.server.sessions = append(h.server.sessions[:40], index.Record{ID: "ses_new", Created: 1, Updated: 1, Directory: "/new", Metadata: index.NoMetadata()})
			before, rows := h.point(), h.all()
			dry := h.sync(worker.Request{DryRun: true})
			if h.point() != before || gocmp.Diff(rows, h.all()) != "" {
				t.Fatal("a dry run wrote")
			}
			wet := h.sync(worker.Request{})
			dry.Requests, wet.Requests = 0, 0
			if d := gocmp.Diff(dry, wet); d != "" {
				t.Error(d)
			}
			if wet.Added != 1 || wet.Updated != 1 || wet.Missing != 5 {
				t.Errorf("%+v", wet)
			}
		})
	}
}

func TestSkippedRowsAreNamedAndNeverTurnMissing(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(30), caps: both})
	h.sync(worker.Request{})
	// From now on the server's row of ses_00004 cannot be read, in neither list.
	h.server.sessions = slices.Delete(h.server.sessions, 4, 5)
	h.server.gone = map[string]error{"ses_00004": fault.New(fault.Upstream, "it cannot be read either", "")}
	h.server.answer = func(_ int, sum *opencode.Summary) {
		if sum.Rows > 0 {
			sum.Skipped = append(sum.Skipped, opencode.Skip{ID: "ses_00004", Reason: `field "title" is not a string`})
		}
	}
	rep := h.sync(worker.Request{})
	if rep.Outcome != jobs.Partial || !rep.Complete || code(rep) != worker.SkippedRows || len(rep.Skipped) != 1 || rep.Missing != 0 {
		t.Fatalf("%+v %+v", rep, rep.Error)
	}
	if h.status("ses_00004") != index.StatusActive {
		t.Error("a row that cannot be read turned missing")
	}
	// Rows that do not even tell their id keep every conclusion back.
	h.server.sessions = h.server.sessions[:25]
	h.server.answer = func(_ int, sum *opencode.Summary) {
		if sum.Rows > 0 {
			sum.Skipped = append(sum.Skipped, opencode.Skip{Reason: "row 3: not an object"})
		}
	}
	rep = h.sync(worker.Request{})
	if rep.Outcome != jobs.Partial || rep.Complete || rep.Missing != 0 || h.status("ses_00028") != index.StatusActive {
		t.Errorf("%+v %+v", rep, rep.Error)
	}
}

func TestAServerThatDoesNotAnswerFailsTheRunAndLosesNothing(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(30), caps: both})
	h.sync(worker.Request{})
	before := h.point()
	for _, c := range []string{fault.Unreachable, fault.Unauthorized} {
		h.server.before = func(int) error { return fault.New(c, "no", "") }
		rep := h.sync(worker.Request{})
		wantRun(t, rep, jobs.Failed, false, c, 0)
		if h.point() != before || len(h.all()) != 30 {
			t.Error("rows were lost")
		}
	}
	runs, err := h.store.Runs(t.Context(), 10)
	if err != nil || len(runs) != 3 || runs[0].Outcome != jobs.Failed || runs[0].ErrorCode != fault.Unauthorized || runs[2].Outcome != jobs.OK {
		t.Errorf("%+v, %v", runs, err)
	}
}

func TestStoppingKeepsFinishedPages(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(95), caps: envelope})
	ctx, cancel := context.WithCancel(t.Context())
	h.server.before = func(n int) error {
		if n == 5 {
			cancel()
			return ctx.Err()
		}
		return nil
	}
	rep := h.run(ctx, t.TempDir(), worker.Request{})
	wantRun(t, rep, jobs.Partial, false, fault.Cancelled, 30)
	if len(h.all()) != 30 {
		t.Errorf("%d rows", len(h.all()))
	}
	runs, err := h.store.Runs(t.Context(), 1)
	if err != nil || runs[0].Outcome != jobs.Partial || runs[0].FinishedAt == 0 {
		t.Errorf("%+v, %v", runs, err)
	}
}
