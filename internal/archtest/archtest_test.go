package archtest

import (
	"os"
	"strings"
	"testing"
)

func TestTheHouseKeepsItsRules(t *testing.T) {
	t.Parallel()
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if tree.Module != "annals" || len(tree.Packages) < 10 {
		t.Fatalf("this is not the house: module %q, %d packages", tree.Module, len(tree.Packages))
	}
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			found := r.Check(tree)
			if len(found) == 0 {
				return
			}
			var b strings.Builder
			for _, f := range found {
				b.WriteString("\n  " + f.String())
			}
			t.Errorf("%d places break the rule %q:%s\nThe reason for the rule: %s", len(found), r.Name, b.String(), r.Why)
		})
	}
}
