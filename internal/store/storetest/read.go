package storetest

import (
	"strconv"

	"annals/internal/fault"
	"annals/internal/index"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

var readTests = []test{
	{"AnEmptyStoreAnswersWithNothing", func(s *suite) {
		s.same("list", len(s.everything()), 0)
		s.same("few", len(s.list(index.Query{Limit: 5})), 0)
		s.same("known", len(s.known(up)), 0)
		found, err := s.st().Get(s.Context(), "a")
		s.ok(err)
		s.same("get", len(found), 0)
		counts, err := s.st().Counts(s.Context())
		s.ok(err)
		s.same("counts", len(counts), 0)
		s.ok(s.st().Check(s.Context()))
	}},
	{"KnownHasEveryRow", func(s *suite) {
		s.commit(session("a", 10), with(session("b", 1), systemDoc), child("c", "a", 1))
		s.missing(5, "c")
		s.same("known", s.known(up), map[string]index.Known{
			"a": {Digest: digest(session("a", 10))},
			"b": {Digest: digest(with(session("b", 1), systemDoc))},
			"c": {Digest: digest(child("c", "a", 1)), Missing: true},
		})
	}},
	{"KnownInIsByDirectoryAsGiven", func(s *suite) {
		b, c := session("b", 1), session("c", 1)
		b.Directory, c.Directory = "/repo/", "/other"
		s.commit(session("a", 1), b, c, session("d", 1))
		s.missing(5, "d")
		in, err := s.st().KnownIn(s.Context(), up, []string{"/repo", "/repo/", "/repo", "/none"})
		s.ok(err)
		s.same("ids", sorted(in), []string{"a", "b"})
		in, err = s.st().KnownIn(s.Context(), up, nil)
		s.ok(err)
		s.same("ids of no directory", len(in), 0)
	}},
	{"CountsAreByState", func(s *suite) {
		gone := session("m", 1)
		s.commit(session("a", 1), with(session("b", 1), archivedDoc), child("c", "a", 1), with(child("d", "a", 1), archivedDoc),
			with(session("e", 1), systemDoc), with(session("f", 1), systemDoc), gone, child("n", "a", 1))
		s.missing(5, "f", "m", "n")
		s.commitAs(index.Commit{Upstream: "another", Records: []index.Record{session("a", 1)}})
		counts, err := s.st().Counts(s.Context())
		s.ok(err)
		s.same("counts", counts, []index.Counts{
			{Upstream: "another", Active: 1, Rows: 1},
			{Upstream: up, Active: 1, Archived: 1, Missing: 2, Children: 2, System: 1, Rows: 8},
		})
	}},
	{"ChildrenLeaveOutTheMissingAndTheSystems", func(s *suite) {
		s.commit(session("a", 1), child("b", "a", 1), child("c", "a", 1), with(child("d", "a", 1), systemDoc), with(child("e", "a", 1), archivedDoc))
		s.missing(5, "c")
		s.same("children, one looked up", s.get("a").Children, 2)
		s.same("children, all listed", s.list(index.Query{})[0].Children, 2)
		s.same("children, few listed", s.list(index.Query{Limit: 1})[0].Children, 2)
	}},
	{"ADirectoryIsMatchedExactly", func(s *suite) {
		b, c := session("b", 1), session("c", 1)
		b.Directory, c.Directory = "/link", "/repo/sub"
		s.commitAs(index.Commit{Records: []index.Record{session("a", 1), b, c}, Directories: []index.Directory{{Given: "/link", Canonical: "/repo"}}})
		s.same("ids", ids(s.list(index.Query{Directory: "/repo"})), []string{"a", "b"})
		s.same("as given", len(s.list(index.Query{Directory: "/link"})), 0)
		s.same("a prefix", len(s.list(index.Query{Directory: "/wor"})), 0)
		s.same("a pattern", len(s.list(index.Query{Directory: "/wor%"})), 0)
	}},
	{"AnUnknownFilterIsRefused", func(s *suite) {
		_, err := s.st().List(s.Context(), index.Query{Archived: "sometimes"})
		s.code(err, fault.Usage)
	}},
}
