package worker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"annals/internal/index"
	"annals/internal/jobs"
	"annals/internal/metadata"
	"annals/worker"
	"annals/worker/opencode"
)

// TestWhateverHappensTheIndexIsTheUpstream drives random histories: sessions
// are born, renamed, archived, deleted, at any time, also between two requests
// of a run. After a last quiet run the index is the upstream, row by row, and
// everything that was ever seen is still there.
func TestWhateverHappensTheIndexIsTheUpstream(t *testing.T) {
	lockDir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		f := &fakeServer{caps: rapid.SampledFrom([]opencode.Capabilities{both, envelope, bare, noBare}).Draw(rt, "lists")}
		f.metadata = !f.caps.Bare && !f.caps.Plain
		if f.caps.Bare {
			f.cap = rapid.SampledFrom([]int{0, 0, 7}).Draw(rt, "bound")
		}
		h := newHouse(t, f)
		defer h.close()
		h.cfg.PageSize = rapid.IntRange(1, 12).Draw(rt, "page")
		h.cfg.MaxMissing, h.cfg.MaxMissingRows = 100, 1000 // the brake has its own test
		next, ever := 0, map[string]bool{}
		mutate := func() {
			switch n := len(f.sessions); {
			case n == 0 || rapid.IntRange(0, 3).Draw(rt, "what") == 0:
				next++
				at := rapid.Int64Range(1, 6).Draw(rt, "at")
				f.sessions = append(f.sessions, index.Record{ID: fmt.Sprintf("ses_%03d", next), Created: at, Updated: at, Directory: "/d", Metadata: index.NoMetadata()})
			default:
				s := &f.sessions[rapid.IntRange(0, n-1).Draw(rt, "which")]
				switch rapid.IntRange(0, 3).Draw(rt, "how") {
				case 0:
					s.Title += "x"
				case 1:
					s.Archived = rapid.Int64Range(0, 2).Draw(rt, "archived")
				case 2:
					s.Updated = rapid.Int64Range(s.Updated, s.Updated+2).Draw(rt, "updated")
				case 3:
					if n > 1 {
						f.sessions = slices.DeleteFunc(f.sessions, func(r index.Record) bool { return r.ID == s.ID })
					}
				}
			}
		}
		for range rapid.IntRange(1, 25).Draw(rt, "first") {
			mutate()
		}
		for range rapid.IntRange(0, 3).Draw(rt, "runs") {
			f.before = func(int) error {
				if rapid.IntRange(0, 2).Draw(rt, "moves") == 0 {
					mutate()
				}
				return nil
			}
			stayed := map[string]bool{}
			for _, s := range f.sessions {
				stayed[s.ID] = true
			}
			h.run(context.Background(), lockDir, worker.Request{})
			for _, s := range f.sessions {
				if stayed[s.ID] {
					stayed[s.ID] = false // there before and after
				}
			}
			for _, e := range h.all() {
				ever[e.ID] = true
				if gone, known := stayed[e.ID]; known && !gone && e.Status() == index.StatusMissing {
					rt.Errorf("%s was there all the time and is called missing", e.ID)
				}
			}
		}
		f.before = nil
		rep := h.run(context.Background(), lockDir, worker.Request{AcceptMassChange: true})
		if rep.Outcome != jobs.OK || !rep.Complete {
			rt.Fatalf("the quiet run: %+v %+v", rep, rep.Error)
		}
		compare(rt, f, h.all(), ever)
	})
}

func compare(rt *rapid.T, f *fakeServer, rows []index.Entry, ever map[string]bool) {
	got := map[string]index.Entry{}
	for _, e := range rows {
		got[e.ID] = e
		delete(ever, e.ID)
	}
	for id := range ever {
		rt.Errorf("%s was in the index and is lost", id)
	}
	for _, s := range f.sessions {
		e, ok := got[s.ID]
		archived, activity, _ := index.Project(&s, s.Metadata, metadata.DefaultNamespace)
		if !ok || e.Title != s.Title || e.Updated != s.Updated || e.ArchivedAt != archived || e.Activity != activity || e.MissingAt != 0 {
			rt.Errorf("upstream %+v, index %+v", s, e)
		}
		delete(got, s.ID)
	}
	for id, e := range got {
		if e.Status() != index.StatusMissing {
			rt.Errorf("%s is gone at the upstream and %s in the index", id, e.Status())
		}
	}
}
