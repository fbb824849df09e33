package storetest

import (
	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
)

const job = "index"

var fenceTests = []test{
	{"EveryWriteOfAFencedOwnerIsRefused", func(s *suite) {
		s.commit(session("a", 1))
		old := s.take("one", 10)
		s.ok(s.writes(old, "while it owns the job")[0])
		s.take("two", 10+ttl)
		before, rows := s.point(), s.everything()
		for i, err := range s.writes(old, "/late") {
			if !fault.Is(err, fault.Fenced) {
				s.Fatalf("write %d of a fenced owner: %v", i, err)
			}
		}
		s.same("feed", s.point(), before)
		s.same("rows", s.everything(), rows)
		walk, err := s.st().LoadWalk(s.Context(), up)
		s.ok(err)
		s.same("the walk is that of before", walk.Run, "while it owns the job")
	}},
	{"AnOwnerThatHasFinishedIsFenced", func(s *suite) {
		fence := s.take("one", 10)
		s.ok(s.st().FinishTarget(s.Context(), fence, target("one", jobs.OK)))
		for _, err := range s.writes(fence, "/late") {
			s.code(err, fault.Fenced)
		}
	}},
	{"AFenceOfNoLeaseIsRefused", func(s *suite) {
		for _, err := range s.writes(index.Fence{Job: job, Target: "never"}, "/x") {
			s.code(err, fault.Fenced)
		}
	}},
	{"ADryRunIsFencedToo", func(s *suite) {
		_, err := s.st().Commit(s.Context(), index.Fence{Job: job, Target: up, Epoch: 3}, index.Commit{Upstream: up, DryRun: true})
		s.code(err, fault.Fenced)
	}},
}

// writes does each fenced write of the index and returns their errors.
func (s *suite) writes(f index.Fence, mark string) []error {
	ctx, st := s.Context(), s.st()
	_, commit := st.Commit(ctx, f, index.Commit{Upstream: up, Namespace: namespace, Records: []index.Record{session(mark, 5)}})
	_, missing := st.MarkMissing(ctx, f, up, []string{"a"}, 5)
	return []error{commit, missing,
		st.SetDirectories(ctx, f, up, []index.Directory{{Given: "/repo", Canonical: mark}}),
		st.SaveWalk(ctx, f, index.Walk{Checkpoint: index.Checkpoint{Upstream: up, Run: mark}}),
		st.DropWalk(ctx, f, "nobody"),
		st.RenewLease(ctx, f, 5),
	}
}
