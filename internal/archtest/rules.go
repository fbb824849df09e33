package archtest

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule is one rule of the house.
type Rule struct {
	Name string
	Why  string // the reason, printed with what breaks it

	find func(*Tree, report)
}

// Finding is one place that breaks a rule.
type Finding struct {
	Path string // relative to the module's root
	Line int    // 0 when it is about the whole file
	Text string
}

// String returns the finding as path:line: text.
func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.Path, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// report takes a finding, as a rule makes it.
type report func(path string, line int, format string, args ...any)

// Rules returns every rule.
func Rules() []Rule {
	return []Rule{
		{"layers", "Imports point down, so that a part can be read, tested and replaced without what stands on it. " +
			"Who may import whom is the table in layers.go.", findLayers},
		{"fixtures", "Fixtures and suites are for tests: what ships must not depend on them. And what stands in for a server " +
			"must not share code with the program that it tests, or one mistake hides in both.", findFixtures},
		{"parts", "One package knows each foreign part, so that replacing it is one package's work. " +
			"Who may import what is the table in parts.go.", findParts},
		{"sources", "A source runs as a guest: the standard library, no process, no network, no other source, nothing of the host.", findSources},
		{"process", "Flags, the environment, the default logger and the end of the process belong to cmd: " +
			"everything else is told, so that it can run twice in one process and under a test.", findProcess},
		{"names", "A package is named after what it is about. In a drawer called util everything fits, and nothing is found.", findNames},
		{"init", "Code that runs because a package was linked runs in an order that nobody chose, also where it is not wanted.", findInit},
		{"variables", "A package variable that changes is shared by every run and every test of the process.", findVariables},
		{"options", "A constructor takes one Config: a reader sees all settings in one place, with their meaning and defaults.", findOptions},
		{"waiting", "A test that sleeps is slow or wrong, a skipped one proves nothing, and a sleep in the program cannot be cancelled: " +
			"wait for a signal, or for a timer beside the context.", findWaiting},
		{"size", "What does not fit on a few screens is not read. Split it where it says \"and\".", findSize},
		{"layout", "The first listing is the map of the project. What is not on it has a place below.", findLayout},
		{"docs", "A document that has fallen behind is worse than none.", findDocs},
		{"reachable", "A rule about something that is not there cannot fail, and protects nothing.", findReachable},
	}
}

// Check returns what breaks the rule, in the order of paths and lines.
func (r Rule) Check(t *Tree) []Finding {
	var out []Finding
	r.find(t, func(path string, line int, format string, args ...any) {
		out = append(out, Finding{path, line, fmt.Sprintf(format, args...)})
	})
	slices.SortFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(out)
}
