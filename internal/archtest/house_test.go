package archtest

import (
	"bytes"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// strictRule is a rule with the smallest trees that show it at work: broken
// must be found, fine must not. It is for rules without exceptions; those
// that have a table or a mark of their own are in Rules.
type strictRule struct {
	Rule
	broken []map[string]string // each breaks it once
	fine   map[string]string
}

func strictRules() []strictRule {
	return slices.Concat(strictImports(), strictDeclarations(), strictTexts())
}

func TestTheRulesOfTheHouse(t *testing.T) {
	t.Parallel()
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range strictRules() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			for _, f := range r.Check(tree) {
				t.Errorf("%s\n\t(%s)", f, r.Why)
			}
		})
	}
}

func TestEachRuleCanFail(t *testing.T) {
	t.Parallel()
	for _, r := range strictRules() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			if r.Why == "" || len(r.broken) == 0 || len(r.fine) == 0 {
				t.Fatal("a rule has a reason, trees that break it and one that does not")
			}
			for _, files := range r.broken {
				if got := r.Check(load(t, files)); len(got) != 1 {
					t.Errorf("%v: want one finding, got %v", files, got)
				}
			}
			if got := r.Check(load(t, r.fine)); len(got) != 0 {
				t.Errorf("nothing is wrong with this tree: %v", got)
			}
		})
	}
}

// importing is a file whose package imports the paths.
func importing(paths ...string) string {
	return "package x\n\nimport (\n\t_ \"" + strings.Join(paths, "\"\n\t_ \"") + "\"\n)\n"
}

// ground is what the packages at the bottom may import outside of their
// tests, beside the standard library.
func ground(dir string) (may []string, isGround bool) {
	switch {
	case dir == "internal/fault":
		return nil, true
	case belowAny(dir, "internal/index", "internal/metadata"):
		return []string{"annals/internal/fault", "annals/internal/metadata", "annals/internal/index", "golang.org/x/text"}, true
	}
	return nil, false
}

func strictImports() []strictRule {
	return []strictRule{
		{Rule: Rule{"ground", "Rules about sessions are pure functions over values: they touch no file, no store and no network.", func(t *Tree, found report) {
			t.files(func(dir string, f *File) {
				may, isGround := ground(dir)
				if !isGround || f.Test {
					return
				}
				for _, imp := range f.Imports {
					_, own := t.own(imp.Path)
					if (own || t.module(imp.Path) != "") && !belowAny(imp.Path, may...) {
						found(f.Path, imp.Line, "imports %s", imp.Path)
					}
				}
			})
		}},
			broken: []map[string]string{
				{"internal/index/x.go": importing("strings", "annals/internal/ownfile")},
				{"internal/metadata/x.go": importing("annals/internal/jobs")},
				{"internal/metadata/x.go": importing("github.com/google/uuid")},
				{"internal/fault/x.go": importing("annals/internal/index")},
				{"internal/fault/x.go": importing("golang.org/x/text/unicode/norm")},
			},
			fine: map[string]string{
				"internal/index/x.go":      importing("strings", "annals/internal/fault", "annals/internal/metadata", "golang.org/x/text/unicode/norm"),
				"internal/index/x_test.go": importing("pgregory.net/rapid"),
				"internal/fault/x.go":      importing("errors"),
				"internal/jobs/x.go":       importing("annals/internal/ownfile"),
			}},

		{Rule: Rule{"suites", "A suite runs against whatever is handed to it; a fixture inside it would bind it to one.", func(t *Tree, found report) {
			t.files(func(dir string, f *File) {
				for _, imp := range f.Imports {
					if to, own := t.own(imp.Path); own && below(to, fixturesRoot) && !f.Test && !below(dir, fixturesRoot) {
						found(f.Path, imp.Line, "imports the fixture %s outside of a _test.go file", to)
					}
				}
			})
		}},
			broken: []map[string]string{{"internal/store/storetest/x.go": importing("annals/fixtures/corpus")}, {"cmd/annals/x.go": importing("annals/fixtures")}},
			fine:   map[string]string{"worker/x_test.go": importing("annals/fixtures/corpus"), "fixtures/suite/x.go": importing("annals/fixtures/corpus")}},
	}
}

// constant reports whether a package variable is one of the kinds that
// nothing changes: a sentinel, an expression, embedded files, an assertion,
// or the version that the linker sets.
func constant(t *Tree, dir string, f *File, v *ast.ValueSpec) bool {
	if !slices.ContainsFunc(v.Names, func(id *ast.Ident) bool { return id.Name != "_" }) {
		return true
	}
	if dir == "cmd/annals" && len(v.Names) == 1 && v.Names[0].Name == "version" {
		return true
	}
	if s, ok := v.Type.(*ast.SelectorExpr); ok && len(v.Values) == 0 {
		x, ok := s.X.(*ast.Ident)
		return ok && s.Sel.Name == "FS" && f.importsAs(x.Name, "embed")
	}
	makers := map[string][]string{"New": {"errors", t.Module + "/internal/fault"}, "MustCompile": {"regexp"}}
	return len(v.Values) > 0 && !slices.ContainsFunc(v.Values, func(x ast.Expr) bool {
		c, ok := x.(*ast.CallExpr)
		if !ok {
			return true
		}
		pkg, name, _ := strings.Cut(callee(c), ".")
		return !f.importsAs(pkg, makers[name]...)
	})
}

func findVariable(t *Tree, found report) {
	t.files(func(dir string, f *File) {
		if f.Test || below(dir, fixturesRoot) || testPackage(dir) || isShim(dir) {
			return
		}
		for _, d := range f.Syntax.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && !constant(t, dir, f, v) {
					found(f.Path, t.line(v.Pos()), "the package variable %s", v.Names[0].Name)
				}
			}
		}
	})
}

func findLong(t *Tree, found report) {
	t.files(func(_ string, f *File) {
		if f.Test || ast.IsGenerated(f.Syntax) {
			return
		}
		if f.Lines > maxFileLines {
			found(f.Path, 0, "%d lines", f.Lines)
		}
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && t.span(fn.Type.Pos(), fn.End()) > maxFunctionLines {
				found(f.Path, t.line(fn.Pos()), "%s has %d lines", fn.Name.Name, t.span(fn.Type.Pos(), fn.End()))
			}
		}
	})
}

func findUncommented(t *Tree, found report) {
	for _, p := range t.Packages {
		files := slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test })
		if len(files) == 0 {
			continue
		}
		if !slices.ContainsFunc(files, func(f *File) bool { return says(f.Syntax.Doc) }) {
			found(files[0].Path, t.line(files[0].Syntax.Name.Pos()), "the package %s has no comment", p.Dir)
		}
		if below(p.Dir, fixturesRoot) {
			continue
		}
		for _, f := range files {
			for _, d := range f.Syntax.Decls {
				for _, id := range uncommented(d) {
					found(f.Path, t.line(id.Pos()), "%s has no comment", id.Name)
				}
			}
		}
	}
}

// says reports whether one of the comments has words in it: a directive alone
// has none.
func says(comments ...*ast.CommentGroup) bool {
	return slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return strings.TrimSpace(c.Text()) != "" })
}

// uncommented returns the exported names of a declaration that no comment
// stands at, neither theirs nor one over their group.
func uncommented(d ast.Decl) (out []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && !says(d.Doc) && (d.Recv == nil || receiver(d).IsExported()) {
			out = append(out, d.Name)
		}
	case *ast.GenDecl:
		if says(d.Doc) {
			return nil
		}
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && !says(s.Doc, s.Comment) {
					out = append(out, s.Name)
				}
			case *ast.ValueSpec:
				for _, id := range s.Names {
					if id.IsExported() && !says(s.Doc, s.Comment) {
						out = append(out, id)
					}
				}
			}
		}
	}
	return out
}

// receiver returns the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) *ast.Ident {
	x := fn.Recv.List[0].Type
	for {
		switch e := x.(type) {
		case *ast.StarExpr:
			x = e.X
		case *ast.ParenExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.IndexListExpr:
			x = e.X
		case *ast.Ident:
			return e
		default:
			return ast.NewIdent("_")
		}
	}
}

func strictDeclarations() []strictRule {
	body := func(lines int) string { return "func f() {\n" + strings.Repeat("\tf()\n", lines-2) + "}\n" }
	variable := func(text string) map[string]string {
		return map[string]string{"worker/x.go": "package worker\n\n" + text + "\n"}
	}
	return []strictRule{
		{Rule: Rule{"constants", "A table in a package variable is one assignment away from being shared state; " +
			"as a constant, a switch or the result of a function it is not.", findVariable},
			broken: []map[string]string{
				variable("var table = []string{\"a\"}"), variable("var n int"), variable("var version = \"\""),
				variable("import \"sync\"\n\nvar mu sync.Mutex"), variable("import \"my/errors2\"\n\nvar e = errors2.New(\"x\")"),
				variable("import \"errors\"\n\nvar a, b = errors.New(\"x\"), 1"),
				{"cmd/annals/x.go": "package main\n\nvar commands = map[string]int{}\n"},
			},
			fine: map[string]string{
				"cmd/annals/version.go": "package main\n\nvar version = \"\"\n",
				"worker/x.go": "package worker\n\nimport (\n\t\"embed\"\n\t\"errors\"\n\t\"io\"\n\trx \"regexp\"\n\n\t\"annals/internal/fault\"\n)\n\n" +
					"var files embed.FS\n\nvar (\n\tgone = errors.New(\"gone\")\n\tbusy = fault.New(1, \"busy\")\n\tword = rx.MustCompile(\"a\")\n" +
					"\t_ io.Reader = (*r)(nil)\n)\n\ntype r struct{}\n\nfunc f() { var n int; n++ }\n",
				"worker/x_test.go":              "package worker\n\nvar n int\n",
				"fixtures/corpus/x.go":          "package corpus\n\nvar n int\n",
				"internal/store/storetest/x.go": "package storetest\n\nvar n int\n",
			}},

		{Rule: Rule{"lines", "What does not fit on a few screens is not read, also where somebody had a reason.", findLong},
			broken: []map[string]string{
				{"worker/x.go": "package worker\n" + strings.Repeat("\n", maxFileLines)},
				{"worker/x.go": "package worker\n\n" + body(maxFunctionLines+1)},
				{"worker/x.go": "package worker\n\n" + longMark + " a table\n" + body(maxFunctionLines+1)},
			},
			fine: map[string]string{
				"worker/x.go":      "package worker\n" + strings.Repeat("\n", maxFileLines-1-maxFunctionLines) + body(maxFunctionLines),
				"worker/x_test.go": "package worker\n" + strings.Repeat("\n", maxFileLines) + body(maxFunctionLines+1),
				"worker/made.go":   "// Code generated by a tool. DO NOT EDIT.\n\npackage worker\n\n" + body(maxFunctionLines+1),
			}},

		{Rule: Rule{"comments", "Whoever calls it should not have to read how it is made.", findUncommented},
			broken: []map[string]string{
				variable("func f() {}"), // no package comment
				{"fixtures/a/x.go": "package a\n"},
				{"worker/x.go": "// Package worker works.\npackage worker\n\nfunc F() {}\n"},
				{"worker/x.go": "// Package worker works.\npackage worker\n\n//go:noinline\nfunc F() {}\n"},
				{"worker/x.go": "// Package worker works.\npackage worker\n\ntype T struct{}\n"},
				{"worker/x.go": "// Package worker works.\npackage worker\n\nconst (\n\tA = 1 // one\n\tB = 2\n)\n"},
				{"worker/x.go": "// Package worker works.\npackage worker\n\n// T is it.\ntype T[P any] struct{}\n\nfunc (t *T[P]) M() {}\n"},
			},
			fine: map[string]string{
				"worker/doc.go": "// Package worker works.\npackage worker\n",
				"worker/x.go": "package worker\n\n// F is a function.\nfunc F() {}\n\n// Kinds of things.\nconst (\n\tA = 1\n\tB = 2\n)\n\n" +
					"type t struct{}\n\nfunc (t) Error() string { return \"\" }\n",
				"worker/x_test.go":     "package worker\n\nfunc TestX() {}\n",
				"fixtures/corpus/x.go": "// Package corpus has cases.\npackage corpus\n\nfunc F() {}\n",
			}},
	}
}

// trace is what says on which machine a text was written, or which registry a
// machine gets its packages from: the word to look for, and what has to stand
// round it.
type trace struct {
	word string
	form *regexp.Regexp
}

// traces are put together from pieces, for this file is searched too.
func traces() []trace {
	const start = `(?:^|[^\w./-]|file://)`
	out := []trace{
		{"/" + "root/", regexp.MustCompile(start + `/` + `root/[\w.]`)},
		{"/" + "work/", regexp.MustCompile(`/` + `work/(?:main|shared)\b`)},
	}
	for _, homes := range []string{"/" + "home/", "/" + "Users/"} {
		out = append(out, trace{homes, regexp.MustCompile(start + homes + `(\w[\w.-]*)`)})
	}
	for _, host := range []string{"proxy." + "golang.org", "sum." + "golang.org", "registry." + "npmjs.org",
		"registry." + "yarnpkg.com", "pypi." + "org", "crates." + "io"} {
		out = append(out, trace{host, regexp.MustCompile(`\b` + regexp.QuoteMeta(host) + `\b`)})
	}
	return out
}

// search reports each trace in a text. A home that examples use is none.
func search(name, text string, looked []trace, found report) {
	for _, tr := range looked {
		if !strings.Contains(text, tr.word) {
			continue
		}
		n := 0
		for line := range strings.Lines(text) {
			n++
			if !strings.Contains(line, tr.word) {
				continue
			}
			for _, m := range tr.form.FindAllStringSubmatch(line, -1) {
				if len(m) < 2 || !slices.Contains([]string{"user", "u", "me", "you", "name", "someone"}, m[1]) {
					found(name, n, "names %s", strings.TrimSpace(m[0]))
				}
			}
		}
	}
}

func findMachines(t *Tree, found report) {
	ignored, looked := t.ignored(), traces()
	err := fs.WalkDir(t.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path.Dir(name) == "." && (slices.Contains([]string{".git", ".cache", ".demo", "bin"}, name) || name != "." && ignored(name)):
			return fs.SkipDir
		case !d.Type().IsRegular(), path.Dir(name) == "." && (ignored(name) || name == ".git"): // .git is a file in a worktree
			return nil
		}
		raw, err := fs.ReadFile(t.fsys, name)
		if err != nil || bytes.IndexByte(raw, 0) >= 0 {
			return err
		}
		search(name, string(raw), looked, found)
		return nil
	})
	if err != nil {
		found(".", 0, "%v", err)
	}
}

func strictTexts() []strictRule {
	in := func(name, text string) map[string]string { return map[string]string{name: text} }
	return []strictRule{{
		Rule: Rule{"places", "A text that names its author's machine or registry is wrong on every other one.", findMachines},
		broken: []map[string]string{
			in("Makefile", "all:\n\tcd /"+"work/main && make\n"), in(".ci/run", "PATH=/usr/bin \"/"+"root/go/bin/x\"\n"),
			in("worker/testdata/x.txt", "at /"+"home/jdoe/src\n"), in("README.md", "GOPROXY=https://proxy."+"golang.org\n"),
			in("worker/x.go", "package worker\n\n// see https://registry."+"npmjs.org\n"), in("internal/tools/x.md", "/"+"Users/jdoe\n"),
		},
		fine: map[string]string{
			".gitignore": "/bin/\n/out\n", "bin/annals": "/" + "root/x", "out/x": "/" + "root/x", ".cache/x": "/" + "root/x",
			"worker/x.go": "package worker\n\n// /home/user/src, /work/sub, internal/root/x, https://golang.org\n",
			"worker/x.db": "\x00/" + "root/x",
		},
	}}
}
