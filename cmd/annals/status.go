package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"annals/internal/index"
	"annals/internal/jobs"
	"annals/worker"
)

// statusView is what `status --json` prints.
type statusView struct {
	SchemaVersion int              `json:"schema_version"`
	State         string           `json:"state"` // healthy, degraded, not_running
	Reasons       []string         `json:"reasons"`
	Store         storeStatus      `json:"store"`
	Upstreams     []upstreamStatus `json:"upstreams"`
}

type storeStatus struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"` // of the database file
	Epoch    string `json:"epoch"`
	Revision int64  `json:"revision"`
}

type upstreamStatus struct {
	Name     string `json:"name"`
	Active   int    `json:"active"`
	Archived int    `json:"archived"`
	Children int    `json:"children"`
	Missing  int    `json:"missing"`
	LastRun  string `json:"last_run"` // "" when it never ran
	Outcome  string `json:"outcome"`
	At       int64  `json:"at"` // when that run started, ms
}

func statusCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Say how the index is",
		Long: `Say how the index is. Exit status: 0 healthy, 1 degraded (a last run was not
ok), 3 not running (nothing has run yet).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd) },
	}
	c.Flags().BoolVar(&a.utc, "utc", false, "print times in UTC")
	return c
}

// recentRuns is how far back `status` looks for an upstream's last run.
const recentRuns = 200

func (a *app) status(cmd *cobra.Command) error {
	ctx := cmd.Context()
	st, exists, err := a.openForReading(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	point, e1 := st.Point(ctx)
	counts, e2 := st.Counts(ctx)
	runs, e3 := st.Runs(ctx, recentRuns)
	ups, e4 := a.upstreams("")
	if err := errors.Join(e1, e2, e3, e4); err != nil {
		return err
	}
	v := statusView{SchemaVersion: 1, State: "healthy", Reasons: []string{}, Upstreams: []upstreamStatus{},
		Store: storeStatus{Path: a.paths.database(), Epoch: point.Epoch, Revision: point.Revision}}
	if info, err := os.Stat(v.Store.Path); err == nil {
		v.Store.Bytes = info.Size()
	}
	if !exists {
		v.Store.Epoch = "" // that of the empty stand-in means nothing
	}
	for _, u := range ups {
		s := upstreamState(u.Name, counts, runs)
		if s.Outcome == "running" {
			lease, err := st.Lease(ctx, worker.IndexJob, u.Name)
			if err != nil {
				return err
			}
			if lease == nil || lease.Run != s.LastRun || !lease.Held(time.Now().UnixMilli()) {
				s.Outcome = string(jobs.Lost) // it fell silent; the next run closes it
			}
		}
		v.Upstreams = append(v.Upstreams, s)
	}
	code := v.judge(exists, len(runs) > 0)
	if a.json {
		err = a.printJSON(v)
	} else {
		err = a.printStatus(v)
	}
	if err != nil || code == exitOK {
		return err
	}
	return exitStatus(code)
}

func upstreamState(name string, counts []index.Counts, runs []jobs.Run) upstreamStatus {
	s := upstreamStatus{Name: name}
	for _, c := range counts {
		if c.Upstream == name {
			s.Active, s.Archived, s.Children, s.Missing = c.Active, c.Archived, c.Children, c.Missing
		}
	}
	for i := range runs {
		for _, t := range runs[i].Targets {
			if t.Job == worker.IndexJob && t.Name == name && s.LastRun == "" {
				s.LastRun, s.Outcome, s.At = t.Run, outcomeName(t.Outcome), t.StartedAt
			}
		}
	}
	return s
}

// judge sets the state with its reasons, and returns the exit status.
func (v *statusView) judge(exists, ran bool) int {
	if !exists || !ran {
		v.State = "not_running"
		v.Reasons = append(v.Reasons, "nothing has run yet; run `annals sync`")
		return exitPartial
	}
	for _, u := range v.Upstreams {
		switch u.Outcome {
		case string(jobs.OK), "running":
		case "":
			v.Reasons = append(v.Reasons, fmt.Sprintf("%s was never read", u.Name))
		default:
			v.Reasons = append(v.Reasons, fmt.Sprintf("the last run of %s was %s; see `annals runs show %s`", u.Name, u.Outcome, u.LastRun))
		}
	}
	if len(v.Reasons) > 0 {
		v.State = "degraded"
		return exitFailed
	}
	return exitOK
}

func (a *app) printStatus(v statusView) error {
	if err := a.printf("%s\n", v.State); err != nil {
		return err
	}
	for _, r := range v.Reasons {
		if err := a.printf("  %s\n", r); err != nil {
			return err
		}
	}
	rows := [][]string{{"UPSTREAM", "ACTIVE", "ARCHIVED", "CHILDREN", "MISSING", "LAST RUN", "OUTCOME"}}
	for _, u := range v.Upstreams {
		rows = append(rows, []string{u.Name, itoa(u.Active), itoa(u.Archived), itoa(u.Children), itoa(u.Missing), a.when(u.At), u.Outcome})
	}
	return table(a.stdout, rows)
}
