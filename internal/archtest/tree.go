package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tree is the source of a module: everything that Go would build on some
// system, and the files beside it. Paths are relative to the module's root
// and written with slashes.
type Tree struct {
	Module   string     // module path
	Requires []string   // paths of the modules that go.mod names
	Packages []*Package // by directory

	fsys fs.FS
	fset *token.FileSet
}

// Package is one directory of Go files, its tests included.
type Package struct {
	Dir   string // "." for the root
	Files []*File
}

// File is one parsed Go file.
type File struct {
	Path    string
	Test    bool // it ends in _test.go
	Lines   int
	Syntax  *ast.File
	Imports []Import
}

// Import is one line of a file's imports.
type Import struct {
	Path string
	Name string // what the file calls it; "." and "_" as written
	Line int
}

// Load parses the module at the root of fsys. It leaves out what Go leaves
// out: testdata, vendor, nested modules, names that begin with "." or "_";
// and what .gitignore names at the root.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{fsys: fsys, fset: token.NewFileSet()}
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	t.Module, t.Requires = readMod(string(mod))
	err = t.walk(func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		return t.add(name)
	})
	return t, err
}

// walk calls visit with each file of the module.
func (t *Tree) walk(visit func(name string) error) error {
	ignored := t.ignored()
	return fs.WalkDir(t.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		hidden := name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
		switch {
		case !d.IsDir() && !hidden:
			return visit(name)
		case !d.IsDir() || name == ".":
			return nil
		case hidden, base == "testdata", base == "vendor", path.Dir(name) == "." && ignored(name), t.exists(name + "/go.mod"):
			return fs.SkipDir
		}
		return nil
	})
}

func (t *Tree) exists(name string) bool {
	_, err := fs.Stat(t.fsys, path.Clean(name))
	return err == nil
}

// ignored tells which names at the root .gitignore leaves out. It knows the
// plain forms only: a name, with or without slashes round it, and "*.ext".
func (t *Tree) ignored() func(name string) bool {
	raw, err := fs.ReadFile(t.fsys, ".gitignore")
	if err != nil {
		return func(string) bool { return false }
	}
	var patterns []string
	for line := range strings.Lines(string(raw)) {
		if p := strings.Trim(strings.TrimSpace(line), "/"); p != "" && !strings.HasPrefix(p, "#") {
			patterns = append(patterns, p)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			ok, err := path.Match(p, name)
			return ok && err == nil
		})
	}
}

func (t *Tree) add(name string) error {
	src, err := fs.ReadFile(t.fsys, name)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &File{Path: name, Test: strings.HasSuffix(name, "_test.go"), Lines: bytes.Count(src, []byte("\n")), Syntax: syntax}
	for _, spec := range syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		local := baseName(p)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		f.Imports = append(f.Imports, Import{p, local, t.fset.Position(spec.Pos()).Line})
	}
	dir := path.Dir(name)
	if n := len(t.Packages); n == 0 || t.Packages[n-1].Dir != dir {
		if i := slices.IndexFunc(t.Packages, func(p *Package) bool { return p.Dir == dir }); i >= 0 {
			t.Packages[i].Files = append(t.Packages[i].Files, f)
			return nil
		}
		t.Packages = append(t.Packages, &Package{Dir: dir})
	}
	p := t.Packages[len(t.Packages)-1]
	p.Files = append(p.Files, f)
	return nil
}

// baseName is the name that a package of the standard library has.
func baseName(importPath string) string {
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

// readMod returns the module path and the required modules of a go.mod file.
func readMod(text string) (module string, requires []string) {
	block := false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "module" && len(f) > 1:
			module = f[1]
		case f[0] == "require" && len(f) > 1 && f[1] == "(":
			block = true
		case f[0] == "require" && len(f) > 2:
			requires = append(requires, f[1])
		case f[0] == ")":
			block = false
		case block:
			requires = append(requires, f[0])
		}
	}
	return module, requires
}

// own returns the directory of one of the module's own packages, and whether
// the import path is one.
func (t *Tree) own(importPath string) (dir string, ok bool) {
	if importPath == t.Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, t.Module+"/")
}

// module returns the required module that an import path belongs to, or ""
// for the standard library and for our own packages.
func (t *Tree) module(importPath string) string {
	first, _, _ := strings.Cut(importPath, "/")
	if _, own := t.own(importPath); own || !strings.Contains(first, ".") {
		return ""
	}
	best := ""
	for _, m := range t.Requires {
		if below(importPath, m) && len(m) > len(best) {
			best = m
		}
	}
	if best == "" {
		return importPath
	}
	return best
}

// below reports whether name is root or lies below it.
func below(name, root string) bool {
	return name == root || strings.HasPrefix(name, root+"/")
}

// belowAny reports whether name is one of the roots or lies below one.
func belowAny(name string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return below(name, r) })
}

// testPackage reports whether a directory holds a suite that other tests run.
func testPackage(dir string) bool { return strings.HasSuffix(path.Base(dir), "test") }

// files calls visit with each file and the directory of its package.
func (t *Tree) files(visit func(dir string, f *File)) {
	for _, p := range t.Packages {
		for _, f := range p.Files {
			visit(p.Dir, f)
		}
	}
}

func (t *Tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// mentions calls visit with each name of the package importPath that the file
// uses, such as the Exit of os.Exit.
func (f *File) mentions(importPath string, visit func(*ast.Ident)) {
	local := map[string]bool{}
	for _, i := range f.Imports {
		if i.Path == importPath {
			local[i.Name] = true
		}
	}
	if len(local) == 0 {
		return
	}
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && local[x.Name] {
				visit(s.Sel)
			}
		}
		return true
	})
}
