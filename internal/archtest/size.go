package archtest

import (
	"go/ast"
	"go/token"
	"strings"
)

// The bounds are above what the house aims for, 500 and 60 lines: they stop
// what has got out of hand, not the last line that made sense.
const (
	maxFileLines     = 600
	maxFunctionLines = 90
)

// longMark in front of a package clause or a function, followed by the reason,
// lets it be longer: a table, for instance.
const longMark = "//archtest:long"

func findSize(t *Tree, found report) {
	t.files(func(_ string, f *File) {
		if f.Test {
			return
		}
		marks := t.longMarks(f, found)
		if f.Lines > maxFileLines && !marks.excuse(t, f.Syntax.Doc) {
			found(f.Path, 0, "%d lines, the bound is %d", f.Lines, maxFileLines)
		}
		for _, d := range f.Syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := t.span(fn.Type.Pos(), fn.End()); n > maxFunctionLines && !marks.excuse(t, fn.Doc) {
				found(f.Path, t.line(fn.Type.Pos()), "%s has %d lines, the bound is %d", fn.Name.Name, n, maxFunctionLines)
			}
		}
		for line, needed := range marks {
			if !needed {
				found(f.Path, line, "%s on something short", longMark)
			}
		}
	})
}

// longMarks are the lines with a mark, and whether it was needed.
type longMarks map[int]bool

// longMarks finds the marks of a file. One without a reason is a finding, and
// counts as needed: one finding is enough.
func (t *Tree) longMarks(f *File, found report) longMarks {
	marks := longMarks{}
	for _, g := range f.Syntax.Comments {
		for _, c := range g.List {
			reason, ok := strings.CutPrefix(c.Text, longMark)
			if !ok {
				continue
			}
			line, reasonless := t.line(c.Pos()), strings.TrimSpace(reason) == ""
			marks[line] = reasonless
			if reasonless {
				found(f.Path, line, "%s needs a reason", longMark)
			}
		}
	}
	return marks
}

// excuse reports whether there is a mark in the comment that stands in front
// of something long.
func (m longMarks) excuse(t *Tree, doc *ast.CommentGroup) bool {
	excused := false
	if doc != nil {
		for _, c := range doc.List {
			if line := t.line(c.Pos()); strings.HasPrefix(c.Text, longMark) {
				m[line], excused = true, true
			}
		}
	}
	return excused
}

// span is the number of lines from one place to another.
func (t *Tree) span(from, to token.Pos) int { return t.line(to) - t.line(from) + 1 }
