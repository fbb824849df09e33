package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"annals/internal/index"
	"annals/internal/jobs"
	"annals/worker"
)

// finding is one thing that `doctor` looked at.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warning, failed, fixed
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

const (
	findOK      = "ok"
	findWarning = "warning"
	findFailed  = "failed"
	findFixed   = "fixed"
)

func doctorCommand(a *app) *cobra.Command {
	var fix bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong, and mend what can be mended safely",
		Long: `Look at the configuration, the files, the store, the runs and each upstream.
With --fix: files that others can read become private, and runs whose process
is gone are closed. Exit status: 0 nothing failed, 1 something did.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"config": "none"}, // a broken configuration is a finding
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{app: a, fix: fix}
			d.run(cmd)
			return d.print()
		},
	}
	c.Flags().BoolVar(&fix, "fix", false, "mend what can be mended safely")
	return c
}

type doctor struct {
	*app
	fix      bool
	findings []finding
}

func (d *doctor) add(name, state, detail, hint string) {
	d.findings = append(d.findings, finding{name, state, detail, hint})
}

func (d *doctor) fail(name string, err error) {
	f := worker.AsFault(err)
	d.add(name, findFailed, f.Message, f.Hint)
}

func (d *doctor) run(cmd *cobra.Command) {
	if err := d.configure(cmd); err != nil {
		d.fail("configuration", err)
		return
	}
	d.add("configuration", findOK, "it is well formed", "")
	d.files()
	d.store(cmd.Context())
	ups, err := d.upstreams("")
	if err != nil {
		d.fail("upstreams", err)
		return
	}
	for _, u := range ups {
		d.upstream(cmd.Context(), u)
	}
}

// files looks at the modes of what Annals owns.
func (d *doctor) files() {
	db := d.paths.database()
	open := 0
	for _, path := range []string{d.paths.configDir, d.userFile(), d.paths.dataDir, db, db + "-wal", db + "-shm", d.paths.stateDir, d.paths.locks()} {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			d.fail("files", err)
			continue
		}
		mode := info.Mode().Perm()
		if mode&0o077 == 0 {
			continue
		}
		open++
		detail := fmt.Sprintf("%s can be opened by others (mode %04o)", path, mode)
		if !d.fix {
			d.add("files", findWarning, detail, "run: annals doctor --fix")
			continue
		}
		if err := os.Chmod(path, mode&0o700); err != nil {
			d.fail("files", err)
			continue
		}
		d.add("files", findFixed, detail+"; now it cannot", "")
	}
	if open == 0 {
		d.add("files", findOK, "only you can open them", "")
	}
}

func (d *doctor) store(ctx context.Context) {
	st, exists, err := d.openForReading(ctx)
	if err != nil {
		d.fail("store", err)
		return
	}
	defer func() { _ = st.Close() }()
	if !exists {
		d.add("store", findOK, "there is none yet; `annals sync` makes it", "")
		return
	}
	if err := st.Check(ctx); err != nil {
		d.fail("store", err)
		return
	}
	// A commit that is rolled back: is it really there to be written?
	if _, err := st.Commit(ctx, index.Fence{}, index.Commit{Upstream: localName, DryRun: true}); err != nil {
		d.fail("store", err)
		return
	}
	d.add("store", findOK, d.paths.database()+" is sound", "")
	d.state()
	if d.fix {
		lost, err := d.keeper(st).CloseOrphans(ctx)
		if err != nil {
			d.fail("runs", err)
			return
		}
		if len(lost) > 0 {
			d.add("runs", findFixed, plural(len(lost), "run")+" whose process is gone closed as lost", "")
			return
		}
	}
	runs, err := st.Runs(ctx, recentRuns)
	if err != nil {
		d.fail("runs", err)
		return
	}
	open := 0
	for i := range runs {
		if runs[i].Outcome == jobs.Running {
			open++
		}
	}
	if open > 0 && !d.fix {
		d.add("runs", findWarning, plural(open, "run")+" in progress, or left open by a process that died", "the next sync closes what is lost; so does: annals doctor --fix")
		return
	}
	d.add("runs", findOK, "the ledger is in order", "")
}

// state tries whether the state directory, where the locks are, can be
// written.
func (d *doctor) state() {
	dir := d.paths.locks()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return
	}
	f, err := os.CreateTemp(dir, ".doctor-")
	if err == nil {
		_, err = f.WriteString("x")
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		d.add("state", findFailed, "the locks cannot be written: "+err.Error(), "see that "+d.paths.stateDir+" can be written, and that its disk is not full")
		return
	}
	d.add("state", findOK, "the locks can be written", "")
}

// upstream connects and asks which lists there are, as a run does.
func (d *doctor) upstream(ctx context.Context, u worker.Upstream) {
	name := "upstream " + u.Name
	server, done, err := u.Connect(ctx)
	if err != nil {
		d.fail(name, err)
		return
	}
	caps, err := server.Probe(ctx)
	if e := done(); err == nil {
		err = e
	}
	if err != nil {
		d.fail(name, err)
		return
	}
	version := caps.Version
	if version == "" {
		version = "of unknown version"
	}
	lists := ""
	for _, l := range []struct {
		has  bool
		name string
	}{{caps.Envelope, "/api/session"}, {caps.Bare, "/experimental/session"}, {caps.Plain, "/session"}} {
		if l.has {
			lists += " " + l.name
		}
	}
	d.add(name, findOK, "OpenCode "+version+" answers; lists:"+lists, "")
}

func (d *doctor) print() error {
	failed := false
	rows := [][]string{}
	for _, f := range d.findings {
		failed = failed || f.State == findFailed
		rows = append(rows, []string{f.State, f.Name, clean(f.Detail, 0)})
		if f.Hint != "" {
			rows = append(rows, []string{"", "", clean(f.Hint, 0)})
		}
	}
	var err error
	if d.json {
		err = d.printJSON(struct {
			SchemaVersion int       `json:"schema_version"`
			OK            bool      `json:"ok"`
			Findings      []finding `json:"findings"`
		}{1, !failed, d.findings})
	} else {
		err = table(d.stdout, rows)
	}
	if err == nil && failed {
		return exitStatus(exitFailed)
	}
	return err
}
