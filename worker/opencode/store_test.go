package opencode

import (
	"os"
	"path/filepath"
	"slices"
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
