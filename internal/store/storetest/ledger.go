package storetest

import (
	"encoding/json"
	"fmt"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
)

const ttl = 1000

var ledgerTests = []test{
	{"ARunIsRecordedAndClosedOnce", func(s *suite) {
		r := jobs.Run{ID: "run-1", Trigger: "manual", Owner: "host:1", StartedAt: 10}
		s.ok(s.st().StartRun(s.Context(), r))
		s.same("open", s.run("run-1"), r)
		r.FinishedAt, r.Outcome, r.ErrorCode, r.Error = 20, jobs.Partial, "page_budget", "stopped after 3 pages"
		s.ok(s.st().FinishRun(s.Context(), r))
		s.same("closed", s.run("run-1"), r)
		s.code(s.st().FinishRun(s.Context(), r), fault.Fenced)
		s.code(s.st().FinishRun(s.Context(), jobs.Run{ID: "none", Outcome: jobs.OK}), fault.NotFound)
		s.code(s.st().FinishRun(s.Context(), jobs.Run{ID: "run-1"}), fault.Internal)
	}},
	{"ALeaseCountsItsOwners", func(s *suite) {
		none, err := s.st().Lease(s.Context(), job, up)
		s.ok(err)
		if none != nil {
			s.Fatalf("a new store has %+v", none)
		}
		first := s.take("one", 10)
		s.same("fence", first, index.Fence{Job: job, Target: up, Epoch: 1})
		s.same("lease", s.lease(), jobs.Lease{Job: job, Target: up, Epoch: 1, Run: "one", Owner: "host:1", Lock: "token", Expires: 10 + ttl})
		s.ok(s.st().FinishTarget(s.Context(), first, target("one", jobs.OK)))
		s.same("a free lease", s.lease(), jobs.Lease{Job: job, Target: up, Epoch: 1})
		s.same("the next owner", s.take("two", 30).Epoch, int64(2))
	}},
	{"AnUnexpiredLeaseKeepsOthersOut", func(s *suite) {
		s.take("one", 10)
		s.start("two")
		_, _, err := s.st().TakeLease(s.Context(), want("two", 20), 10+ttl-1, 0)
		s.code(err, fault.Busy)
		_, _, err = s.st().TakeLease(s.Context(), want("two", 20), 20, 7) // another epoch than the one that is dead
		s.code(err, fault.Busy)
		s.same("targets of the refused", len(s.run("two").Targets), 0)
		fence, lost, err := s.st().TakeLease(s.Context(), want("two", 20), 10+ttl, 0) // it ends at the very time
		s.ok(err)
		s.same("fence", fence.Epoch, int64(2))
		s.same("lost", lost, []string{"one"})
	}},
	{"ADeadOwnersLeaseIsTakenAtOnce", func(s *suite) {
		fence := s.take("one", 10)
		s.start("two")
		_, lost, err := s.st().TakeLease(s.Context(), want("two", 20), 20, fence.Epoch)
		s.ok(err)
		s.same("lost", lost, []string{"one"})
		one := s.run("one")
		s.same("outcome", []jobs.Outcome{one.Outcome, one.Targets[0].Outcome}, []jobs.Outcome{jobs.Lost, jobs.Lost})
		s.same("finished", []int64{one.FinishedAt, one.Targets[0].FinishedAt}, []int64{20, 20})
		s.code(s.st().RenewLease(s.Context(), fence, 99), fault.Fenced)
		s.code(s.st().FinishTarget(s.Context(), fence, target("one", jobs.OK)), fault.Fenced)
		s.code(s.st().FinishRun(s.Context(), jobs.Run{ID: "one", Outcome: jobs.OK, FinishedAt: 30}), fault.Fenced)
		_, _, err = s.st().TakeLease(s.Context(), want("one", 30), 30+5*ttl, 0)
		s.code(err, fault.Fenced)
		s.ok(s.st().Check(s.Context()))
	}},
	{"ARunIsLostOnlyWhenNothingElseOfItIsOpen", func(s *suite) {
		s.take("one", 10)
		other := want("one", 10)
		other.Target = "elsewhere"
		elsewhere, _, err := s.st().TakeLease(s.Context(), other, 10, 0)
		s.ok(err)
		s.start("two")
		_, lost, err := s.st().TakeLease(s.Context(), want("two", 20), 20, 1)
		s.ok(err)
		s.same("lost", len(lost), 0)
		s.same("still open", s.run("one").Outcome, jobs.Running)
		s.ok(s.st().RenewLease(s.Context(), elsewhere, 99))
	}},
	{"ATargetClosesWithItsDetail", func(s *suite) {
		fence := s.take("one", 10)
		open := s.run("one").Targets
		s.same("open", open, []jobs.Target{{Run: "one", Job: job, Name: up, Epoch: 1, StartedAt: 10, Detail: json.RawMessage("{}")}})
		done := jobs.Target{Run: "one", Job: job, Name: up, Epoch: 1, StartedAt: 10, FinishedAt: 40, Outcome: jobs.Failed,
			ErrorCode: "unreachable", Error: "no answer", Detail: json.RawMessage(`{"seen": 3}`)}
		s.ok(s.st().FinishTarget(s.Context(), fence, done))
		s.same("closed", s.run("one").Targets, []jobs.Target{done})
		s.code(s.st().FinishTarget(s.Context(), fence, done), fault.Fenced)
	}},
	{"ARenewedLeaseLastsLonger", func(s *suite) {
		fence := s.take("one", 10)
		s.ok(s.st().RenewLease(s.Context(), fence, 5000))
		s.same("expires", s.lease().Expires, int64(5000))
		s.start("two")
		_, _, err := s.st().TakeLease(s.Context(), want("two", 20), 4999, 0)
		s.code(err, fault.Busy)
	}},
	{"ALeaseNeedsARunThatIsOpen", func(s *suite) {
		_, _, err := s.st().TakeLease(s.Context(), want("nobody", 10), 10, 0)
		s.code(err, fault.NotFound)
		s.start("one")
		s.ok(s.st().FinishRun(s.Context(), jobs.Run{ID: "one", Outcome: jobs.OK, FinishedAt: 20}))
		_, _, err = s.st().TakeLease(s.Context(), want("one", 10), 30, 0)
		s.code(err, fault.Fenced)
	}},
	{"AClosedRunLeavesNothingOpen", func(s *suite) {
		fence := s.take("one", 10)
		s.ok(s.st().FinishRun(s.Context(), jobs.Run{ID: "one", Outcome: jobs.Failed, FinishedAt: 20}))
		s.same("target", s.run("one").Targets[0].Outcome, jobs.Lost)
		s.code(s.st().RenewLease(s.Context(), fence, 99), fault.Fenced)
		s.ok(s.st().Check(s.Context()))
	}},
	{"ALostRunIsClosedWithItsTargets", func(s *suite) {
		fence := s.take("one", 10)
		lost, err := s.st().LoseRun(s.Context(), "one", nil, 50)
		s.ok(err)
		s.same("something of it is open that nobody looked at", lost, false)
		lost, err = s.st().LoseRun(s.Context(), "one", []index.Fence{{Job: job, Target: up, Epoch: 9}}, 50)
		s.ok(err)
		s.same("it has moved on", lost, false)
		lost, err = s.st().LoseRun(s.Context(), "one", []index.Fence{fence}, 50)
		s.ok(err)
		s.same("lost", lost, true)
		one := s.run("one")
		s.same("outcomes", []jobs.Outcome{one.Outcome, one.Targets[0].Outcome}, []jobs.Outcome{jobs.Lost, jobs.Lost})
		s.code(s.st().RenewLease(s.Context(), fence, 99), fault.Fenced)
		lost, err = s.st().LoseRun(s.Context(), "one", nil, 60)
		s.ok(err)
		s.same("once", lost, false)
		s.same("finished", s.run("one").FinishedAt, int64(50))
		_, err = s.st().LoseRun(s.Context(), "nobody", nil, 60)
		s.code(err, fault.NotFound)
	}},
	{"TheNewestRunsComeFirst", func(s *suite) {
		for i := range 12 {
			s.ok(s.st().StartRun(s.Context(), jobs.Run{ID: fmt.Sprintf("run-%02d", i), Trigger: "manual", StartedAt: int64(100 + i/2)}))
		}
		s.ok(s.st().FinishRun(s.Context(), jobs.Run{ID: "run-11", Outcome: jobs.OK, FinishedAt: 300}))
		few, err := s.st().Runs(s.Context(), 3)
		s.ok(err)
		s.same("runs", runIDs(few), []string{"run-11", "run-10", "run-09"})
		all, err := s.st().Runs(s.Context(), 0)
		s.ok(err)
		s.same("all", len(all), 12)
		open, err := s.st().OpenRuns(s.Context())
		s.ok(err)
		s.same("open", runIDs(open)[0], "run-10")
		s.same("open", len(open), 11)
	}},
	{"ARunIsFoundByTheBeginningOfItsID", func(s *suite) {
		for _, id := range []string{"0193-aaaa-1", "0193-aaaa-2", "0193-bbbb-1", "0193%bbbb"} {
			s.start(id)
		}
		s.same("id", s.run("0193-aaaa-1").ID, "0193-aaaa-1")
		s.same("prefix", s.run("0193-bbb").ID, "0193-bbbb-1")
		_, err := s.st().Run(s.Context(), "0193-aaaa")
		s.code(err, fault.Usage)
		for _, id := range []string{"0193-bb", "", "0193-cccc", "0193____", "0193-bbbb-1x"} {
			_, err = s.st().Run(s.Context(), id)
			s.code(err, fault.NotFound)
		}
	}},
}

// want is a lease that run asks for at a time.
func want(run string, now int64) jobs.Lease {
	return jobs.Lease{Job: job, Target: up, Run: run, Owner: "host:1", Lock: "token", Expires: now + ttl}
}

func target(run string, o jobs.Outcome) jobs.Target {
	return jobs.Target{Run: run, Job: job, Name: up, FinishedAt: 25, Outcome: o}
}

func (s *suite) start(run string) {
	s.Helper()
	s.ok(s.st().StartRun(s.Context(), jobs.Run{ID: run, Trigger: "manual", StartedAt: 1}))
}

// take starts a run and makes it the owner of the usual job.
func (s *suite) take(run string, now int64) index.Fence {
	s.Helper()
	s.start(run)
	fence, _, err := s.st().TakeLease(s.Context(), want(run, now), now, 0)
	s.ok(err)
	return fence
}

func (s *suite) lease() jobs.Lease {
	s.Helper()
	l, err := s.st().Lease(s.Context(), job, up)
	s.ok(err)
	if l == nil {
		s.Fatal("there is no lease")
	}
	return *l
}

func (s *suite) run(id string) jobs.Run {
	s.Helper()
	r, err := s.st().Run(s.Context(), id)
	s.ok(err)
	return r
}

func runIDs(list []jobs.Run) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].ID
	}
	return out
}
