package archtest

import (
	"go/ast"
	"slices"
	"strings"
)

// belongings are the names through which a program touches its own process.
// A package with no names is one that nobody but cmd may import.
var belongings = map[string][]string{
	"flag": nil,
	"log":  nil, // one logger for the whole process
	"os": {"Args", "Exit", "Getenv", "LookupEnv", "Environ", "ExpandEnv",
		"Setenv", "Unsetenv", "Clearenv"},
	"syscall": {"Exit", "Getenv", "Environ", "Setenv", "Unsetenv", "Clearenv"},
	"log/slog": {"SetDefault", "Default", "SetLogLoggerLevel", "Log", "LogAttrs", "Debug", "Info", "Warn", "Error",
		"DebugContext", "InfoContext", "WarnContext", "ErrorContext"},
}

func findProcess(t *Tree, found report) {
	t.files(func(dir string, f *File) {
		if f.Test || belowAny(dir, "cmd", fixturesRoot) || testPackage(dir) {
			return
		}
		for pkg, names := range belongings {
			for _, imp := range f.Imports {
				if imp.Path == pkg && (names == nil || imp.Name == ".") {
					found(f.Path, imp.Line, "imports %s", pkg)
				}
			}
			f.mentions(pkg, func(id *ast.Ident) {
				if slices.Contains(names, id.Name) {
					found(f.Path, t.line(id.Pos()), "uses %s.%s", pkg, id.Name)
				}
			})
		}
	})
}

// drawers are names of packages that say nothing about what is in them.
var drawers = []string{"util", "utils", "common", "types", "models", "helpers", "helper", "misc"}

func findNames(t *Tree, found report) {
	for _, p := range t.Packages {
		for part := range strings.SplitSeq(p.Dir, "/") {
			if slices.Contains(drawers, part) {
				found(p.Dir, 0, "a directory is called %s", part)
			}
		}
		for _, f := range p.Files {
			if name := strings.TrimSuffix(f.Syntax.Name.Name, "_test"); slices.Contains(drawers, name) {
				found(f.Path, t.line(f.Syntax.Name.Pos()), "a package is called %s", name)
			}
			for _, imp := range f.Imports {
				if imp.Name == "." {
					found(f.Path, imp.Line, "a dot import hides where names come from")
				}
			}
		}
	}
}

func findInit(t *Tree, found report) {
	t.files(func(_ string, f *File) {
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				found(f.Path, t.line(fn.Pos()), "func init")
			}
		}
	})
}

// findOptions looks for functions that take any number of functions of a
// named type, the shape of functional options.
func findOptions(t *Tree, found report) {
	for _, p := range t.Packages {
		functions := map[string]bool{}
		p.decls(func(f *File, d ast.Decl) {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				return
			}
			for _, spec := range g.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					if _, isFunc := s.Type.(*ast.FuncType); isFunc {
						functions[s.Name.Name] = true
					}
				}
			}
		})
		p.decls(func(f *File, d ast.Decl) {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Type.Params.NumFields() == 0 {
				return
			}
			list := fn.Type.Params.List
			last, ok := list[len(list)-1].Type.(*ast.Ellipsis)
			if !ok {
				return
			}
			if id, ok := last.Elt.(*ast.Ident); ok && functions[id.Name] {
				found(f.Path, t.line(last.Pos()), "%s takes functional options", fn.Name.Name)
			}
		})
	}
}

// decls calls visit with each declaration of the package's files.
func (p *Package) decls(visit func(*File, ast.Decl)) {
	for _, f := range p.Files {
		for _, d := range f.Syntax.Decls {
			visit(f, d)
		}
	}
}

// findWaiting lets the programs among the fixtures sleep: they stand in for
// something slow.
func findWaiting(t *Tree, found report) {
	t.files(func(dir string, f *File) {
		f.mentions("time", func(id *ast.Ident) {
			if id.Name == "Sleep" && (f.Test || !below(dir, fixturesRoot)) {
				found(f.Path, t.line(id.Pos()), "time.Sleep")
			}
		})
		if !f.Test {
			return
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
				if x, ok := s.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) {
					found(f.Path, t.line(s.Pos()), "%s.%s", x.Name, s.Sel.Name)
				}
			}
			return true
		})
	})
}
