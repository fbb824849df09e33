package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"annals/fixtures/corpus"
	standin "annals/fixtures/opencode"
	"annals/internal/index"
	"annals/internal/jobs"
	"annals/internal/store/sqlite"
	"annals/worker"
)

// person is somebody with a home directory who types commands.
type person struct {
	t    *testing.T
	home string
	env  []string
}

func newPerson(t *testing.T, env ...string) *person {
	home := t.TempDir()
	return &person{t: t, home: home, env: append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, env...)}
}

// withServer is a person whose environment names a server.
func withServer(t *testing.T, s *standin.Server) *person {
	return newPerson(t, "OPENCODE_SERVER_URL="+s.URL, "OPENCODE_SERVER_PASSWORD="+s.Password,
		"ANNALS_INDEX_RETRIES=0", "ANNALS_INDEX_PAGE_SIZE=100")
}

// do runs a command and returns its exit status and output.
func (p *person) do(args ...string) (status int, stdout, stderr string) {
	p.t.Helper()
	var out, errs bytes.Buffer
	status = run(p.t.Context(), process{args: args, env: p.env, stdout: &out, stderr: &errs})
	return status, out.String(), errs.String()
}

// sync runs `annals sync --json` and returns what it prints.
func (p *person) sync(wantStatus int, args ...string) worker.UpstreamReport {
	p.t.Helper()
	status, out, errs := p.do(append([]string{"sync", "--index-only", "--json"}, args...)...)
	var rep worker.Report
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		p.t.Fatalf("%v: %s%s", err, out, errs)
	}
	if status != wantStatus || len(rep.Upstreams) != 1 {
		p.t.Fatalf("exit status %d, want %d: %s%s", status, wantStatus, out, errs)
	}
	return rep.Upstreams[0]
}

// list runs `annals sessions list --json`.
func (p *person) list(args ...string) []sessionView {
	p.t.Helper()
	status, out, errs := p.do(append([]string{"sessions", "list", "--json"}, args...)...)
	var got struct{ Sessions []sessionView }
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 {
		p.t.Fatalf("exit status %d, %v: %s%s", status, err, out, errs)
	}
	return got.Sessions
}

func (p *person) everything() []sessionView {
	p.t.Helper()
	return p.list("--archived", "all", "--children", "--missing", "--limit", "100000")
}

// files returns every file below the home, by path.
func (p *person) files() map[string]fs.FileInfo {
	p.t.Helper()
	all := map[string]fs.FileInfo{}
	err := filepath.WalkDir(p.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all[path], err = d.Info()
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// wantNowhere fails when secret is in any file below the home.
func (p *person) wantNowhere(secret string) {
	p.t.Helper()
	for path, info := range p.files() {
		if info.IsDir() {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			p.t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(secret)) {
			p.t.Errorf("the password is in %s", path)
		}
	}
}

func history(n int) *corpus.Corpus {
	return corpus.Generate(corpus.Config{Seed: 1, Sessions: n, Ties: n / 5})
}

func TestASyncIndexesEverySessionAndTheNextChangesNothing(t *testing.T) {
	c := history(400)
	for _, profile := range standin.Profiles() {
		t.Run(string(profile), func(t *testing.T) {
			p := withServer(t, standin.Start(t, standin.Config{Profile: profile, Corpus: c}))
			first := p.sync(0)
			if !first.Complete || first.Seen != 400 || first.Added != 400 {
				t.Fatalf("%+v %+v", first, first.Error)
			}
			wantLists(t, p, c)
			second := p.sync(0)
			if !second.Complete || second.Unchanged != 400 || second.Added+second.Updated != 0 {
				t.Errorf("%+v", second)
			}
		})
	}
}

// wantLists compares what `sessions list` shows with the corpus.
func wantLists(t *testing.T, p *person, c *corpus.Corpus) {
	t.Helper()
	for _, l := range []struct {
		args []string
		keep func(*corpus.Session) bool
	}{
		{nil, func(s *corpus.Session) bool { return s.ParentID == "" && s.Archived == nil }},
		{[]string{"--archived", "only"}, func(s *corpus.Session) bool { return s.ParentID == "" && s.Archived != nil }},
		{[]string{"--children"}, func(s *corpus.Session) bool { return s.Archived == nil }},
		{[]string{"--archived", "all", "--children", "--limit", "100000"}, func(*corpus.Session) bool { return true }},
	} {
		want := map[string]*corpus.Session{}
		for i := range c.Sessions {
			if s := &c.Sessions[i]; l.keep(s) {
				want[s.ID] = s
			}
		}
		got := p.list(l.args...)
		if len(got) != len(want) {
			t.Errorf("list %v: %d sessions, want %d", l.args, len(got), len(want))
		}
		for i, v := range got {
			s := want[v.ID]
			if s == nil {
				t.Fatalf("list %v: %s does not belong here, or comes twice", l.args, v.ID)
			}
			delete(want, v.ID)
			archived := int64(0)
			if s.Archived != nil {
				archived = int64(*s.Archived)
			}
			if v.Title != s.Title || v.Directory != s.Directory || v.ParentID != s.ParentID || v.Created != s.Created ||
				v.Updated != s.Updated || v.ArchivedAt != archived || (v.Status == index.StatusArchived) != (archived > 0) {
				t.Fatalf("list %v: %+v, want %+v", l.args, v, *s)
			}
			if i > 0 && (got[i-1].Activity < v.Activity || got[i-1].Activity == v.Activity && got[i-1].ID > v.ID) {
				t.Fatalf("list %v: %s is out of order", l.args, v.ID)
			}
		}
	}
}

func TestWhateverTheServerDoesNoRowIsLostAndTheNextRunIsWhole(t *testing.T) {
	const list, bare = "/api/session", "/experimental/session"
	always := func(path string, a standin.Action) func(*standin.Faults) {
		return func(f *standin.Faults) { f.Rules = []standin.Rule{standin.Always(path, a)} }
	}
	third := func(path string, a standin.Action) func(*standin.Faults) {
		return func(f *standin.Faults) { f.Rules = []standin.Rule{standin.Nth(path, 3, a)} }
	}
	for _, c := range []struct {
		name   string
		fault  func(*standin.Faults)
		status int
		code   string
	}{
		{"a repeated cursor", func(f *standin.Faults) { f.RepeatCursor = true }, 3, worker.CursorRepeated},
		{"an empty page in the middle", func(f *standin.Faults) { f.EmptyPage = 3 }, 0, ""},
		{"short pages", func(f *standin.Faults) { f.ShortPages = 30 }, 0, ""},
		{"rows in another order", func(f *standin.Faults) { f.Shuffle = true }, 0, ""},
		{"rows that come twice", func(f *standin.Faults) { f.Duplicates = 5 }, 0, ""},
		{"a cursor that is a text", func(f *standin.Faults) { f.Cursor = standin.CursorString }, 0, ""},
		{"a cursor that is a number", func(f *standin.Faults) { f.Cursor = standin.CursorNumber }, 0, ""},
		{"a cursor inside a cursor", func(f *standin.Faults) { f.Cursor = standin.CursorNested }, 0, ""},
		{"a cursor that comes alone or not at all", func(f *standin.Faults) { f.CursorAlone = true }, 0, ""},
		{"a web page for one list", always(list, standin.Action{HTML: true}), 0, ""},
		{"a web page for every list", always("", standin.Action{HTML: true}), 1, "upstream_error"},
		{"a web page in the middle of the walk", third(list, standin.Action{HTML: true}), 3, "upstream_error"},
		{"an error in the middle of the walk", third(list, standin.Action{Status: 500}), 3, "upstream_error"},
		{"errors all the time", always("", standin.Action{Status: 500}), 1, "upstream_error"},
		{"a page cut in the middle, its length announced", third(list, standin.Action{Cut: standin.CutHonest}), 3, "upstream_error"},
		{"a page cut in the middle, in chunks", third(list, standin.Action{Cut: standin.CutChunked}), 3, "upstream_error"},
		{"a page that is half a page", third(list, standin.Action{Cut: standin.CutClean}), 3, "upstream_error"},
		{"the listing cut in the middle", func(f *standin.Faults) {
			f.Rules = []standin.Rule{standin.Nth(bare, 2, standin.Action{Cut: standin.CutClean})}
		}, 3, "upstream_error"},
		{"a page that says nothing", third(list, standin.Action{Body: "{}"}), 3, "upstream_error"},
		{"a page without a body", third(list, standin.Action{Body: " "}), 3, "upstream_error"},
		{"another content type", third(list, standin.Action{ContentType: "text/plain"}), 3, "upstream_error"},
		{"connections that are closed", func(f *standin.Faults) {
			// One alone is not noticed: net/http sends a request again whose reused connection was closed.
			f.Rules = []standin.Rule{{Path: list, From: 3, Action: standin.Action{Drop: true}}}
		}, 3, "unreachable"},
		{"a request that is never answered", third(list, standin.Action{Hang: true}), 3, "unreachable"},
		{"a redirect to another host", third(list, standin.Action{Redirect: "http://127.0.0.1:9/api/session"}), 3, "upstream_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := history(400)
			s := standin.Start(t, standin.Config{Corpus: h})
			p := withServer(t, s)
			p.env = append(p.env, "ANNALS_INDEX_REQUEST_TIMEOUT=300ms")
			p.sync(0)
			before := p.everything()
			s.Change(c.fault)
			rep := p.sync(c.status)
			if rep.Complete != (c.status == 0) || (rep.Error != nil) != (c.code != "") || rep.Error != nil && rep.Error.Code != c.code {
				t.Errorf("%+v %+v", rep, rep.Error)
			}
			if rep.Missing != 0 {
				t.Errorf("%d marked missing", rep.Missing)
			}
			if after := p.everything(); len(after) != len(before) {
				t.Errorf("%d rows of %d are left", len(after), len(before))
			}
			if status, _, _ := p.do("status"); status != min(c.status, 1) {
				t.Errorf("status says %d", status)
			}
			// The same fault on a machine that has no index yet, then without it.
			fresh := withServer(t, s)
			fresh.env = append(fresh.env, "ANNALS_INDEX_REQUEST_TIMEOUT=300ms")
			s.Change(c.fault)
			fresh.sync(c.status)
			s.SetFaults(standin.Faults{})
			if rep := fresh.sync(0); !rep.Complete || rep.Seen != 400 {
				t.Errorf("healed: %+v", rep)
			}
			wantLists(t, fresh, h)
		})
	}
}

func TestARowThatCannotBeReadIsNamedAndTheRestIsIndexed(t *testing.T) {
	h := history(200)
	s := standin.Start(t, standin.Config{Corpus: h})
	broken := map[string]standin.Break{}
	for i, b := range standin.Breaks() {
		broken[h.Sessions[i*3].ID] = b
	}
	s.Change(func(f *standin.Faults) { f.Broken = broken })
	p := withServer(t, s)
	rep := p.sync(3)
	if len(rep.Skipped) == 0 || rep.Added != 200-len(rep.Skipped) || rep.Error.Code != worker.SkippedRows {
		t.Fatalf("%+v", rep)
	}
	for _, k := range rep.Skipped {
		if k.ID != "" && broken[k.ID] == "" || k.Reason == "" {
			t.Errorf("%+v is not one of the broken", k)
		}
	}
	t.Logf("%d of %d kinds are skipped: %+v", len(rep.Skipped), len(broken), rep.Skipped)
	s.SetFaults(standin.Faults{})
	p.sync(0)
	wantLists(t, p, h)
}

func TestRowsThatChangeBetweenPagesEndAsTheyAre(t *testing.T) {
	h := history(400)
	s := standin.Start(t, standin.Config{Corpus: h})
	p := withServer(t, s)
	gone := 0
	s.Change(func(f *standin.Faults) {
		f.BetweenPages = func(string, int) {
			s.Update(h.Sessions[gone*7].ID, func(row *corpus.Session) { row.Updated += 100_000_000; row.Title += ", moved" })
			s.Remove(h.Sessions[gone*7+1].ID)
			gone++
		}
	})
	rep := p.sync(0)
	if !rep.Complete || gone == 0 {
		t.Fatalf("%+v, %d changes", rep, gone)
	}
	s.SetFaults(standin.Faults{})
	p.sync(0) // what changed behind the lists' backs
	again := p.sync(0)
	if !again.Complete || again.Seen != len(s.Sessions()) || again.Unchanged != again.Seen || again.Missing != 0 {
		t.Errorf("%+v, the server has %d", again, len(s.Sessions()))
	}
}

func TestAMassChangeIsHeldAndSaysHowToAcceptIt(t *testing.T) {
	s := standin.Start(t, standin.Config{Corpus: history(100)})
	p := withServer(t, s)
	p.sync(0)
	for name, c := range map[string]struct {
		corpus *corpus.Corpus
		code   string
	}{
		"empty":        {&corpus.Corpus{}, worker.EmptyList},
		"other":        {corpus.Generate(corpus.Config{Seed: 2, Sessions: 150, Start: 1_700_000_000_000}), worker.OtherStore},
		"mostly other": {&corpus.Corpus{Projects: history(100).Projects, Sessions: history(100).Sessions[:30]}, worker.MassChange},
	} {
		t.Run(name, func(t *testing.T) {
			// The same upstream on another port: it is the name that counts.
			now := standin.Start(t, standin.Config{Corpus: c.corpus})
			q := &person{t: t, home: p.home, env: append(p.env[:len(p.env):len(p.env)], "OPENCODE_SERVER_URL="+now.URL)}
			rep := q.sync(3)
			if rep.Outcome != jobs.Held || rep.Error.Code != c.code || rep.Held == 0 ||
				!strings.Contains(rep.Error.Hint, "annals sync --upstream local --accept-mass-change") {
				t.Errorf("%+v %+v", rep, rep.Error)
			}
			if got := q.everything(); len(got) != 100 || got[0].Status == index.StatusMissing {
				t.Errorf("%d rows, the first %+v", len(got), got[0])
			}
			status, out, errs := q.do("sync")
			if status != 3 || !strings.Contains(errs, "--accept-mass-change") {
				t.Errorf("exit status %d: %s%s", status, out, errs)
			}
		})
	}
	now := standin.Start(t, standin.Config{})
	q := &person{t: t, home: p.home, env: append(p.env, "OPENCODE_SERVER_URL="+now.URL)}
	if rep := q.sync(0, "--accept-mass-change"); rep.Missing != 100 {
		t.Errorf("%+v", rep)
	}
	if got := q.everything(); len(got) != 100 || got[0].Status != index.StatusMissing {
		t.Errorf("%d rows", len(got))
	}
}

func TestAPasswordIsAskedForByNameAndKeptNowhere(t *testing.T) {
	s := standin.Start(t, standin.Config{Corpus: history(50), Password: "right-horse-battery"})
	p := withServer(t, s)
	p.sync(0)
	p.env = append(p.env, "OPENCODE_SERVER_PASSWORD=wrong-horse-battery")
	for _, args := range [][]string{{"sync"}, {"sync", "--json"}, {"doctor"}, {"sync", "--log-level", "debug"}, {"runs", "list"}, {"runs", "list", "--json"}, {"status"}} {
		status, out, errs := p.do(args...)
		if args[0] == "sync" && (status != 1 || !strings.Contains(out+errs, "401")) {
			t.Errorf("%v: exit status %d: %s%s", args, status, out, errs)
		}
		if strings.Contains(out+errs, "wrong-horse-battery") || strings.Contains(out+errs, "right-horse-battery") {
			t.Errorf("%v prints the password", args)
		}
	}
	if len(p.everything()) != 50 {
		t.Error("rows were lost")
	}
	p.wantNowhere("horse-battery")

	file := filepath.Join(p.home, "password")
	if err := os.WriteFile(file, []byte("right-horse-battery\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(p.home, ".config/annals/config.toml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "[[upstream]]\nname = \"work\"\nurl = \"" + s.URL + "\"\npassword_file = \"" + file + "\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := p.do("sync"); status == 0 || !strings.Contains(errs, "chmod 600") {
		t.Errorf("a password that others can read was taken: %d %s", status, errs)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if rep := p.sync(0, "--upstream", "work"); rep.Name != "work" || rep.Added != 50 {
		t.Errorf("%+v", rep)
	}
}

func TestAServerThatIsAwayFailsTheRunAndKeepsEveryRow(t *testing.T) {
	s := standin.Start(t, standin.Config{Corpus: history(50)})
	p := withServer(t, s)
	p.sync(0)
	s.Close()
	rep := p.sync(1)
	if rep.Error.Code != "unreachable" || rep.Error.Hint == "" || !rep.Error.Retryable {
		t.Errorf("%+v", rep.Error)
	}
	if len(p.everything()) != 50 {
		t.Error("rows were lost")
	}
}

func TestOurFilesArePrivateWhateverTheUmask(t *testing.T) {
	p := withServer(t, standin.Start(t, standin.Config{Corpus: history(50)}))
	withoutUmask(t)
	p.sync(0)
	for path, info := range p.files() {
		if !strings.Contains(path, "annals") {
			continue
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
}

func TestADryRunOnAFreshMachineMakesNoFile(t *testing.T) {
	p := withServer(t, standin.Start(t, standin.Config{Corpus: history(50)}))
	if rep := p.sync(0, "--dry-run"); rep.Added != 50 || !rep.Complete {
		t.Errorf("%+v", rep)
	}
	if files := p.files(); len(files) != 1 {
		t.Errorf("%d files", len(files))
	}
}

func TestOneUpstreamThatIsAwayDoesNotKeepTheOtherFromItsRun(t *testing.T) {
	s := standin.Start(t, standin.Config{Corpus: history(50)})
	p := newPerson(t, "PASSWORD="+s.Password, "ANNALS_INDEX_RETRIES=0")
	config := filepath.Join(p.home, "annals.toml")
	text := "[[upstream]]\nname = \"away\"\nurl = \"http://127.0.0.1:1\"\n[[upstream]]\nname = \"here\"\nurl = \"" + s.URL + "\"\npassword_env = \"PASSWORD\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := p.do("--config", config, "sync", "--json")
	var rep worker.Report
	if err := json.Unmarshal([]byte(out), &rep); err != nil || status != 3 || rep.Outcome != jobs.Partial {
		t.Fatalf("%d %v %s%s", status, err, out, errs)
	}
	if rep.Upstreams[0].Outcome != jobs.Failed || rep.Upstreams[1].Outcome != jobs.OK || rep.Upstreams[1].Added != 50 {
		t.Errorf("%s", out)
	}
}

func TestASecondSyncWaitsForTheFirst(t *testing.T) {
	s := standin.Start(t, standin.Config{Corpus: history(300)})
	p := withServer(t, s)
	p.sync(0)
	gate := make(chan struct{})
	s.Change(func(f *standin.Faults) {
		f.Rules = []standin.Rule{standin.Nth("/api/session", 3, standin.Action{Wait: gate})}
	})
	first := make(chan int, 1)
	go func() {
		status := run(context.Background(), process{args: []string{"sync"}, env: p.env, stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}})
		first <- status
	}()
	if err := s.Await(t.Context(), "GET", "/api/session", 3+s.Count("GET", "/api/session")); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "ANNALS_INDEX_WAIT=10ms")
	rep := p.sync(1)
	if rep.Error.Code != "busy" || !rep.Error.Retryable || !strings.Contains(rep.Error.Hint, "run ") {
		t.Errorf("%+v", rep.Error)
	}
	p.env = append(p.env, "ANNALS_INDEX_WAIT=1m")
	second := make(chan string, 1)
	go func() {
		var errs bytes.Buffer
		run(context.Background(), process{args: []string{"sync"}, env: p.env, stdout: &bytes.Buffer{}, stderr: &errs})
		second <- errs.String()
	}()
	close(gate)
	if status := <-first; status != 0 {
		t.Errorf("the first ended with %d", status)
	}
	if errs := <-second; strings.Contains(errs, "failed") {
		t.Error(errs)
	}
}

func TestAConfigurationThatIsWrongEndsWith2AndRecordsNoRun(t *testing.T) {
	p := newPerson(t)
	config := filepath.Join(p.home, "annals.toml")
	for name, text := range map[string]string{
		"another scheme":        "url = \"ftp://127.0.0.1:1\"",
		"a query":               "url = \"http://127.0.0.1:1/?x=1\"",
		"no password file":      "url = \"http://127.0.0.1:1\"\npassword_file = \"" + p.home + "/nowhere\"",
		"a directory":           "url = \"http://127.0.0.1:1\"\npassword_file = \"" + p.home + "\"",
		"a variable that isn't": "url = \"http://127.0.0.1:1\"\npassword_env = \"NOT_SET\"",
	} {
		if err := os.WriteFile(config, []byte("[[upstream]]\nname = \"a\"\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if status, out, errs := p.do("--config", config, "sync"); status != 2 || errs == "" {
			t.Errorf("%s: exit status %d: %s%s", name, status, out, errs)
		}
	}
	p.env = append(p.env, "OPENCODE_SERVER_URL=ftp://x")
	if status, _, errs := p.do("sync"); status != 2 {
		t.Errorf("exit status %d: %s", status, errs)
	}
	if _, err := os.Stat(filepath.Join(p.home, ".local")); err == nil {
		t.Error("a run was recorded")
	}
}

func TestOutputThatCannotBeWrittenIsNoSuccess(t *testing.T) {
	p := withServer(t, standin.Start(t, standin.Config{Corpus: history(20)}))
	for _, args := range [][]string{{}, {"--help"}, {"sync"}, {"sync", "--json"}, {"sessions", "list"}, {"version"}, {"config", "show"}, {"completion", "bash"}} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		status := run(t.Context(), process{args: args, env: p.env, stdout: full, stderr: &errs})
		_ = full.Close()
		if status == 0 {
			t.Errorf("%v ended with 0", args)
		}
	}
}

func TestAKilledRunIsSeenByStatus(t *testing.T) {
	p := withServer(t, standin.Start(t, standin.Config{Corpus: history(20)}))
	p.sync(0)
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(p.home, ".local/share/annals/annals.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	// A run of a process that is no more: its lease has ended, and it is open.
	if err := st.StartRun(t.Context(), jobs.Run{ID: "00000000-dead", Trigger: "manual", StartedAt: time.Now().UnixMilli(), Owner: "elsewhere:1"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.TakeLease(t.Context(), jobs.Lease{Job: worker.IndexJob, Target: "local", Run: "00000000-dead", Owner: "elsewhere:1", Expires: 1}, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if status, out, _ := p.do("status"); status != 1 || !strings.Contains(out, "lost") {
		t.Errorf("exit status %d: %s", status, out)
	}
	p.sync(0)
	if status, out, _ := p.do("status"); status != 0 {
		t.Errorf("exit status %d: %s", status, out)
	}
}

func TestAConfigurationThatIsNoSmallFileIsRefused(t *testing.T) {
	p := newPerson(t)
	big, fifo := filepath.Join(p.home, "big.toml"), filepath.Join(p.home, "fifo.toml")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, 2<<30); err != nil { // sparse: it costs nothing, unless somebody reads it
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{big, fifo, "/dev/zero", p.home} {
		if status, _, errs := p.do("--config", file, "status"); status != 2 || errs == "" {
			t.Errorf("%s: exit status %d: %s", file, status, errs)
		}
	}
}

func TestDoctorTriesTheLocks(t *testing.T) {
	p := withServer(t, standin.Start(t, standin.Config{Corpus: history(20)}))
	p.sync(0)
	locks := filepath.Join(p.home, ".local/state/annals/locks")
	if err := os.RemoveAll(locks); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(locks, nil, 0o600); err != nil { // in the way: no file can be made below it, not by root either
		t.Fatal(err)
	}
	if status, out, _ := p.do("doctor"); status != 1 || !strings.Contains(out, "locks cannot be written") {
		t.Errorf("exit status %d: %s", status, out)
	}
}
