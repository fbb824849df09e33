package worker_test

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/worker/opencode"
)

// fakeServer is an upstream in memory with the lists of 1.18: fast enough for
// property tests over many histories. That the real server behaves like this
// is proven where the real server runs, in fixtures.
type fakeServer struct {
	sessions []index.Record // Metadata set
	caps     opencode.Capabilities
	cap      int               // rows an answer holds at most; 0: as many as asked for
	metadata bool              // the envelope carries metadata, as 2.x does
	before   func(n int) error // called before the n-th request, counted from 1; may change sessions
	answer   func(n int, sum *opencode.Summary)
	requests atomic.Int64
	lexical  bool
	projects []opencode.Project
	broken   string           // the session whose row cannot be read in any list
	emptyAt  int              // the list request that is answered with an empty page and its own token
	gone     map[string]error // what a lookup of this id says instead
}

func (f *fakeServer) Lexical() bool   { return f.lexical }
func (f *fakeServer) Requests() int64 { return f.requests.Load() }

func (f *fakeServer) begin(ctx context.Context) (int, error) {
	n := int(f.requests.Add(1))
	if err := ctx.Err(); err != nil {
		return n, err
	}
	if f.before != nil {
		return n, f.before(n)
	}
	return n, nil
}

func (f *fakeServer) Probe(ctx context.Context) (opencode.Capabilities, error) {
	_, err := f.begin(ctx)
	return f.caps, err
}

func (f *fakeServer) Projects(ctx context.Context) ([]opencode.Project, error) {
	if _, err := f.begin(ctx); err != nil {
		return nil, err
	}
	if f.projects == nil {
		return nil, fault.New(fault.NotFound, "no such route", "")
	}
	return f.projects, nil
}

func (f *fakeServer) Lookup(ctx context.Context, caps opencode.Capabilities, id string) (index.Record, error) {
	if _, err := f.begin(ctx); err != nil {
		return index.Record{}, err
	}
	if err := f.gone[id]; err != nil {
		return index.Record{}, err
	}
	for _, s := range f.sessions {
		if s.ID == id {
			if !caps.Bare && !caps.Plain && !f.metadata {
				s.Metadata = nil
			}
			return s, nil
		}
	}
	return index.Record{}, fault.New(fault.NotFound, "no such session", "")
}

func (f *fakeServer) Stubs(ctx context.Context, r opencode.Request, yield func(*index.Record) error) (opencode.Summary, error) {
	return f.List(ctx, r, func(rec *index.Record) error {
		return yield(&index.Record{ID: rec.ID, Updated: rec.Updated})
	})
}

func (f *fakeServer) List(ctx context.Context, r opencode.Request, yield func(*index.Record) error) (opencode.Summary, error) {
	n, err := f.begin(ctx)
	if err != nil {
		return opencode.Summary{}, err
	}
	var rows []index.Record
	for _, s := range f.sessions {
		if r.Directory == "" || r.Directory == s.Directory || r.WholeProject && strings.HasPrefix(s.Directory, r.Directory) {
			rows = append(rows, s)
		}
	}
	byTime := r.Route != opencode.Envelope
	key := func(s index.Record) int64 {
		if byTime {
			return s.Updated
		}
		return s.Created
	}
	slices.SortFunc(rows, func(a, b index.Record) int {
		return cmp.Or(cmp.Compare(key(b), key(a)), cmp.Compare(b.ID, a.ID))
	})
	rows = slices.DeleteFunc(rows, func(s index.Record) bool { return r.Cursor != "" && !behind(r.Cursor, key(s), s.ID, byTime) })
	limit := r.Limit
	if f.cap > 0 {
		limit = min(limit, f.cap)
	}
	full := len(rows) >= limit
	rows = rows[:min(len(rows), limit)]
	sum := opencode.Summary{Rows: len(rows)}
	if len(rows) > 0 && (!byTime || r.Route == opencode.Bare && full) {
		last := rows[len(rows)-1]
		sum.Next = strconv.FormatInt(key(last), 10) + "/" + last.ID
		if byTime {
			sum.Next = strconv.FormatInt(key(last), 10)
		}
	}
	if n == f.emptyAt {
		return opencode.Summary{Next: "0" + r.Cursor}, nil // the same place under another name
	}
	for _, s := range rows {
		if s.ID == f.broken {
			sum.Skipped = append(sum.Skipped, opencode.Skip{ID: s.ID, Reason: "broken"})
			continue
		}
		if r.Route == opencode.Envelope && !f.metadata {
			s.Metadata = nil
		}
		sum.HasMetadata = sum.HasMetadata || len(s.Metadata) > 2
		if err := yield(&s); err != nil {
			return sum, err
		}
	}
	if f.answer != nil {
		f.answer(n, &sum)
	}
	return sum, nil
}

// behind reports whether a row comes after a cursor: by time alone on the bare
// list, which loses ties, by time and id on the envelope.
func behind(cursor string, key int64, id string, byTime bool) bool {
	at, anchor, _ := strings.Cut(cursor, "/")
	t, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return false
	}
	return key < t || !byTime && key == t && id < anchor
}
