package opencode

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"annals/internal/fault"
)

// environment is the user's environment as the managed server needs it.
type environment map[string]string

// parseEnvironment reads the os.Environ form; of two equal names the last
// counts, as for a program that is started.
func parseEnvironment(env []string) environment {
	e := environment{}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			e[name] = value
		}
	}
	return e
}

// dataHome returns where OpenCode keeps the user's data: below it, in
// "opencode", lies the store.
func (e environment) dataHome() (string, error) {
	if dir := e["XDG_DATA_HOME"]; filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	if home := e["HOME"]; filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share"), nil
	}
	return "", fault.New(fault.Config, "neither HOME nor XDG_DATA_HOME is set, so the user's OpenCode history cannot be found",
		"set HOME, also in the environment of a service")
}

// findStore makes sure that the user has an OpenCode store. A server started
// without one would make an empty one, perhaps in the wrong place.
func (e environment) findStore() error {
	data, err := e.dataHome()
	if err != nil {
		return err
	}
	dir := filepath.Join(data, "opencode")
	switch db := e["OPENCODE_DB"]; {
	case db == ":memory:":
		return noStore("OPENCODE_DB names a database in memory, which holds no history")
	case db != "":
		if !filepath.IsAbs(db) {
			db = filepath.Join(dir, db)
		}
		if !isFile(db) {
			return noStore(fmt.Sprintf("OPENCODE_DB names %s, and there is no such file", db))
		}
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return fault.New(fault.Config, fmt.Sprintf("%s, where OpenCode keeps its history, cannot be read", dir), "")
	}
	if !slices.ContainsFunc(entries, func(f os.DirEntry) bool {
		name := f.Name()
		return strings.HasPrefix(name, "opencode") && strings.HasSuffix(name, ".db") && isFile(filepath.Join(dir, name))
	}) {
		return noStore("OpenCode has no history on this machine: there is no opencode*.db in " + dir)
	}
	return nil
}

func noStore(what string) error {
	return fault.New(fault.NoStore, what, "nothing was started; use OpenCode once, or name a server with [[upstream]] or OPENCODE_SERVER_URL")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// findProgram finds the opencode command: a path as it stands, a name on the
// user's PATH, or where OpenCode's own installer puts it.
func (e environment) findProgram(name string) (string, error) {
	if name == "" {
		name = "opencode"
	}
	if strings.ContainsRune(name, filepath.Separator) {
		path, err := filepath.Abs(name)
		if err == nil && isExecutable(path) {
			return path, nil
		}
		return "", fault.New(fault.NotFound, fmt.Sprintf("there is no program %s", name), "set the path of the opencode command")
	}
	for _, dir := range filepath.SplitList(e["PATH"]) {
		if path := filepath.Join(dir, name); filepath.IsAbs(dir) && isExecutable(path) {
			return path, nil
		}
	}
	if home := e["HOME"]; filepath.IsAbs(home) {
		if path := filepath.Join(home, ".opencode", "bin", name); isExecutable(path) {
			return path, nil
		}
	}
	return "", fault.New(fault.NotFound, fmt.Sprintf("the program %s is not on PATH and not in ~/.opencode/bin", name),
		"install OpenCode, or set the path of the opencode command")
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// serverEnvironment returns what the managed server is given: the user's data,
// and nothing else of the user's. Everything it may write goes below dir, and
// everything it may fetch, load or start is off.
func (e environment) serverEnvironment(dir, password string) ([]string, error) {
	data, err := e.dataHome()
	if err != nil {
		return nil, err
	}
	env := []string{
		"HOME=" + filepath.Join(dir, "home"),
		"XDG_DATA_HOME=" + data,
		"XDG_CONFIG_HOME=" + filepath.Join(dir, "config"),
		"XDG_STATE_HOME=" + filepath.Join(dir, "state"),
		"XDG_CACHE_HOME=" + filepath.Join(dir, "cache"),
		"TMPDIR=" + filepath.Join(dir, "tmp"),
		"OPENCODE_SERVER_USERNAME=" + DefaultUsername,
		"OPENCODE_SERVER_PASSWORD=" + password,
		"OPENCODE_PURE=1",
	}
	for _, name := range [...]string{"MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE",
		"PROJECT_CONFIG", "EXTERNAL_SKILLS", "CLAUDE_CODE"} {
		env = append(env, "OPENCODE_DISABLE_"+name+"=1")
	}
	for name, value := range e {
		switch {
		case name == "PATH", name == "LANG", name == "TZ", strings.HasPrefix(name, "LC_"),
			// These two say which of the user's databases is meant.
			name == "OPENCODE_DB", name == "OPENCODE_DISABLE_CHANNEL_DB":
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env, nil
}
