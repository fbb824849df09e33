package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"annals/fixtures/corpus"
	"annals/fixtures/realopencode"
	"annals/internal/index"
	"annals/worker"
)

// reality is a real OpenCode with a history in its store.
type reality struct {
	*realopencode.Home
	corpus *corpus.Corpus
}

func newReality(t *testing.T, c corpus.Config) *reality {
	t.Helper()
	history := corpus.Generate(c)
	return &reality{Home: realopencode.Filled(t, history.Fill), corpus: history}
}

func (r *reality) serve(t *testing.T) *realopencode.Server {
	t.Helper()
	s, err := r.StartServer(t.Context(), realopencode.ServerConfig{Password: "real-horse-battery"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// patch changes a session at the server.
func patch(t *testing.T, s *realopencode.Server, id, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.URL+"/session/"+id, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(s.Username, s.Password)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		t.Fatalf("PATCH %s: %s", body, resp.Status)
	}
}

// TestTheSessionsOfARealOpenCode is the main promise on the real program: 1,200
// sessions, 250 of them at one time, a fifth children, every seventeenth
// archived, and the archive in all its forms.
func TestTheSessionsOfARealOpenCode(t *testing.T) {
	r := newReality(t, corpus.Config{Seed: 7, Sessions: 1200, Ties: 250})
	s := r.serve(t)
	p := newPerson(t, "OPENCODE_SERVER_URL="+s.URL, "OPENCODE_SERVER_PASSWORD="+s.Password)
	first := p.sync(0)
	if first.Seen != 1200 || first.Counted != 1200 || first.Added != 1200 || !first.Complete || first.Version != realopencode.Version {
		t.Fatalf("%+v %+v", first, first.Error)
	}
	wantLists(t, p, r.corpus)
	before := p.revision()
	if second := p.sync(0); second.Unchanged != 1200 || !second.Complete || p.revision() != before {
		t.Errorf("a second run: %+v, revision %d → %d", second, before, p.revision())
	}
	id := r.corpus.IDs(func(s *corpus.Session) bool { return s.ParentID == "" && s.Archived == nil })[3]
	for _, step := range []struct{ body, want string }{
		{`{"time":{"archived":1790000000000}}`, "archived"},
		{`{"metadata":{"openchamber":{"archive":{"archivedAt":0}},"other":1}}`, "active"},
		{`{"metadata":{"openchamber":{"archive":{"archivedAt":"soon"}},"other":1}}`, "archived"},
		{`{"time":{"archived":0}}`, "active"},
		{`{"metadata":{"openchamber":{"archive":{"archivedAt":1790000000001}}}}`, "archived"},
		{`{"metadata":{"openchamber":{"archive":{"archivedAt":0}}}}`, "active"},
		{`{"metadata":{"openchamber":{"archive":{"archivedAt":0.5}}}}`, "archived"},
		{`{"metadata":{}}`, "active"},
		{`{"time":{"archived":1790000000002.5}}`, "archived"},
	} {
		patch(t, s, id, step.body)
		if rep := p.sync(0); rep.Updated != 1 {
			t.Errorf("%s: %d updated", step.body, rep.Updated)
		}
		if got := p.status(id); string(got) != step.want {
			t.Errorf("%s: %s, want %s", step.body, got, step.want)
		}
	}
	rows := len(p.everything())
	q := &person{t: t, home: p.home, env: append(p.env[:len(p.env):len(p.env)], "OPENCODE_SERVER_PASSWORD=other-horse-battery")}
	if rep := q.sync(1); !strings.Contains(rep.Error.Message, "401") {
		t.Errorf("%+v", rep.Error)
	}
	s.Stop()
	if rep := p.sync(1); rep.Error.Code != "unreachable" {
		t.Errorf("%+v", rep.Error)
	}
	if len(p.everything()) != rows {
		t.Error("rows were lost")
	}
	p.wantNowhere("horse-battery")
}

func (p *person) revision() int64 {
	p.t.Helper()
	_, out, errs := p.do("status", "--json")
	var v statusView
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		p.t.Fatal(err, out, errs)
	}
	return v.Store.Revision
}

func (p *person) status(id string) index.Status {
	p.t.Helper()
	status, out, errs := p.do("sessions", "show", id, "--json")
	var v struct{ Session sessionView }
	if err := json.Unmarshal([]byte(out), &v); err != nil || status != 0 {
		p.t.Fatal(err, out, errs)
	}
	return v.Session.Status
}

// built is annals as a program of its own: the managed server's supervisor is
// this program again, so it cannot be a function of the test.
func built(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "annals")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// plugin is a plugin of the user's that tells when it runs.
const plugin = `import fs from "node:fs"; export const P = async () => { fs.writeFileSync(process.env.HOME + "/plugin-ran", "x"); return {} }`

// TestWithNothingConfiguredAnnalsRunsTheServerItself also looks at what it must
// not do: run a plugin, write in the home, leave a process or a directory.
func TestWithNothingConfiguredAnnalsRunsTheServerItself(t *testing.T) {
	annals := built(t)
	r := newReality(t, corpus.Config{Seed: 8, Sessions: 50})
	home := r.Dir
	plugins := filepath.Join(home, "config", "opencode", "plugin")
	if err := os.MkdirAll(plugins, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(plugins, "p.js"), []byte(plugin), 0o600); err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	env := []string{"HOME=" + home, "PATH=" + filepath.Dir(r.Binary) + ":" + os.Getenv("PATH"),
		"XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "XDG_DATA_HOME=" + r.DataHome(), "XDG_STATE_HOME=" + filepath.Join(own, "state")}
	before := tree(t, home, "data/opencode", "data/annals")
	withoutUmask(t)

	cmd := exec.CommandContext(t.Context(), annals, "sync", "--json")
	cmd.Env = env
	out, err := cmd.Output()
	var rep worker.Report
	if err != nil || json.Unmarshal(out, &rep) != nil || rep.Upstreams[0].Added != 50 || !rep.Upstreams[0].Complete {
		t.Fatalf("%v: %s", err, out)
	}
	if after := tree(t, home, "data/opencode", "data/annals"); after != before {
		t.Errorf("the home was\n%s\nand is\n%s", before, after)
	}
	wantNothingLeft(t, own)
	err = filepath.WalkDir(filepath.Join(r.DataHome(), "annals"), func(path string, d fs.DirEntry, err error) error {
		if info, e := d.Info(); err == nil && (e != nil || info.Mode().Perm()&0o077 != 0) {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), e)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	t.Run("killed in the middle", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), annals, "sync")
		cmd.Env = env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "the server runs", func() bool { return len(below(t, own)) >= 2 })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()                            // it was killed
		until(t, "nothing is left", func() bool { // the directory goes last, after every process
			dirs, err := os.ReadDir(filepath.Join(own, "state", "annals", "managed"))
			return err == nil && len(dirs) == 0 && len(below(t, own)) == 0
		})
		wantNothingLeft(t, own)
		again := exec.CommandContext(t.Context(), annals, "sync", "--json")
		again.Env = env
		if out, err := again.Output(); err != nil || !bytes.Contains(out, []byte(`"complete":true`)) {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("where there is no store none is made", func(t *testing.T) {
		nowhere := t.TempDir()
		cmd := exec.CommandContext(t.Context(), annals, "sync", "--json")
		cmd.Env = []string{"HOME=" + nowhere, "PATH=" + filepath.Dir(r.Binary) + ":" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err == nil || !bytes.Contains(out, []byte(`"code":"no_store"`)) {
			t.Errorf("%v: %s", err, out)
		}
		if _, err := os.Stat(filepath.Join(nowhere, ".local/share/opencode")); err == nil {
			t.Error("a store was made")
		}
	})
}

// tree lists the files below dir with their sizes, without those below skip.
func tree(t *testing.T, dir string, skip ...string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		for _, s := range skip {
			if rel == s {
				return filepath.SkipDir
			}
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			b.WriteString(rel + " " + info.ModTime().String() + "\n")
		} else if err == nil {
			b.WriteString(rel + "/\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// below returns the processes whose environment names dir: what Annals starts
// has its home there.
func below(t *testing.T, dir string) []string {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range procs {
		raw, err := os.ReadFile(p)
		if err == nil && bytes.Contains(raw, []byte(dir)) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "cmdline"))
			found = append(found, filepath.Base(filepath.Dir(p))+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

func wantNothingLeft(t *testing.T, own string) {
	t.Helper()
	if left := below(t, own); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if dirs, err := os.ReadDir(filepath.Join(own, "state", "annals", "managed")); err != nil || len(dirs) > 0 {
		t.Errorf("directories are left: %v, %v", dirs, err)
	}
}

// until waits for something that other processes bring about.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
