package archtest

import (
	"slices"
	"strings"
)

// layer is one package of the program and which of the others it may import
// outside of its tests.
type layer struct {
	dir string
	may []string
}

// everything as the only word of a layer's list: the place where the concrete
// types are paired.
const everything = "everything"

// foundations may be imported by every package of the program.
var foundations = []string{"internal/fault", "internal/ownfile"}

// layers is the house from the top down. A package that is missing here is a
// finding: give it its place first.
var layers = []layer{
	{"cmd/annals", []string{everything}},
	{"worker", []string{"worker/opencode", "internal/jobs", "internal/index", "internal/metadata"}},
	{"worker/opencode", []string{"internal/index", "internal/metadata", "internal/supervise"}},
	{"internal/store/sqlite", []string{"internal/store"}},
	{"internal/store/storetest", []string{"internal/index", "internal/jobs", "internal/metadata"}},
	{"internal/store", []string{"internal/index", "internal/jobs", "internal/metadata"}},
	{"internal/jobs", []string{"internal/index"}},
	{"internal/index", []string{"internal/metadata"}},
	{"internal/metadata", nil},
	{"internal/supervise", nil},
	{"internal/ownfile", nil},
	{"internal/fault", nil},
	{"internal/archtest", nil},
	{".", nil}, // the documentation of the module
}

// The roots that have rules of their own.
const (
	fixturesRoot = "fixtures" // rule fixtures
	sourcesRoot  = "sources"  // rule sources
)

func findLayers(t *Tree, found report) {
	for _, p := range t.Packages {
		if below(p.Dir, fixturesRoot) || isSource(p.Dir) {
			continue
		}
		i := slices.IndexFunc(layers, func(l layer) bool { return l.dir == p.Dir })
		if i < 0 {
			found(p.Dir, 0, "this package has no place among the layers")
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, imp := range f.Imports {
				if dir, own := t.own(imp.Path); own && !layers[i].allows(dir) {
					found(f.Path, imp.Line, "imports %s; %s may import %s", dir, p.Dir, layers[i].allowed())
				}
			}
		}
	}
}

func (l layer) allows(dir string) bool {
	switch {
	case below(dir, fixturesRoot) || testPackage(dir):
		return true // the fixtures rule says what it thinks of it
	case slices.Contains(l.may, everything), slices.Contains(l.may, dir):
		return true
	}
	return slices.Contains(foundations, dir) && !slices.Contains(foundations, l.dir)
}

func (l layer) allowed() string {
	if slices.Contains(foundations, l.dir) {
		return "none of ours"
	}
	return strings.Join(slices.Concat(l.may, foundations), ", ")
}

func findFixtures(t *Tree, found report) {
	t.files(func(dir string, f *File) {
		inFixtures := below(dir, fixturesRoot)
		for _, imp := range f.Imports {
			to, own := t.own(imp.Path)
			switch {
			case f.Test:
			case inFixtures && own && !below(to, fixturesRoot):
				found(f.Path, imp.Line, "a fixture imports %s", to)
			case inFixtures || testPackage(dir):
			case own && below(to, fixturesRoot):
				found(f.Path, imp.Line, "imports the fixture %s", to)
			case own && testPackage(to) && !mayOpenSuite(dir, to):
				found(f.Path, imp.Line, "imports the test suite %s", to)
			case imp.Path == "testing" || strings.HasPrefix(imp.Path, "testing/") || imp.Path == "net/http/httptest":
				found(f.Path, imp.Line, "imports %s", imp.Path)
			}
		}
	})
}

// mayOpenSuite is for `annals source test`, which runs the conformance suite
// of the sources for whoever writes one.
func mayOpenSuite(dir, suite string) bool {
	return below(dir, "cmd") && suite == sourcesRoot+"/sourcetest"
}

// isSource reports whether a directory is the contract of the sources, the
// kit for guests, or a source. The registry and the conformance suite belong
// to the host and have their place among the layers.
func isSource(dir string) bool {
	return below(dir, sourcesRoot) && !belowAny(dir, sourcesRoot+"/registry", sourcesRoot+"/sourcetest")
}

// decoders are the third-party packages that a source may use: pure
// functions over bytes.
var decoders = map[string]string{
	"sources/dsh": "github.com/klauspost/compress/zstd",
}

func findSources(t *Tree, found report) {
	contract := []string{sourcesRoot, sourcesRoot + "/guest"}
	t.files(func(dir string, f *File) {
		if !isSource(dir) || f.Test {
			return
		}
		self := agent(dir)
		for _, imp := range f.Imports {
			to, own := t.own(imp.Path)
			switch {
			case own && !slices.Contains(contract, to) && (self == "" || agent(to) != self):
				found(f.Path, imp.Line, "a source imports %s; it may import %s and its own packages", to, strings.Join(contract, ", "))
			case own:
			case t.module(imp.Path) != "":
				if decoders[self] != imp.Path {
					found(f.Path, imp.Line, "a source imports %s", imp.Path)
				}
			case belowAny(imp.Path, "net", "os/exec", "database/sql", "plugin", "syscall", "unsafe") && imp.Path != "net/url":
				if imp.Path != "unsafe" || !isShim(dir) {
					found(f.Path, imp.Line, "a source imports %s", imp.Path)
				}
			}
		}
	})
}

// agent returns the directory of the source that dir belongs to, or "" for
// the contract and the kit.
func agent(dir string) string {
	rest, ok := strings.CutPrefix(dir, sourcesRoot+"/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	if name == "guest" {
		return ""
	}
	return sourcesRoot + "/" + name
}

// isShim reports whether a package is what the host calls into: memory that
// the host reads needs unsafe, and a variable that keeps it alive.
func isShim(dir string) bool {
	return dir == sourcesRoot+"/guest" || agent(dir) != "" && strings.HasSuffix(dir, "/wasm")
}
