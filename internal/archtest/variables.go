package archtest

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
)

// findVariables looks for package variables that change, or are made to
// change: written anywhere (by a test too), a lock, a channel, a pointer, or
// the result of a call that may be any of these.
func findVariables(t *Tree, found report) {
	vars := map[variable]bool{}
	for _, p := range t.Packages {
		if isShim(p.Dir) {
			continue
		}
		p.decls(func(f *File, d ast.Decl) {
			g, ok := d.(*ast.GenDecl)
			if f.Test || !ok || g.Tok != token.VAR {
				return
			}
			for _, spec := range g.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for _, id := range v.Names {
					vars[variable{p.Dir, id.Name}] = id.Name != "_"
				}
				if what := madeToChange(f, v); what != "" && v.Names[0].Name != "_" {
					found(f.Path, t.line(v.Pos()), "%s is %s", v.Names[0].Name, what)
				}
			}
		})
	}
	for _, p := range t.Packages {
		for _, files := range p.byClause() {
			t.findWrites(p, files, vars, found)
		}
	}
}

// variable is a package variable by the directory and its name.
type variable struct{ dir, name string }

// byClause groups the files of a directory by package: the package with the
// tests inside it, and the tests outside of it.
func (p *Package) byClause() map[string][]*File {
	out := map[string][]*File{}
	for _, f := range p.Files {
		out[f.Syntax.Name.Name] = append(out[f.Syntax.Name.Name], f)
	}
	return out
}

// constantCalls are functions whose result nobody can change.
var constantCalls = []string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer", "len"}

// madeToChange says why a variable can be changed without being assigned to,
// or "".
func madeToChange(f *File, v *ast.ValueSpec) string {
	what := ""
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // it runs later, and its own variables are its own
		case *ast.FuncType:
			return false
		case *ast.ChanType:
			what = "a channel"
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				what = "a pointer"
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && f.importsAs(x.Name, "sync", "sync/atomic") {
				what = "shared state: " + x.Name + "." + n.Sel.Name
			}
		case *ast.CallExpr:
			if name := callee(n); name != "" && !slices.Contains(constantCalls, name) {
				what = "made by " + name + ", which is not among constantCalls"
			}
		}
		return what == ""
	}
	if v.Type != nil {
		ast.Inspect(v.Type, look)
	}
	for _, x := range v.Values {
		ast.Inspect(x, look)
	}
	return what
}

// callee names the function that is called, or "" for a conversion to a type
// that is written out, such as []byte("x").
func callee(c *ast.CallExpr) string {
	switch fun := ast.Unparen(c.Fun).(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			return x.Name + "." + fun.Sel.Name
		}
		return fun.Sel.Name
	case *ast.FuncLit:
		return "a function"
	}
	return ""
}

func (f *File) importsAs(name string, paths ...string) bool {
	return slices.ContainsFunc(f.Imports, func(i Import) bool { return i.Name == name && slices.Contains(paths, i.Path) })
}

// absent is an importer without packages: names of the package itself are
// resolved all the same, scopes and shadows included, and no more is needed.
type absent struct{}

// Import says that there is no such package.
func (absent) Import(string) (*types.Package, error) { return nil, errors.New("not loaded") }

// findWrites reports each statement in one package that writes to one of the
// variables, its own or another package's.
func (t *Tree) findWrites(p *Package, files []*File, vars map[variable]bool, found report) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: absent{}, Error: func(error) {}, FakeImportC: true}
	syntax := make([]*ast.File, len(files))
	for i, f := range files {
		syntax[i] = f.Syntax
	}
	// Errors are expected: nothing is imported.
	pkg, _ := conf.Check(path.Join(t.Module, p.Dir), t.fset, syntax, info)
	for _, f := range files {
		writes(f.Syntax, func(x ast.Expr) {
			id, from := root(x)
			switch obj := info.Uses[id].(type) {
			case *types.Var:
				if obj.Parent() == pkg.Scope() && vars[variable{p.Dir, id.Name}] {
					found(f.Path, t.line(x.Pos()), "writes to the package variable %s", id.Name)
				}
			case *types.PkgName:
				if dir, own := t.own(obj.Imported().Path()); own && vars[variable{dir, from}] {
					found(f.Path, t.line(x.Pos()), "writes to the package variable %s.%s", id.Name, from)
				}
			}
		})
	}
}

// root returns the identifier that an expression such as a.b[c].d begins
// with, and the name that follows it.
func root(x ast.Expr) (id *ast.Ident, next string) {
	for {
		switch e := x.(type) {
		case *ast.Ident:
			return e, next
		case *ast.SelectorExpr:
			x, next = e.X, e.Sel.Name
		case *ast.IndexExpr:
			x = e.X
		case *ast.SliceExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.ParenExpr:
			x = e.X
		default:
			return nil, ""
		}
	}
}

// inPlace are the functions that change their first argument.
var inPlace = []string{"delete", "clear", "copy", "sort.Strings", "sort.Ints", "sort.Slice", "sort.SliceStable", "sort.Sort", "sort.Stable",
	"slices.Sort", "slices.SortFunc", "slices.SortStableFunc", "slices.Reverse", "slices.Delete", "slices.DeleteFunc",
	"slices.Compact", "slices.CompactFunc", "slices.Insert", "slices.Replace", "maps.Copy", "maps.DeleteFunc", "maps.Insert"}

// writes calls visit with each expression that a file assigns to, or hands
// out so that others can.
func writes(f *ast.File, visit func(ast.Expr)) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				visit(x)
			}
		case *ast.IncDecStmt:
			visit(n.X)
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if x != nil {
					visit(x)
				}
			}
		case *ast.SendStmt:
			visit(n.Chan)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				visit(n.X)
			}
		case *ast.CallExpr:
			if len(n.Args) > 0 && slices.Contains(inPlace, callee(n)) {
				visit(n.Args[0])
			}
		}
		return true
	})
}
