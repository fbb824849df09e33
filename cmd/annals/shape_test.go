package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	standin "annals/fixtures/opencode"
)

// shapeOf lists the members of a JSON text in the order in which they come
// first, with the type of each: the contract that scripts rely on.
func shapeOf(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	lines := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch x := v.(type) {
		case map[string]any:
			for k, e := range x {
				walk(path+"."+k, e)
			}
			lines[path+" object"] = true
		case []any:
			lines[path+" array"] = true
			for _, e := range x {
				walk(path+"[]", e)
			}
		default:
			lines[fmt.Sprintf("%s %T", path, v)] = true
		}
	}
	walk("", v)
	sorted := make([]string, 0, len(lines))
	for l := range lines {
		sorted = append(sorted, l)
	}
	sort.Strings(sorted)
	if !strings.HasPrefix(text, `{"schema_version":1,`) {
		t.Errorf("schema_version is not first: %.60s", text)
	}
	return strings.Join(sorted, "\n") + "\n"
}

// TestTheShapesOfTheJSONStayAsTheyAre compares every --json output with the
// files in testdata/shapes. A member that is added is added there too; one
// that is renamed or goes is a break of the contract.
func TestTheShapesOfTheJSONStayAsTheyAre(t *testing.T) {
	s := standin.Start(t, standin.Config{Corpus: history(40)})
	p := withServer(t, s)
	out := map[string]string{}
	do := func(name string, args ...string) string {
		_, stdout, _ := p.do(append(args, "--json")...)
		out[name] = stdout
		return stdout
	}
	do("sync-ok", "sync")
	do("sessions-list", "sessions", "list", "--children", "--archived", "all")
	do("sessions-show", "sessions", "show", p.everything()[0].ID)
	do("status-healthy", "status")
	s.Change(func(f *standin.Faults) {
		f.Broken = map[string]standin.Break{p.everything()[0].ID: standin.BreakNullRow}
	})
	do("sync-partial", "sync")
	s.SetFaults(standin.Faults{})
	s.Replace(nil)
	do("sync-held", "sync")
	do("runs-list", "runs", "list")
	var runs struct{ Runs []struct{ Run string } }
	if err := json.Unmarshal([]byte(out["runs-list"]), &runs); err != nil {
		t.Fatal(err)
	}
	do("runs-show", "runs", "show", runs.Runs[0].Run)
	do("doctor", "doctor")
	s.Close()
	do("sync-failed", "sync")
	do("status-degraded", "status")
	do("config-show", "config", "show")
	do("config-path", "config", "path")
	do("version", "version")
	do("error", "sessions", "show", "ses_unknown")
	names := make([]string, 0, len(out))
	for name := range out {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		file := filepath.Join("testdata", "shapes", name+".txt")
		got := shapeOf(t, out[name])
		if os.Getenv("ANNALS_TEST_UPDATE") != "" {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is\n%s\nand was\n%s", name, got, want)
		}
	}
}
