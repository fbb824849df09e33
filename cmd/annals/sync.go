package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"annals/internal/fault"
	"annals/internal/jobs"
	"annals/internal/store"
	"annals/worker"
)

const syncLong = `Read every session that OpenCode has and bring the index up to date, now.

With no upstream configured, OPENCODE_SERVER_URL names the server, with
OPENCODE_SERVER_USERNAME and OPENCODE_SERVER_PASSWORD. Without it, annals
starts "opencode serve" for as long as the run lasts: no plugin runs, nothing
is fetched, no model is needed.

Sessions that are gone at the upstream are kept and marked missing. A run that
would mark too many is held and says how to accept it.`

func syncCommand(a *app) *cobra.Command {
	var upstream string
	var req worker.Request
	c := &cobra.Command{
		Use:   "sync",
		Short: "Bring the index up to date, now",
		Long:  syncLong,
		Example: `  annals sync
  annals sync --directory . --json
  annals sync --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for i, d := range req.Directories {
				if d == "" {
					return fault.New(fault.Usage, "--directory is empty", "")
				}
				abs, err := filepath.Abs(d)
				if err != nil {
					return fault.Wrap(err, fault.Usage, "", "the directory %q", d)
				}
				req.Directories[i] = abs
			}
			ups, err := a.upstreams(upstream)
			if err != nil {
				return err
			}
			if err := a.checkUpstreams(upstream); err != nil {
				return err
			}
			req.Upstreams, req.Trigger = ups, "manual"
			return a.sync(cmd, req)
		},
	}
	f := c.Flags()
	f.StringVar(&upstream, "upstream", "", "only the upstream of this `name`")
	f.StringArrayVar(&req.Directories, "directory", nil, "only sessions of this `directory`; may be repeated")
	f.Bool("index-only", false, "only the session index (all there is so far)")
	f.BoolVar(&req.Full, "full", false, "walk from the start and look at every row again")
	f.BoolVar(&req.DryRun, "dry-run", false, "read everything, write nothing, say what would change")
	f.BoolVar(&req.AcceptMassChange, "accept-mass-change", false, "let many sessions turn missing at once")
	_ = c.RegisterFlagCompletionFunc("upstream", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.upstreamNames(c), cobra.ShellCompDirectiveNoFileComp
	})
	_ = c.MarkFlagDirname("directory")
	return c
}

// upstreamNames completes --upstream; a configuration that cannot be read
// completes nothing.
func (a *app) upstreamNames(cmd *cobra.Command) []string {
	if a.configure(cmd) != nil {
		return nil
	}
	ups, err := a.upstreams("")
	if err != nil {
		return nil
	}
	var names []string
	for _, u := range ups {
		names = append(names, u.Name)
	}
	return names
}

func (a *app) sync(cmd *cobra.Command, req worker.Request) error {
	ctx := cmd.Context()
	var st *store.Store
	var err error
	if req.DryRun {
		st, _, err = a.openForReading(ctx)
	} else {
		st, err = a.openStore(ctx)
	}
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	draw, done := a.progress()
	rep, err := a.worker(st, draw).Sync(ctx, req)
	done()
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(syncOutput{rep, firstFault(rep)})
	} else {
		err = a.printReport(rep)
	}
	if err != nil {
		return err
	}
	switch rep.Outcome {
	case jobs.OK:
		return nil
	case jobs.Failed:
		return exitStatus(exitFailed)
	}
	return exitStatus(exitPartial)
}

// syncOutput is what `sync --json` prints: the report, and for a run that
// failed the error on top, as every failing command has it.
type syncOutput struct {
	worker.Report
	Error *worker.Fault `json:"error,omitempty"`
}

func firstFault(rep worker.Report) *worker.Fault {
	if rep.Outcome != jobs.Failed {
		return nil
	}
	for i := range rep.Upstreams {
		if f := rep.Upstreams[i].Error; f != nil {
			return f
		}
	}
	return nil
}

// printReport prints one line an upstream, and under it what needs a person.
func (a *app) printReport(rep worker.Report) error {
	for i := range rep.Upstreams {
		u := &rep.Upstreams[i]
		would := ""
		if rep.DryRun {
			would = " (dry run, nothing written)"
		}
		if u.Outcome != jobs.Failed {
			if err := a.printf("%s: %s%s: %s in %s\n", u.Name, u.Outcome, would, summary(u), took(rep.StartedAt, rep.FinishedAt)); err != nil {
				return err
			}
		}
		for _, s := range u.Skipped {
			id := s.ID
			if id == "" {
				id = "a row"
			}
			a.note("  skipped %s: %s", clean(id, 80), clean(s.Reason, 200))
		}
		for _, d := range u.FailedDirectories {
			a.note("  failed: %s", clean(d, 200))
		}
		if u.Error != nil {
			a.printFault(u.Name+": "+string(u.Outcome)+": ", u.Error)
		}
	}
	return nil
}

func summary(u *worker.UpstreamReport) string {
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{
		{u.Added, "added"}, {u.Updated, "updated"}, {u.Unchanged, "unchanged"}, {u.Archived, "archived"},
		{u.Restored, "restored"}, {u.Missing, "missing"}, {u.Held, "held back"}, {len(u.Skipped), "skipped"},
	} {
		if c.n > 0 {
			parts = append(parts, itoa(c.n)+" "+c.what)
		}
	}
	s := plural(u.Seen, "session")
	if len(parts) > 0 {
		s += " (" + strings.Join(parts, ", ") + ")"
	}
	if !u.Complete {
		s += ", not complete"
	}
	return s
}
