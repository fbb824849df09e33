package archtest

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// topLevel is everything that may stand at the root, beside what .gitignore
// names and the repository itself.
var topLevel = []string{
	"cmd", "worker", "sources", "hostapi", "fixtures", "internal", "docs",
	".ci", ".git", ".gitignore", ".golangci.yml",
	"CHANGELOG.md", "LICENSE", "Makefile", "README.md", "doc.go", "go.mod", "go.sum",
}

func findLayout(t *Tree, found report) {
	entries, err := fs.ReadDir(t.fsys, ".")
	if err != nil {
		found(".", 0, "%v", err)
		return
	}
	ignored := t.ignored()
	for _, e := range entries {
		if !slices.Contains(topLevel, e.Name()) && !ignored(e.Name()) {
			found(e.Name(), 0, "it is not on the list of what stands at the root")
		}
	}
}

const (
	rationale    = "docs/RATIONALE.md"
	architecture = "docs/ARCHITECTURE.md"
)

// findDocs compares what is written about the project with the project: each
// part has its reason, each package its place on the map, and what a document
// or a comment points at is there.
func findDocs(t *Tree, found report) {
	reasons, pictures := t.text(rationale), t.text(architecture)
	modules := map[string]bool{}
	t.files(func(_ string, f *File) {
		for _, imp := range f.Imports {
			if m := t.module(imp.Path); m != "" && !modules[m] {
				modules[m] = true
				if !names(reasons, m) {
					found(rationale, 0, "does not say why %s was chosen (%s imports it)", m, f.Path)
				}
			}
		}
		t.findCitations(f, found)
	})
	for _, p := range t.Packages {
		if p.Dir != "." && !names(pictures, p.Dir) {
			found(architecture, 0, "does not show %s", p.Dir)
		}
	}
	makefile := t.text("Makefile")
	err := t.walk(func(name string) error {
		if path.Ext(name) == ".md" {
			t.findDeadEnds(name, makefile, found)
		}
		return nil
	})
	if err != nil {
		found(".", 0, "%v", err)
	}
}

func (t *Tree) text(name string) string {
	raw, err := fs.ReadFile(t.fsys, name)
	if err != nil {
		return ""
	}
	return string(raw)
}

// names reports whether a text names a path, and not only a longer one.
func names(text, name string) bool {
	return regexp.MustCompile(`(^|[^\w./-])` + regexp.QuoteMeta(name) + `($|[^\w/-])`).MatchString(text)
}

var (
	// citation is a document that a comment sends its reader to: one with a
	// directory, or with a section. A bare AGENTS.md may be anybody's.
	citation = regexp.MustCompile(`[\w.-]+(?:/[\w.-]+)+\.md\b|[\w.-]+\.md(?: §)`)
	link     = regexp.MustCompile(`\]\(([^)\s#]+)[^)]*\)`)
	target   = regexp.MustCompile("`make ([a-z][a-z-]*)")
	command  = regexp.MustCompile(`^\s*make ([a-z][a-z-]*)`)
)

func (t *Tree) findCitations(f *File, found report) {
	for _, g := range f.Syntax.Comments {
		for _, c := range g.List {
			for _, cited := range citation.FindAllString(c.Text, -1) {
				cited = strings.TrimSuffix(cited, " §")
				if !t.exists(cited) && !t.exists(path.Join(path.Dir(f.Path), cited)) {
					found(f.Path, t.line(c.Pos()), "sends its reader to %s, which is not here", cited)
				}
			}
		}
	}
}

// findDeadEnds follows the links of a document, and looks for the targets of
// make that it names.
func (t *Tree) findDeadEnds(name, makefile string, found report) {
	fenced, n := false, 0
	for line := range strings.Lines(t.text(name)) {
		n++
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(m[1], ":") && !t.exists(path.Join(path.Dir(name), m[1])) {
				found(name, n, "links to %s, which is not here", m[1])
			}
		}
		targets := target.FindAllStringSubmatch(line, -1)
		if fenced {
			targets = append(targets, command.FindAllStringSubmatch(line, -1)...)
		}
		for _, m := range targets {
			if !strings.Contains("\n"+makefile, "\n"+m[1]+":") {
				found(name, n, "names make %s, which is no target", m[1])
			}
		}
	}
}
