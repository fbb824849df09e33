package opencode

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"annals/internal/fault"
)

// put writes a file and the directories above it.
func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestTheStoreIsLookedForWhereOpenCodeWouldOpenIt(t *testing.T) {
	home, data := t.TempDir(), t.TempDir()
	put(t, filepath.Join(home, ".local/share/opencode/opencode.db"), "x", 0o600)
	put(t, filepath.Join(data, "opencode/opencode-dev.db"), "x", 0o600)
	put(t, filepath.Join(data, "opencode/named.sqlite"), "x", 0o600)
	put(t, filepath.Join(data, "wal/opencode/opencode.db-wal"), "x", 0o600)
	put(t, filepath.Join(data, "dir/opencode/opencode.db/x"), "x", 0o600)
	abs := filepath.Join(data, "opencode/named.sqlite")
	cases := map[string]struct {
		env  []string
		code string
	}{
		"the usual place":          {[]string{"HOME=" + home}, ""},
		"an XDG directory":         {[]string{"HOME=/nowhere", "XDG_DATA_HOME=" + data}, ""},
		"without a home":           {[]string{"XDG_DATA_HOME=" + data}, ""},
		"a relative XDG directory": {[]string{"HOME=" + home, "XDG_DATA_HOME=share"}, ""},
		"the last of two values":   {[]string{"HOME=/nowhere", "HOME=" + home}, ""},
		"a named file":             {[]string{"HOME=/nowhere", "OPENCODE_DB=" + abs}, ""},
		"a name below the data":    {[]string{"XDG_DATA_HOME=" + data, "OPENCODE_DB=named.sqlite"}, ""},
		"no such name":             {[]string{"XDG_DATA_HOME=" + data, "OPENCODE_DB=other.db"}, fault.NoStore},
		"no such file":             {[]string{"HOME=" + home, "OPENCODE_DB=/nowhere/x.db"}, fault.NoStore},
		"a database in memory":     {[]string{"HOME=" + home, "OPENCODE_DB=:memory:"}, fault.NoStore},
		"nothing":                  {[]string{"HOME=" + t.TempDir()}, fault.NoStore},
		"a log alone":              {[]string{"XDG_DATA_HOME=" + filepath.Join(data, "wal")}, fault.NoStore},
		"a directory":              {[]string{"XDG_DATA_HOME=" + filepath.Join(data, "dir")}, fault.NoStore},
		"no environment":           {nil, fault.Config},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := parseEnvironment(c.env).findStore()
			if c.code == "" && err != nil || c.code != "" && !fault.Is(err, c.code) {
				t.Errorf("%v, want %q", err, c.code)
			}
		})
	}
}

func TestTheProgramIsFound(t *testing.T) {
	home, bin, other := t.TempDir(), t.TempDir(), t.TempDir()
	own := filepath.Join(home, ".opencode/bin/opencode")
	put(t, own, "x", 0o700)
	put(t, filepath.Join(bin, "opencode"), "x", 0o700)
	put(t, filepath.Join(other, "opencode"), "x", 0o600) // may not be executed
	path := "PATH=" + strings.Join([]string{"relative", "", "/nowhere", other, bin}, string(filepath.ListSeparator))
	cases := map[string]struct {
		name string
		env  []string
		want string
	}{
		"on PATH":                {"", []string{path, "HOME=" + home}, filepath.Join(bin, "opencode")},
		"where its installer is": {"opencode", []string{"PATH=/nowhere", "HOME=" + home}, own},
		"without PATH":           {"", []string{"HOME=" + home}, own},
		"a path":                 {own, nil, own},
		"a path that is none":    {"/nowhere/opencode", []string{path}, ""},
		"a name that is nowhere": {"opencode-next", []string{path, "HOME=" + home}, ""},
		"nowhere":                {"", []string{"PATH=" + other}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseEnvironment(c.env).findProgram(c.name)
			if got != c.want || (c.want == "") != fault.Is(err, fault.NotFound) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestTheServerIsGivenTheUsersDataAndNothingElse(t *testing.T) {
	got, err := parseEnvironment([]string{"HOME=/home/u", "PATH=/bin", "LANG=de_DE.UTF-8", "LC_TIME=C", "TZ=Europe/Berlin", "TMPDIR=/var/tmp",
		"XDG_CONFIG_HOME=/home/u/.config", "OPENCODE_DB=/x.db", "OPENCODE_CONFIG=/c.json", "OPENCODE_CONFIG_CONTENT={}", "OPENCODE_SERVER_PASSWORD=old",
		"OPENCODE_DISABLE_CHANNEL_DB=1", "OPENCODE_DISABLE_EMBEDDED_WEB_UI=1", "OPENAI_API_KEY=k", "LD_PRELOAD=/x.so", "NODE_OPTIONS=--x", "SSH_AUTH_SOCK=/s", "BROKEN"}).
		serverEnvironment("/p", "secret")
	want := []string{"HOME=/p/home", "LANG=de_DE.UTF-8", "LC_TIME=C", "OPENCODE_DB=/x.db", "OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_CHANNEL_DB=1", "OPENCODE_DISABLE_CLAUDE_CODE=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1", "OPENCODE_DISABLE_EXTERNAL_SKILLS=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_DISABLE_SHARE=1",
		"OPENCODE_PURE=1", "OPENCODE_SERVER_PASSWORD=secret", "OPENCODE_SERVER_USERNAME=opencode", "PATH=/bin", "TMPDIR=/p/tmp", "TZ=Europe/Berlin",
		"XDG_CACHE_HOME=/p/cache", "XDG_CONFIG_HOME=/p/config", "XDG_DATA_HOME=/home/u/.local/share", "XDG_STATE_HOME=/p/state"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || !slices.IsSorted(got) {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestOnlyAPrivateDirectoryIsRemoved(t *testing.T) {
	root := t.TempDir()
	victim := filepath.Join(root, "victim")
	put(t, filepath.Join(victim, "keep"), "x", 0o600)
	good := order{Dir: filepath.Join(root, privatePrefix+"1")}
	if err := good.makePrivate(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(good.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := good.makePrivate(); err == nil {
		t.Error("a directory that exists was taken over")
	}
	unmarked := filepath.Join(root, privatePrefix+"2")
	put(t, filepath.Join(unmarked, "keep"), "x", 0o600)
	renamed := filepath.Join(root, privatePrefix+"3")
	put(t, filepath.Join(renamed, markerFile), privatePrefix+"4", 0o600)
	link := filepath.Join(root, privatePrefix+"5")
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{victim, unmarked, renamed, link} {
		o := order{Dir: dir}
		if err := o.removePrivate(); err == nil {
			t.Errorf("%s was removed", dir)
		}
		if _, err := os.Lstat(dir); err != nil {
			t.Error(err)
		}
	}
	if (&order{Dir: victim}).makePrivate() == nil {
		t.Error("a directory without the prefix was made")
	}
	inside := filepath.Join(good.Dir, "work", "out")
	if err := os.Symlink(victim, inside); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing left to do
		if err := good.removePrivate(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(victim, "keep")); err != nil {
		t.Error("removing followed a link")
	}
}

func TestTheTailShowsTheSupervisorsOwnLinesAlone(t *testing.T) {
	var out tail
	for _, line := range []string{"Error: cannot load session \"my private title\"\n", "noise abc123abc1", "23\n",
		"the supervisor: no such\x07 file\n", "listen EADDRINUSE\n", "the supervisor: " + strings.Repeat("é", 200) + "\n"} {
		if _, err := out.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	got := out.shown()
	want := ": the supervisor: no such  file / the supervisor: " + strings.Repeat("é", 72) + "…"
	if got != want {
		t.Errorf("%q", got)
	}
	var long tail
	for range 100 {
		_, _ = long.Write([]byte(strings.Repeat("x", 1000)))
	}
	if len(long.kept) != tailBytes {
		t.Errorf("%d bytes kept", len(long.kept))
	}
	if got := (&tail{}).shown(); got != "" {
		t.Errorf("%q", got)
	}
}

func TestDirectoriesOfDeadSupervisorsAreSwept(t *testing.T) {
	work := t.TempDir()
	make := func(name, marker, owner string) {
		dir := filepath.Join(work, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{markerFile: marker, ownerFile: owner} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const dead = "2147483646" // above every process id
	make(privatePrefix+"dead", privatePrefix+"dead", dead)
	make(privatePrefix+"alive", privatePrefix+"alive", strconv.Itoa(os.Getpid()))
	make(privatePrefix+"foreign", "another name", dead)
	make(privatePrefix+"odd", privatePrefix+"odd", "x")
	make("other", "other", dead)
	sweep(work)
	entries, err := os.ReadDir(work)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != privatePrefix+"alive "+privatePrefix+"foreign "+privatePrefix+"odd other" {
		t.Error(got)
	}
}
