package worker_test

import (
	"slices"
	"strconv"
	"testing"

	"annals/internal/index"
	"annals/internal/jobs"
	"annals/worker"
	"annals/worker/opencode"
)

func TestTheBrakeHoldsAMassChangeUntilItIsAccepted(t *testing.T) {
	others := sessions(60)
	for i := range others {
		others[i].ID = "ses_other" + strconv.Itoa(i)
	}
	for _, c := range []struct {
		name    string
		before  int
		then    []index.Record
		code    string
		held    int
		missing int
	}{
		{"empty", 5, nil, worker.EmptyList, 5, 5},
		{"another store", 40, others, worker.OtherStore, 40, 40},
		{"another store, much larger and few known", 3, others, worker.OtherStore, 3, 3},
		{"more than half, and twenty", 60, sessions(60)[:29], worker.MassChange, 31, 31},
		{"more than half, but few", 10, sessions(10)[:1], "", 0, 9},
		{"many, but less than half", 60, sessions(60)[:30], "", 0, 30},
	} {
		for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope": envelope, "bare": bare, "plain": plain} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				h := open(t, &fakeServer{sessions: sessions(c.before), caps: caps})
				h.sync(worker.Request{})
				before, rows := h.point(), len(h.all())
				h.server.sessions = c.then
				rep := h.sync(worker.Request{})
				if c.code == "" {
					if rep.Outcome != jobs.OK || rep.Missing != c.missing {
						t.Fatalf("%+v %+v", rep, rep.Error)
					}
					return
				}
				if rep.Outcome != jobs.Held || code(rep) != c.code || rep.Held != c.held || rep.Missing != 0 {
					t.Fatalf("%+v %+v", rep, rep.Error)
				}
				if len(h.all()) != rows || h.point() != before {
					t.Fatal("a held run changed the index")
				}
				rep = h.sync(worker.Request{AcceptMassChange: true})
				wantRun(t, rep, jobs.OK, true, "", len(c.then))
				if rep.Missing != c.missing || rep.Added+rep.Unchanged != len(c.then) {
					t.Fatalf("accepted: %+v", rep)
				}
				wantRun(t, h.sync(worker.Request{}), jobs.OK, true, "", len(c.then))
			})
		}
	}
}

func TestARunOverADirectoryLeavesTheOthersAlone(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope": envelope, "bare": bare, "plain": plain} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(30), caps: caps, lexical: true, projects: []opencode.Project{{Worktree: "/p"}}})
			h.sync(worker.Request{})
			s := h.server.sessions
			s[0].Title = "renamed"                          // in /p/0
			s[1].Title = "renamed elsewhere"                // in /p/1
			s[3].Directory = "/moved"                       // was in /p/0
			h.server.sessions = slices.Concat(s[:6], s[8:]) // 6 of /p/0 and 7 of /p/1 are gone
			rep := h.sync(worker.Request{Directories: []string{"/p/0/"}})
			if rep.Outcome != jobs.OK || !rep.Complete || rep.Missing != 1 || rep.Updated != 2 {
				t.Fatalf("%+v %+v", rep, rep.Error)
			}
			for id, want := range map[string]index.Status{"ses_00006": index.StatusMissing, "ses_00007": index.StatusActive, "ses_00003": index.StatusActive} {
				if got := h.status(id); got != want {
					t.Errorf("%s is %s", id, got)
				}
			}
			found, err := h.store.Get(t.Context(), "ses_00003")
			if err != nil || found[0].Directory != "/moved" {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
}

func TestADirectoryMayLoseAllItHadButNotToAnotherStore(t *testing.T) {
	for name, caps := range map[string]opencode.Capabilities{"1.18": both, "envelope": envelope, "bare": bare, "plain": plain} {
		t.Run(name, func(t *testing.T) {
			h := open(t, &fakeServer{sessions: sessions(30), caps: caps, lexical: true, projects: []opencode.Project{{Worktree: "/p"}}})
			h.sync(worker.Request{})
			h.server.sessions = slices.DeleteFunc(h.server.sessions, func(r index.Record) bool { return r.Directory == "/p/0" })
			born := index.Record{ID: "ses_born", Created: 1, Updated: 1, Directory: "/p/0", Metadata: index.NoMetadata()}
			h.server.sessions = append(h.server.sessions, born)
			rep := h.sync(worker.Request{Directories: []string{"/p/0"}})
			if rep.Outcome != jobs.OK || rep.Missing != 10 || rep.Added != 1 {
				t.Fatalf("%+v %+v", rep, rep.Error)
			}
			h.server.sessions = nil
			rep = h.sync(worker.Request{Directories: []string{"/p/1"}})
			if rep.Outcome != jobs.Held || code(rep) != worker.EmptyList || h.status("ses_00001") != index.StatusActive {
				t.Errorf("%+v %+v", rep, rep.Error)
			}
			h.server.sessions = []index.Record{{ID: "ses_other", Created: 1, Updated: 1, Directory: "/p/1", Metadata: index.NoMetadata()}}
			rep = h.sync(worker.Request{Directories: []string{"/p/1"}})
			if rep.Outcome != jobs.Held || code(rep) != worker.OtherStore || len(h.all()) != 31 {
				t.Errorf("%+v %+v", rep, rep.Error)
			}
		})
	}
}
