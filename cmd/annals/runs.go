package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"annals/internal/fault"
	"annals/internal/jobs"
	"annals/worker"
)

func runsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "runs",
		Short: "See what ran, when, and how it ended",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.PersistentFlags().BoolVar(&a.utc, "utc", false, "print times in UTC")
	c.AddCommand(runsListCommand(a), runsShowCommand(a))
	return c
}

// runView is a run of the ledger as JSON shows it. Times are milliseconds;
// finished_at is 0 while it runs, and the outcome is "running" then.
type runView struct {
	Run        string        `json:"run"`
	Trigger    string        `json:"trigger"`
	Outcome    string        `json:"outcome"`
	StartedAt  int64         `json:"started_at"`
	FinishedAt int64         `json:"finished_at"`
	Error      *worker.Fault `json:"error,omitempty"`
	Targets    []targetView  `json:"targets"`
}

type targetView struct {
	Job        string          `json:"job"`
	Target     string          `json:"target"`
	Outcome    string          `json:"outcome"`
	StartedAt  int64           `json:"started_at"`
	FinishedAt int64           `json:"finished_at"`
	Epoch      int64           `json:"epoch"`
	Detail     json.RawMessage `json:"detail"`
}

func outcomeName(o jobs.Outcome) string {
	if o == jobs.Running {
		return "running"
	}
	return string(o)
}

func viewOfRun(r *jobs.Run) runView {
	v := runView{Run: r.ID, Trigger: r.Trigger, Outcome: outcomeName(r.Outcome), StartedAt: r.StartedAt,
		FinishedAt: r.FinishedAt, Targets: []targetView{}}
	if r.ErrorCode != "" {
		v.Error = &worker.Fault{Code: r.ErrorCode, Message: r.Error}
	}
	for _, t := range r.Targets {
		d := t.Detail
		if len(d) == 0 {
			d = json.RawMessage("{}")
		}
		v.Targets = append(v.Targets, targetView{Job: t.Job, Target: t.Name, Outcome: outcomeName(t.Outcome),
			StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, Epoch: t.Epoch, Detail: d})
	}
	return v
}

func runsListCommand(a *app) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "List runs, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return fault.New(fault.Usage, "--limit is below 1", "")
			}
			st, _, err := a.openForReading(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = st.Close() }()
			runs, err := st.Runs(cmd.Context(), limit)
			if err != nil {
				return err
			}
			return a.printRuns(runs)
		},
	}
	c.Flags().IntVar(&limit, "limit", 20, "at most so `many`")
	return c
}

func (a *app) printRuns(runs []jobs.Run) error {
	if a.json {
		views := make([]runView, len(runs))
		for i := range runs {
			views[i] = viewOfRun(&runs[i])
		}
		return a.printJSON(struct {
			SchemaVersion int       `json:"schema_version"`
			Runs          []runView `json:"runs"`
		}{1, views})
	}
	if len(runs) == 0 {
		a.note("nothing has run yet; run `annals sync`")
		return nil
	}
	rows := [][]string{{"RUN", "STARTED", "TOOK", "OUTCOME", "WHAT"}}
	for i := range runs {
		r := &runs[i]
		span := "-"
		if r.FinishedAt > 0 {
			span = took(r.StartedAt, r.FinishedAt)
		}
		if len(r.Targets) == 0 {
			rows = append(rows, []string{r.ID, a.when(r.StartedAt), span, outcomeName(r.Outcome), clean(r.Error, 100)})
		}
		for j := range r.Targets {
			t := &r.Targets[j]
			rows = append(rows, []string{r.ID, a.when(r.StartedAt), span, outcomeName(t.Outcome), t.Job + " " + t.Name + ": " + targetSummary(t)})
		}
	}
	return table(a.stdout, rows)
}

// targetSummary says in a line what a target did.
func targetSummary(t *jobs.Target) string {
	if t.Error != "" && t.Outcome != jobs.Partial {
		return clean(t.Error, 100)
	}
	var u worker.UpstreamReport
	if t.Outcome == jobs.Running || t.Outcome == jobs.Lost || json.Unmarshal(t.Detail, &u) != nil {
		return "-"
	}
	return summary(&u)
}

func runsShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show RUN",
		Short: "Show one run in full",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, _, err := a.openForReading(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { _ = st.Close() }()
			r, err := st.Run(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(struct {
					SchemaVersion int     `json:"schema_version"`
					Run           runView `json:"run"`
				}{1, viewOfRun(&r)})
			}
			return a.printRun(&r)
		},
	}
}

func (a *app) printRun(r *jobs.Run) error {
	rows := [][]string{{"run", r.ID}, {"trigger", r.Trigger}, {"outcome", outcomeName(r.Outcome)}, {"started", a.when(r.StartedAt)}}
	if r.FinishedAt > 0 {
		rows = append(rows, []string{"finished", a.when(r.FinishedAt) + " (" + took(r.StartedAt, r.FinishedAt) + ")"})
	}
	if r.Error != "" {
		rows = append(rows, []string{"error", clean(r.Error, 0)})
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		rows = append(rows, []string{"", ""}, []string{t.Job, t.Name + ": " + outcomeName(t.Outcome)})
		var u worker.UpstreamReport
		if json.Unmarshal(t.Detail, &u) != nil {
			continue
		}
		rows = append(rows, []string{"  did", summary(&u)},
			[]string{"  read", fmt.Sprintf("%s by %s, %s, %s", u.Version, u.List, plural(u.Pages, "page"), plural(int(u.Requests), "request"))})
		if t.Error != "" {
			rows = append(rows, []string{"  because", clean(t.Error, 0)})
		}
		for _, s := range u.Skipped {
			rows = append(rows, []string{"  skipped", clean(s.ID+": "+s.Reason, 200)})
		}
		for _, d := range u.FailedDirectories {
			rows = append(rows, []string{"  failed", clean(d, 200)})
		}
	}
	return table(a.stdout, rows)
}
