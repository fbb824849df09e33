package archtest

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// expectation is a finding that an archive asks for.
type expectation struct {
	path string
	line int
	text string // part of the finding's text
}

var (
	wantLine = regexp.MustCompile(`(?://|#) want "([^"]+)"`)
	wantFile = regexp.MustCompile(`^want (\S+) "([^"]+)"`)
	more     = regexp.MustCompile(`(?m)^(.*// )and (\d+) more$`)
)

// loadArchive parses the module in an archive of testdata and what it wants.
func loadArchive(t *testing.T, file string) (*Tree, []expectation) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want []expectation
	for line := range strings.Lines(string(archive.Comment)) {
		if m := wantFile.FindStringSubmatch(line); m != nil {
			want = append(want, expectation{m[1], 0, m[2]})
		}
	}
	files := map[string]string{}
	for _, f := range archive.Files {
		text := more.ReplaceAllStringFunc(string(f.Data), func(s string) string {
			m := more.FindStringSubmatch(s)
			n, err := strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSuffix(strings.Repeat(m[1]+"\n", n), "\n")
		})
		n := 0
		var clean strings.Builder
		for line := range strings.Lines(text) {
			n++
			if m := wantLine.FindStringSubmatch(line); m != nil {
				want = append(want, expectation{f.Name, n, m[1]})
				line = wantLine.ReplaceAllString(line, "")
			}
			clean.WriteString(line)
		}
		files[f.Name] = clean.String()
	}
	return load(t, files), want
}

func load(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module annals\n")}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func rule(t *testing.T, name string) Rule {
	t.Helper()
	i := slices.IndexFunc(Rules(), func(r Rule) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("there is no rule %q", name)
	}
	return Rules()[i]
}

func TestEachRuleFindsWhatBreaksItAndNothingElse(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{"reachable": true} // TestATableThatNamesWhatIsNotThereIsFound
	for _, file := range archives {
		name := strings.TrimSuffix(path.Base(filepath.ToSlash(file)), ".txtar")
		tried[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree, want := loadArchive(t, file)
			if len(want) == 0 {
				t.Error("the archive breaks nothing")
			}
			for _, f := range rule(t, name).Check(tree) {
				i := slices.IndexFunc(want, func(e expectation) bool {
					return e.path == f.Path && e.line == f.Line && strings.Contains(f.Text, e.text)
				})
				if i < 0 {
					t.Errorf("found, but should not be: %s", f)
					continue
				}
				want = slices.Delete(want, i, i+1)
			}
			for _, e := range want {
				t.Errorf("not found: %s:%d: %s", e.path, e.line, e.text)
			}
		})
	}
	for _, r := range Rules() {
		if !tried[r.Name] {
			t.Errorf("no archive breaks the rule %q", r.Name)
		}
		if r.Why == "" {
			t.Errorf("the rule %q has no reason", r.Name)
		}
	}
}

func TestEveryPartIsKeptToItsOwners(t *testing.T) {
	t.Parallel()
	mod := "module annals\n"
	for _, p := range parts {
		if strings.Contains(p.path, ".") {
			mod += "require " + p.path + " v1.0.0\n"
		}
	}
	check := rule(t, "parts")
	for _, p := range parts {
		source := fmt.Sprintf("package x\n\nimport %q\n", p.path)
		stranger := load(t, map[string]string{"go.mod": mod, "internal/fault/x.go": source})
		if got := check.Check(stranger); len(got) != 1 || got[0].Line != 3 || !strings.Contains(got[0].Text, p.why) {
			t.Errorf("%s in a package that does not own it: %v", p.path, got)
		}
		for _, owner := range p.owners {
			file := owner
			if path.Ext(owner) != ".go" {
				file += "/x.go"
			}
			if got := check.Check(load(t, map[string]string{"go.mod": mod, file: source})); len(got) != 0 {
				t.Errorf("%s in its owner: %v", p.path, got)
			}
		}
	}
}

func TestEveryLayerRefusesWhatItMayNotImport(t *testing.T) {
	t.Parallel()
	check := rule(t, "layers")
	for _, from := range layers {
		for _, to := range layers {
			tree := load(t, map[string]string{
				path.Join(from.dir, "x.go"): fmt.Sprintf("package x\n\nimport %q\n", path.Join("annals", to.dir)),
			})
			may := from.dir == "cmd/annals" || slices.Contains(from.may, to.dir) || testPackage(to.dir) ||
				slices.Contains(foundations, to.dir) && !slices.Contains(foundations, from.dir)
			if got := check.Check(tree); (len(got) == 0) != may {
				t.Errorf("%s imports %s: %v", from.dir, to.dir, got)
			}
		}
	}
}

func TestTheLayersHaveNoCircle(t *testing.T) {
	t.Parallel()
	for i, l := range layers {
		for _, dir := range l.may {
			if dir != everything && slices.IndexFunc(layers, func(l layer) bool { return l.dir == dir }) <= i {
				t.Errorf("%s may import %s, which does not stand below it", l.dir, dir)
			}
		}
	}
}

func TestEveryBelongingOfTheProcessIsRefused(t *testing.T) {
	t.Parallel()
	check := rule(t, "process")
	for pkg, names := range belongings {
		if names == nil {
			names = []string{"Anything"}
		}
		for _, name := range names {
			tree := load(t, map[string]string{
				"worker/x.go": fmt.Sprintf("package worker\nimport %q\nvar _ = %s.%s\n", pkg, path.Base(pkg), name),
			})
			if got := check.Check(tree); len(got) != 1 {
				t.Errorf("%s.%s: %v", pkg, name, got)
			}
		}
	}
}

func TestEveryDrawerIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range drawers {
		tree := load(t, map[string]string{"internal/" + name + "/x.go": "package fine\n"})
		if got := rule(t, "names").Check(tree); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestATableThatNamesWhatIsNotThereIsFound builds the tree that the tables
// describe, and takes one thing away at a time.
func TestATableThatNamesWhatIsNotThereIsFound(t *testing.T) {
	t.Parallel()
	files := map[string]string{"go.mod": "module annals\n"}
	for _, l := range layers {
		files[path.Join(l.dir, "x.go")] = "package x\n"
	}
	for i, p := range parts {
		if strings.Contains(p.path, ".") {
			files["go.mod"] += "require " + p.path + " v1.0.0\n"
		}
		owners := p.owners
		if owners == nil {
			owners = []string{fixturesRoot}
		}
		for _, owner := range owners {
			if path.Ext(owner) != ".go" {
				owner = fmt.Sprintf("%s/part%d.go", owner, i)
			}
			files[owner] = fmt.Sprintf("package x\n\nimport %q\n", p.path)
		}
	}
	check := rule(t, "reachable")
	if got := check.Check(load(t, files)); len(got) != 0 {
		t.Fatalf("the tree that the tables describe: %v", got)
	}
	for name := range files {
		without := maps.Clone(files)
		maps.DeleteFunc(without, func(other, _ string) bool {
			return other == name || path.Base(name) == "x.go" && path.Dir(other) == path.Dir(name) && other != "go.mod"
		})
		if got := check.Check(load(t, without)); name != "go.mod" && len(got) == 0 {
			t.Errorf("without %s nothing is found", name)
		}
	}
	waiting := map[string]string{}
	for name, text := range files {
		if !strings.Contains(text, "robfig/cron") {
			waiting[name] = text
		}
	}
	waiting["go.mod"] = strings.ReplaceAll(files["go.mod"], "require github.com/robfig/cron/v3 v1.0.0\n", "")
	if got := check.Check(load(t, waiting)); len(got) != 0 {
		t.Errorf("a module that go.mod does not name yet: %v", got)
	}
}

func TestOnlyWhatGoBuildsIsRead(t *testing.T) {
	t.Parallel()
	tree := load(t, map[string]string{
		".gitignore":              "/bin/\n",
		"bin/x.go":                "package bin",
		"doc.go":                  "package annals",
		"internal/tools/go.mod":   "module tools",
		"internal/tools/x.go":     "package tools",
		"vendor/a/x.go":           "package a",
		"worker/.hidden.go":       "package hidden",
		"worker/_old.go":          "package old",
		"worker/notes.txt":        "",
		"worker/sync.go":          "package worker",
		"worker/sync_darwin.go":   "package worker",
		"worker/testdata/bad.go":  "this is not Go",
		"worker/opencode/list.go": "package opencode",
	})
	var got []string
	tree.files(func(_ string, f *File) { got = append(got, f.Path) })
	slices.Sort(got)
	want := []string{"doc.go", "worker/opencode/list.go", "worker/sync.go", "worker/sync_darwin.go"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSourceThatDoesNotParseIsAnError(t *testing.T) {
	t.Parallel()
	for _, fsys := range []fstest.MapFS{
		{},
		{"go.mod": {Data: []byte("module annals\n")}, "x.go": {Data: []byte("not Go")}},
	} {
		if _, err := Load(fsys); err == nil {
			t.Errorf("%v: no error", fsys)
		}
	}
}

func TestAnImportIsKnownByItsLastName(t *testing.T) {
	t.Parallel()
	for importPath, want := range map[string]string{"os": "os", "log/slog": "slog", "math/rand/v2": "rand", "a/v": "v", "vet": "vet"} {
		if got := baseName(importPath); got != want {
			t.Errorf("%s: %s, want %s", importPath, got, want)
		}
	}
}
