package storetest

import (
	"fmt"
	"sync"

	"annals/internal/index"
)

var concurrencyTests = []test{
	{"AReaderSeesAPageWholeOrNotAtAll", func(s *suite) {
		const rows, pages, readers = 40, 12, 3
		s.st()
		done := make(chan struct{})
		var wg sync.WaitGroup
		for range readers {
			reader := s.another()
			wg.Go(func() {
				for {
					list, err := reader.List(s.Context(), index.Query{})
					if err != nil {
						s.Errorf("a reader: %v", err)
						return
					}
					if len(list) != 0 && len(list) != rows {
						s.Errorf("a reader saw %d of %d rows", len(list), rows)
					}
					for i := range list {
						if list[i].Title != list[0].Title || list[i].Revision != list[0].Revision {
							s.Errorf("a reader saw %q beside %q", list[i].Title, list[0].Title)
							return
						}
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		for page := range pages {
			recs := make([]index.Record, rows)
			for i := range recs {
				recs[i] = session(fmt.Sprintf("s%d", i), int64(page))
				recs[i].Title = fmt.Sprintf("page %d", page)
			}
			s.commit(recs...)
		}
		close(done)
		wg.Wait()
	}},
	{"TwoWritersLoseNothing", func(s *suite) {
		const pages = 10
		s.st()
		var wg sync.WaitGroup
		for w := range 2 {
			writer := s.another()
			wg.Go(func() {
				for page := range pages {
					recs := []index.Record{session(fmt.Sprintf("w%d-%d", w, page), 1), child(fmt.Sprintf("c%d-%d", w, page), "x", 1)}
					res, err := writer.Commit(s.Context(), index.Fence{}, index.Commit{Upstream: up, Namespace: namespace, Records: recs})
					if err != nil || res.Added != 2 {
						s.Errorf("writer %d, page %d: %+v, %v", w, page, res, err)
					}
				}
			})
		}
		wg.Wait()
		s.same("revision", s.point().Revision, int64(2*pages))
		s.same("rows", len(s.everything()), 4*pages)
		seen := map[int64]int{}
		for _, e := range s.everything() {
			seen[e.Revision]++
		}
		s.same("rows of a revision", seen[7], 2)
		s.ok(s.st().Check(s.Context()))
	}},
	{"OfTwoThatWantAJobOneGetsIt", func(s *suite) {
		s.start("run-0")
		s.start("run-1")
		var wg sync.WaitGroup
		got := make([]error, 2)
		for w := range got {
			ledger := s.another()
			wg.Go(func() {
				_, _, got[w] = ledger.TakeLease(s.Context(), want(fmt.Sprintf("run-%d", w), 10), 10, 0)
			})
		}
		wg.Wait()
		if (got[0] == nil) == (got[1] == nil) {
			s.Fatalf("both or neither: %v, %v", got[0], got[1])
		}
	}},
	{"AnotherHandleSeesWhatIsCommitted", func(s *suite) {
		other := s.another()
		s.commit(session("a", 1))
		list, err := other.List(s.Context(), index.Query{})
		s.ok(err)
		s.same("ids", ids(list), []string{"a"})
		s.ok(other.SetPinned(s.Context(), up, "a", true))
		s.same("pinned", s.get("a").Pinned, true)
	}},
}
