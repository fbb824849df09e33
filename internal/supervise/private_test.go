package supervise

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnOrderArrivesAsItWasGiven(t *testing.T) {
	o := &Order{Program: "/bin/\xff\xfe", Args: []string{"", "a\nb", "\xe9", "\"'\\"}, Env: []string{"A=\xf6", "B"}, Dir: "/w/\xf6/" + prefix + "x",
		Dirs: []string{"a", "b/c"}, Files: []File{{"a/f", "t\xff\x00ext"}, {".git", ""}}, Work: "a", Grace: 3}
	line, err := o.encode()
	if err != nil || bytes.Count(line, []byte("\n")) != 1 {
		t.Fatalf("%q, %v", line, err)
	}
	got, err := readOrder(bufio.NewReader(bytes.NewReader(append(line, killByte))))
	if diff := cmp.Diff(o, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, err := (&Order{Program: "/bin/x", Dir: "/" + prefix + "x"}).encode(); err != nil || !bytes.Contains(got, []byte(`"Env":[]`)) {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := (&Order{Args: []string{strings.Repeat("x", maxOrder)}}).encode(); err == nil {
		t.Error("an order without end is sent")
	}
}

func TestAnOrderStaysWithinItsDirectory(t *testing.T) {
	good := func() Order {
		return Order{Program: "/bin/x", Dir: "/w/" + prefix + "x", Dirs: []string{"a/b"}, Files: []File{{Path: ".git"}}, Work: "a"}
	}
	o := good()
	if err := o.check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Order){
		"a relative program":     func(o *Order) { o.Program = "x" },
		"no program":             func(o *Order) { o.Program = "" },
		"no directory":           func(o *Order) { o.Dir = "" },
		"a directory of others":  func(o *Order) { o.Dir = "/w/x" },
		"nothing but the prefix": func(o *Order) { o.Dir = "/w/" + prefix },
		"a relative directory":   func(o *Order) { o.Dir = prefix + "x" },
		"work above":             func(o *Order) { o.Work = ".." },
		"work elsewhere":         func(o *Order) { o.Work = "/tmp" },
		"a directory above":      func(o *Order) { o.Dirs = append(o.Dirs, "a/../../b") },
		"a file above":           func(o *Order) { o.Files = append(o.Files, File{Path: "../b"}) },
		"a file without a name":  func(o *Order) { o.Files = append(o.Files, File{}) },
	} {
		o := good()
		change(&o)
		if o.check() == nil {
			t.Errorf("%s is taken", name)
		}
		if _, err := Start(Config{Self: []string{"/nowhere"}, Order: o}); err == nil {
			t.Errorf("%s is started", name)
		}
	}
}

func FuzzAnOrderIsReadOrRefused(f *testing.F) {
	line, _ := (&Order{Program: "/bin/x", Dir: "/w/" + prefix + "x", Args: []string{"a"}}).encode()
	f.Add(line)
	f.Add([]byte("{}\n"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if o, err := readOrder(bufio.NewReader(bytes.NewReader(raw))); err == nil && o.check() != nil {
			t.Error("an order that reaches beyond its directory was read")
		}
	})
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyAPrivateDirectoryIsRemoved(t *testing.T) {
	root := t.TempDir()
	victim := filepath.Join(root, "victim")
	put(t, filepath.Join(victim, "keep"), "x", 0o600)
	good := Order{Program: "/bin/x", Dir: NewDir(root, "test"), Dirs: []string{"work/deep"}, Files: []File{{"work/f", "text"}}, Work: "work"}
	if err := good.makePrivate(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(good.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if text, err := os.ReadFile(filepath.Join(good.Dir, "work/f")); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if err := good.makePrivate(); err == nil {
		t.Error("a directory that exists was taken over")
	}
	unmarked := filepath.Join(root, prefix+"2")
	put(t, filepath.Join(unmarked, "keep"), "x", 0o600)
	renamed := filepath.Join(root, prefix+"3")
	put(t, filepath.Join(renamed, markerFile), prefix+"4", 0o600)
	link := filepath.Join(root, prefix+"5")
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{victim, unmarked, renamed, link} {
		if err := removePrivate(dir); err == nil {
			t.Errorf("%s was removed", dir)
		}
		if _, err := os.Lstat(dir); err != nil {
			t.Error(err)
		}
	}
	inside := filepath.Join(good.Dir, "work", "out")
	if err := os.Symlink(victim, inside); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing left to do
		if err := removePrivate(good.Dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(victim, "keep")); err != nil {
		t.Error("removing followed a link")
	}
}

func TestADirectoryThatLocksItselfIsRemoved(t *testing.T) {
	root := t.TempDir()
	o := Order{Program: "/bin/x", Dir: NewDir(root, "test"), Dirs: []string{"a/b/c", "d", "e/f"}, Files: []File{{"a/b/c/file", ""}, {"e/f/file", ""}}}
	if err := o.makePrivate(); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(root, "outside")
	if err := os.Mkdir(outside, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(o.Dir, "a/b/out")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir  string
		mode os.FileMode
	}{{"a/b/c", 0o500}, {"a/b", 0o500}, {"d", 0}, {"e/f", 0}, {".", 0o500}} {
		if err := os.Chmod(filepath.Join(o.Dir, c.dir), c.mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := removePrivate(o.Dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(o.Dir); err == nil {
		t.Error("it is still there")
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("a link was followed: %v, %v", info, err)
	}
}

func TestDirectoriesOfDeadSupervisorsAreSwept(t *testing.T) {
	work := t.TempDir()
	make := func(name, marker, owner string) {
		put(t, filepath.Join(work, name, markerFile), marker, 0o600)
		put(t, filepath.Join(work, name, ownerFile), owner, 0o600)
	}
	const dead = "2147483646" // above every process id
	make(prefix+"dead", prefix+"dead", dead)
	make(prefix+"alive", prefix+"alive", strconv.Itoa(os.Getpid()))
	make(prefix+"foreign", "another name", dead)
	make(prefix+"odd", prefix+"odd", "x")
	make("other", "other", dead)
	Sweep(work)
	Sweep(filepath.Join(work, "nowhere"))
	entries, err := os.ReadDir(work)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != prefix+"alive "+prefix+"foreign "+prefix+"odd other" {
		t.Error(got)
	}
}

func TestOnlyTheFirstLineOfAPanicIsShown(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "\n\n": "", "panic: x\x07y\n\ngoroutine 1": ": panic: x y",
		strings.Repeat("é", 200): ": " + strings.Repeat("é", 80) + "…",
	} {
		if got := shown([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	var b bounded
	for range 100 {
		if n, err := b.Write(make([]byte, 1000)); n != 1000 || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(b.kept) != maxReport {
		t.Error(len(b.kept))
	}
}
