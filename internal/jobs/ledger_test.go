package jobs_test

import (
	"context"
	"sync"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
)

// memory is a ledger in memory, for tests on a clock that is not real. The
// ledger's own rules are tested in storetest.
type memory struct {
	mu     sync.Mutex
	leases map[[2]string]*jobs.Lease
	runs   map[string]jobs.Run
	closed []jobs.Target
	// fail, when set, is asked before each renewal.
	fail func() error
}

func newMemory() *memory {
	return &memory{leases: map[[2]string]*jobs.Lease{}, runs: map[string]jobs.Run{}}
}

// set puts a lease there as its owner would have.
func (m *memory) set(l jobs.Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[[2]string{l.Job, l.Target}] = &l
}

func (m *memory) StartRun(_ context.Context, r jobs.Run) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs[r.ID] = r
	return nil
}

func (m *memory) FinishRun(_ context.Context, r jobs.Run) error {
	return m.StartRun(context.Background(), r)
}

func (m *memory) TakeLease(_ context.Context, l jobs.Lease, now, dead int64) (index.Fence, []string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]string{l.Job, l.Target}
	var lost []string
	if have := m.leases[key]; have != nil {
		if have.Held(now) && have.Epoch != dead {
			return index.Fence{}, nil, fault.New(fault.Busy, "held", "").Again()
		}
		l.Epoch = have.Epoch
		if have.Run != "" {
			lost = append(lost, have.Run)
		}
	}
	l.Epoch++
	m.leases[key] = &l
	return index.Fence{Job: l.Job, Target: l.Target, Epoch: l.Epoch}, lost, nil
}

// owned returns the lease that a fence owns.
func (m *memory) owned(f index.Fence) (*jobs.Lease, error) {
	l := m.leases[[2]string{f.Job, f.Target}]
	if l == nil || l.Epoch != f.Epoch || l.Run == "" {
		return nil, fault.New(fault.Fenced, "taken over", "")
	}
	return l, nil
}

func (m *memory) RenewLease(_ context.Context, f index.Fence, expires int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(); err != nil {
			return err
		}
	}
	l, err := m.owned(f)
	if err == nil {
		l.Expires = expires
	}
	return err
}

func (m *memory) FinishTarget(_ context.Context, f index.Fence, t jobs.Target) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.owned(f)
	if err == nil {
		*l = jobs.Lease{Job: f.Job, Target: f.Target, Epoch: f.Epoch}
		m.closed = append(m.closed, t)
	}
	return err
}

func (m *memory) Lease(_ context.Context, job, target string) (*jobs.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.leases[[2]string{job, target}]; l != nil {
		lease := *l
		return &lease, nil
	}
	return nil, nil
}

func (m *memory) Run(_ context.Context, id string) (jobs.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.runs[id]
	if !ok {
		return r, fault.New(fault.NotFound, "no such run", "")
	}
	return r, nil
}

func (m *memory) LoseRun(context.Context, string, []index.Fence, int64) (bool, error) {
	return false, nil
}
func (m *memory) Runs(context.Context, int) ([]jobs.Run, error) { return nil, nil }
func (m *memory) OpenRuns(context.Context) ([]jobs.Run, error)  { return nil, nil }

var _ jobs.Ledger = (*memory)(nil)
