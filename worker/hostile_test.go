package worker_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
	"annals/worker"
	"annals/worker/opencode"
)

// Each of these is a way in which a server has fooled a run.

func TestSessionsThatMoveWhileABoundedBareListIsWalkedStayPresent(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(100), caps: bare, cap: 10})
	h.sync(worker.Request{})
	h.server.before = func(n int) error {
		if n > 4 && n < 20 { // old ones, not walked yet, move to the head
			h.server.sessions[n].Updated = int64(9000 + n)
		}
		return nil
	}
	rep := h.sync(worker.Request{})
	if rep.Missing != 0 || rep.Counted != 0 || rep.Seen != 100 {
		t.Fatalf("%+v %+v", rep, rep.Error)
	}
	for _, e := range h.all() {
		if e.Status() != index.StatusActive {
			t.Errorf("%s is %s", e.ID, e.Status())
		}
	}
}

func TestAnUnreadableRowAtThePageBorderHidesNoTie(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 9
	}
	for broken := 0; broken < 80; broken += step {
		all := sessions(80)
		for i := 30; i < 55; i++ {
			all[i].Updated = 3000
		}
		h := open(t, &fakeServer{sessions: all, caps: bare, cap: 40})
		h.sync(worker.Request{})
		id := all[broken].ID
		h.server.gone = map[string]error{id: fault.New(fault.Upstream, "it cannot be read either", "")}
		h.server.broken = id
		rep := h.sync(worker.Request{})
		if rep.Missing != 0 || rep.Seen != 80 {
			t.Fatalf("%d broken: %+v %+v", broken, rep, rep.Error)
		}
	}
}

func TestAnEmptyPageOfTheBareListIsFollowed(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(40), caps: bare, cap: 10})
	h.server.emptyAt = 5
	rep := h.sync(worker.Request{})
	wantRun(t, rep, jobs.OK, true, "", 40)
}

func TestAServerThatMakesUpTokensForEverIsLeft(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"envelope": envelope, "plain": plain} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(5), caps: caps})
			h.server.answer = func(n int, sum *opencode.Summary) { sum.Next = "9999999/" + strconv.Itoa(n) }
			h.cfg.PageBudget = 7
			rep := h.sync(worker.Request{})
			if rep.Outcome != jobs.Partial || code(rep) != worker.PageBudget || rep.Requests > 12 {
				t.Fatalf("%+v %+v", rep, rep.Error)
			}
			// None of what it has is known: whether it is another store has an end too.
			for i := range h.server.sessions {
				h.server.sessions[i].ID = "ses_other" + strconv.Itoa(i)
			}
			now := time.UnixMilli(1_800_000_000_000)
			h.cfg.Now = func() time.Time { return now }
			h.cfg.TimeBudget = time.Minute
			h.server.before = func(int) error { now = now.Add(time.Second); return nil }
			rep = h.sync(worker.Request{})
			if rep.Outcome == jobs.OK || rep.Added != 0 || rep.Requests > 80 {
				t.Errorf("%+v %+v", rep, rep.Error)
			}
		})
	}
}

func TestADeadServerIsNotAskedForEachSession(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope": envelope} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(300), caps: caps})
			h.cfg.PageSize = 400
			h.sync(worker.Request{})
			gone := h.server.sessions[:100]
			h.server.sessions = h.server.sessions[100:]
			if caps == both { // the listing still has them, the walk has not
				h.server.sessions = slices.Concat(gone, h.server.sessions)
			}
			h.server.before = func(n int) error {
				if caps == both && n == 3 {
					h.server.sessions = h.server.sessions[100:]
				}
				if n > 4 {
					return fault.New(fault.Unreachable, "it is gone", "").Again()
				}
				return nil
			}
			rep := h.sync(worker.Request{})
			if rep.Complete || rep.Missing != 0 || rep.Requests > 8 || code(rep) != worker.Unexplained {
				t.Errorf("%+v %+v", rep, rep.Error)
			}
		})
	}
}

func TestLookupsEndWithTheTimeBudget(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(300), caps: envelope})
	h.cfg.PageSize = 400
	h.sync(worker.Request{})
	h.server.sessions = h.server.sessions[100:]
	now := time.UnixMilli(1_800_000_000_000)
	h.cfg.Now, h.cfg.TimeBudget = func() time.Time { return now }, time.Minute
	h.server.before = func(int) error { now = now.Add(4 * time.Second); return nil }
	rep := h.sync(worker.Request{})
	if rep.Complete || rep.Outcome != jobs.Partial || rep.Requests > 25 {
		t.Errorf("%+v %+v", rep, rep.Error)
	}
}

func TestTheLastStampThatLeavesA2xServerIsGoneToo(t *testing.T) {
	caps := envelope
	caps.Version = "2.0.14"
	h := open(t, &fakeServer{sessions: sessions(3), caps: caps, metadata: true})
	h.server.sessions[1].Metadata = json.RawMessage(`{"openchamber":{"archive":{"archivedAt":5}}}`)
	h.sync(worker.Request{})
	for i := range h.server.sessions {
		h.server.sessions[i].Metadata = nil
	}
	dry := h.sync(worker.Request{DryRun: true})
	if rep := h.sync(worker.Request{}); rep.Restored != 1 || dry.Restored != 1 || h.status("ses_00001") != index.StatusActive {
		t.Errorf("%s, restored %d, in a dry run %d", h.status("ses_00001"), rep.Restored, dry.Restored)
	}
}

func TestGoingBackToAnotherStoreIsHeldAgain(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope": envelope, "bare": bare, "plain": plain} {
		t.Run(name, func(t *testing.T) {
			first, second := sessions(15), sessions(15)
			for i := range second {
				second[i].ID = strings.Replace(second[i].ID, "ses_", "ses_b", 1)
			}
			h := open(t, &fakeServer{sessions: first, caps: caps})
			h.sync(worker.Request{})
			h.server.sessions = second
			h.sync(worker.Request{AcceptMassChange: true})
			h.server.sessions = first
			rep := h.sync(worker.Request{})
			if rep.Outcome != jobs.Held || code(rep) != worker.OtherStore || h.status(second[0].ID) != index.StatusActive {
				t.Errorf("%+v %+v", rep, rep.Error)
			}
		})
	}
}

func TestAFullRunOverADirectoryKeepsTheUnfinishedWalk(t *testing.T) {
	h := open(t, &fakeServer{sessions: sessions(45), caps: both, lexical: true})
	h.cfg.PageBudget = 2
	h.sync(worker.Request{})
	h.sync(worker.Request{Full: true, Directories: []string{"/p/0"}})
	walk, err := h.store.LoadWalk(t.Context(), "local")
	if err != nil || walk == nil {
		t.Errorf("%+v, %v", walk, err)
	}
}
