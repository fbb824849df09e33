package storetest

import (
	"annals/internal/index"
)

var feedTests = []test{
	{"TheEpochAndTheRevisionSurviveReopening", func(s *suite) {
		first := s.stores.Open(s.T)
		p, err := first.Point(s.Context())
		s.ok(err)
		if p.Epoch == "" || p.Revision != 0 {
			s.Fatalf("a new store is at %+v", p)
		}
		_, err = first.Commit(s.Context(), index.Fence{}, index.Commit{Upstream: up, Namespace: namespace, Records: []index.Record{session("a", 1)}})
		s.ok(err)
		s.ok(first.Close())
		s.same("point", s.point(), index.Point{Epoch: p.Epoch, Revision: 1})
	}},
	{"TheRevisionMovesByOneForEachChangingTransaction", func(s *suite) {
		steps := []struct {
			what string
			do   func()
			by   int64
		}{
			{"a page", func() { s.commit(session("a", 1), session("b", 1), child("c", "a", 1)) }, 1},
			{"a replay", func() { s.commit(session("a", 1), session("b", 1)) }, 0},
			{"a page with one change", func() { s.commit(session("a", 1), session("b", 2)) }, 1},
			{"a document", func() { s.commit(with(session("a", 1), `{"n":1}`)) }, 1},
			{"missing", func() { s.missing(9, "a", "b") }, 1},
			{"missing again", func() { s.missing(10, "a", "b") }, 0},
			{"missing nobody", func() { s.missing(10) }, 0},
			{"a pin", func() { s.pin("a", true) }, 1},
			{"the same pin", func() { s.pin("a", true) }, 0},
			{"an unpin", func() { s.pin("a", false) }, 1},
			{"another unpin", func() { s.pin("a", false) }, 0},
			{"a directory", func() { s.setDirectories(index.Directory{Given: "/repo", Canonical: "/real"}) }, 1},
			{"the same directory", func() { s.setDirectories(index.Directory{Given: "/repo", Canonical: "/real"}) }, 0},
			{"a directory of no row", func() { s.setDirectories(index.Directory{Given: "/no", Canonical: "/none"}) }, 0},
			{"a checkpoint", func() { s.commitAs(index.Commit{Checkpoint: &index.Checkpoint{Upstream: up, Run: "r"}}) }, 0},
		}
		for _, step := range steps {
			before := s.point()
			step.do()
			if got := s.point(); got.Revision != before.Revision+step.by || got.Epoch != before.Epoch {
				s.Fatalf("%s moved the feed from %+v to %+v", step.what, before, got)
			}
		}
	}},
	{"ADirectoryThatMovesTouchesItsRows", func(s *suite) {
		other := session("b", 1)
		other.Directory = "/other"
		s.commit(session("a", 1), other)
		s.setDirectories(index.Directory{Given: "/repo", Canonical: "/real"}, index.Directory{Given: "/other", Canonical: "/other"})
		s.same("revisions", []int64{s.get("a").Revision, s.get("b").Revision}, []int64{2, 1})
		s.same("canonical", s.get("a").Canonical, "/real")
		dirs, err := s.st().Directories(s.Context(), up)
		s.ok(err)
		s.same("directories", dirs, []index.Directory{{Given: "/other", Canonical: "/other"}, {Given: "/repo", Canonical: "/real"}})
	}},
	{"ADirectoryOfACommitReplacesTheFormItHad", func(s *suite) {
		s.commit(session("a", 1))
		s.same("lexical", s.get("a").Canonical, "/repo")
		s.commitAs(index.Commit{Base: 1, Records: []index.Record{session("b", 1)}, Directories: []index.Directory{{Given: "/repo", Canonical: "/real"}}})
		for _, id := range []string{"a", "b"} {
			e := s.get(id)
			if e.Canonical != "/real" || e.Revision != 2 {
				s.Fatalf("%s is in %q at revision %d", id, e.Canonical, e.Revision)
			}
		}
	}},
	{"ChangesCanBeFollowed", func(s *suite) {
		s.commit(session("b", 1), session("a", 1))
		s.commit(with(session("c", 1), systemDoc))
		s.commit(session("a", 2))
		s.missing(5, "b")
		s.same("all", s.changes(0, 0), []string{"c@2", "a@3", "b@4"})
		s.same("since", s.changes(3, 0), []string{"b@4"})
		s.same("none", s.changes(4, 0), []string(nil))
		s.same("a few", s.changes(0, 2), []string{"c@2", "a@3"})
		s.same("just as many", s.changes(0, 3), []string{"c@2", "a@3", "b@4"})
	}},
	{"ARevisionIsNeverTornByALimit", func(s *suite) {
		s.commit(session("x", 1))
		s.commit(session("c", 1), session("b", 1), session("a", 1))
		s.commit(session("y", 1))
		s.same("stops before it", s.changes(0, 2), []string{"x@1"})
		s.same("or gives it whole", s.changes(1, 2), []string{"a@2", "b@2", "c@2"})
		s.same("with what fits", s.changes(0, 4), []string{"x@1", "a@2", "b@2", "c@2"})
	}},
}

func (s *suite) setDirectories(dirs ...index.Directory) {
	s.Helper()
	s.ok(s.st().SetDirectories(s.Context(), index.Fence{}, up, dirs))
}

// changes follows the feed and returns "id@revision" of what it sees.
func (s *suite) changes(since int64, limit int) []string {
	s.Helper()
	list, err := s.st().Changes(s.Context(), since, limit)
	s.ok(err)
	var out []string
	for _, e := range list {
		out = append(out, e.ID+"@"+itoa(e.Revision))
	}
	return out
}
