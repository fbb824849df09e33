package archtest

import (
	"slices"
	"strings"
)

// part is a foreign part of the program and its owners: packages, roots of
// packages, or single files.
type part struct {
	path   string   // of the module; of the package in the standard library
	owners []string // nil: tests, fixtures and suites only
	why    string
	tests  bool // any test may use it too
}

// parts names every module of others that is imported, and those packages of
// the standard library that only some may use. A module that is missing here
// is a finding: a new part is a decision, with a section in RATIONALE.md.
var parts = []part{
	{path: "github.com/go-resty/resty/v2", owners: []string{"worker/opencode"},
		why: "one place talks to OpenCode: one layer of retries, of deadlines and of bounds"},
	{path: "net/http", owners: []string{"worker/opencode", fixturesRoot}, tests: true,
		why: "the worker serves nothing, and asks through its client"},
	{path: "os/exec", owners: []string{"internal/supervise", "worker/opencode", fixturesRoot}, tests: true,
		why: "whoever starts a process has to end it in every case; few places know how"},

	{path: "database/sql", owners: []string{"internal/store", fixturesRoot},
		why: "SQL stays below the store; the fixtures fill OpenCode's own database"},
	{path: "modernc.org/sqlite", owners: []string{"internal/store/sqlite", fixturesRoot},
		why: "one package pairs the store with this engine"},
	{path: "github.com/jackc/pgx/v5", owners: []string{"internal/store"},
		why: "SQL drivers stay below the store"},
	{path: "github.com/pressly/goose/v3", owners: []string{"internal/store"},
		why: "the schema belongs to the store"},

	{path: "github.com/tetratelabs/wazero", owners: []string{"hostapi"},
		why: "one package enforces what a guest may do"},
	{path: "github.com/robfig/cron/v3", owners: []string{"worker/schedule.go"},
		why: "its parser panics on some expressions; the guard is in one file"},

	{path: "github.com/spf13/cobra", owners: []string{"cmd"}, why: "the command line is read in cmd"},
	{path: "github.com/pelletier/go-toml/v2", owners: []string{"cmd"}, why: "the configuration is read in cmd"},
	{path: "github.com/schollz/progressbar/v3", owners: []string{"cmd"}, why: "what people see is drawn in cmd"},
	{path: "golang.org/x/term", owners: []string{"cmd"}, why: "whether there is a terminal is asked in cmd"},

	{path: "github.com/gofrs/flock", owners: []string{"internal/jobs", "internal/store/sqlite", fixturesRoot},
		why: "who owns a job, who changes the schema, who fetches OpenCode"},
	{path: "github.com/google/uuid", owners: []string{"worker"}, why: "runs are named where they begin"},
	{path: "golang.org/x/sys", owners: []string{"internal/store/sqlite", "internal/supervise", fixturesRoot},
		why: "what a system does differently stays in the file that is named after it"},
	{path: "golang.org/x/text", owners: []string{"internal/index"}, why: "Unicode is folded where directories are compared"},

	{path: "github.com/google/go-cmp", why: "it panics on what it cannot compare"},
	{path: "pgregory.net/rapid", why: "it makes up values"},
	{path: "go.uber.org/goleak", why: "it looks at the whole process"},
	{path: "github.com/rogpeppe/go-internal", why: "scripts of the command line"},
}

func findParts(t *Tree, found report) {
	t.files(func(dir string, f *File) {
		for _, imp := range f.Imports {
			p, known := partOf(imp.Path)
			switch {
			case !known && t.module(imp.Path) != "" && !isSource(dir):
				found(f.Path, imp.Line, "imports %s, which is not among the parts", imp.Path)
			case !known || p.tests && f.Test:
			case p.owners == nil && !f.Test && !below(dir, fixturesRoot) && !testPackage(dir):
				found(f.Path, imp.Line, "imports %s outside of tests: %s", imp.Path, p.why)
			case p.owners != nil && !belowAny(dir, p.owners...) && !slices.Contains(p.owners, f.Path):
				found(f.Path, imp.Line, "imports %s; only %s may: %s", imp.Path, strings.Join(p.owners, ", "), p.why)
			}
		}
	})
}

func partOf(importPath string) (p part, known bool) {
	i := slices.IndexFunc(parts, func(p part) bool { return below(importPath, p.path) })
	if i < 0 {
		return part{}, false
	}
	return parts[i], true
}

// findReachable looks at the tables: each package that they name is there,
// and each owner of a part uses it. A module that go.mod does not name yet may
// wait here for its owner.
func findReachable(t *Tree, found report) {
	const self = "internal/archtest"
	for _, l := range layers {
		for _, dir := range slices.Concat([]string{l.dir}, l.may) {
			if dir != everything && !t.hasPackage(dir) {
				found(self+"/layers.go", 0, "names %s, which is not there", dir)
			}
		}
	}
	for _, dir := range foundations {
		if !t.hasPackage(dir) {
			found(self+"/layers.go", 0, "names %s, which is not there", dir)
		}
	}
	for _, p := range parts {
		foreign := strings.Contains(p.path, ".")
		if foreign && !slices.Contains(t.Requires, p.path) {
			continue
		}
		for _, owner := range p.owners {
			if !t.imports(owner, p.path) {
				found(self+"/parts.go", 0, "lets %s import %s, which it does not", owner, p.path)
			}
		}
		if p.owners == nil && !t.imports(".", p.path) {
			found(self+"/parts.go", 0, "names %s, which nobody imports", p.path)
		}
	}
}

func (t *Tree) hasPackage(dir string) bool {
	return slices.ContainsFunc(t.Packages, func(p *Package) bool { return p.Dir == dir })
}

// imports reports whether a package at or below owner, or the file owner,
// imports a package at or below what.
func (t *Tree) imports(owner, what string) bool {
	yes := false
	t.files(func(dir string, f *File) {
		if owner == "." || below(dir, owner) || f.Path == owner {
			yes = yes || slices.ContainsFunc(f.Imports, func(i Import) bool { return below(i.Path, what) })
		}
	})
	return yes
}
