package storetest

import (
	"fmt"

	"annals/internal/index"
)

var walkTests = []test{
	{"ACheckpointIsWrittenWithItsPage", func(s *suite) {
		none, err := s.st().Checkpoint(s.Context(), up)
		s.ok(err)
		if none != nil {
			s.Fatalf("a new store has %+v", none)
		}
		cp := index.Checkpoint{Upstream: up, Run: "r", Generation: 3, List: "/api/session", Cursor: "opaque \x00 \"token\"", Pages: 2, Seen: 400}
		s.commitAs(index.Commit{Records: []index.Record{session("a", 1)}, Checkpoint: &cp})
		s.sameCheckpoint(&cp)
		s.commit(session("b", 1)) // one without a checkpoint leaves it
		s.sameCheckpoint(&cp)
		cp.Cursor, cp.Pages, cp.Done = "", 3, true
		s.commitAs(index.Commit{Checkpoint: &cp})
		s.sameCheckpoint(&cp)
	}},
	{"AnUnfinishedWalkIsKept", func(s *suite) {
		none, err := s.st().LoadWalk(s.Context(), up)
		s.ok(err)
		if none != nil {
			s.Fatalf("a new store has %+v", none)
		}
		w := index.Walk{Checkpoint: index.Checkpoint{Upstream: up, Run: "r", Generation: 2, List: "l", Cursor: "c", Pages: 1, Seen: 3}}
		for i := range 3000 {
			w.IDs = append(w.IDs, fmt.Sprintf("ses_%d", i))
		}
		w.IDs = append(w.IDs, "", "nul\x00", "new\nline", "\xff")
		s.ok(s.st().SaveWalk(s.Context(), index.Fence{}, w))
		got, err := s.another().LoadWalk(s.Context(), up)
		s.ok(err)
		s.same("walk", got, &w)
		w.IDs, w.Cursor = []string{"a"}, "d"
		s.ok(s.st().SaveWalk(s.Context(), index.Fence{}, w))
		got, err = s.st().LoadWalk(s.Context(), up)
		s.ok(err)
		s.same("walk", got, &w)
		s.ok(s.st().DropWalk(s.Context(), index.Fence{}, up))
		s.ok(s.st().DropWalk(s.Context(), index.Fence{}, up)) // there is none any more
		got, err = s.st().LoadWalk(s.Context(), up)
		s.ok(err)
		if got != nil {
			s.Fatalf("a dropped walk is there: %+v", got)
		}
	}},
}

func (s *suite) sameCheckpoint(want *index.Checkpoint) {
	s.Helper()
	got, err := s.st().Checkpoint(s.Context(), up)
	s.ok(err)
	s.same("checkpoint", got, want)
}
