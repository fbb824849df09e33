package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"annals/internal/fault"
)

// projectFile may lie in a directory or above it. It travels with other
// people's repositories, so it may only tune, never name a program, a server
// or a file.
const projectFile = ".annals.toml"

// leaf is one key of the settings and the place of its value.
type leaf struct {
	key   string
	doc   string
	value reflect.Value
}

// leaves lists the keys of a settings struct in the order of its fields.
func leaves(s *settings) []leaf {
	var out []leaf
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			tag := f.Tag.Get("toml")
			if tag == "" {
				continue
			}
			if f.Type.Kind() == reflect.Struct {
				walk(prefix+tag+".", v.Field(i))
				continue
			}
			out = append(out, leaf{prefix + tag, f.Tag.Get("doc"), v.Field(i)})
		}
	}
	walk("", reflect.ValueOf(s).Elem())
	return out
}

// configure reads the configuration and sets the log up. The order, weakest
// first: defaults, the user's file, the project's file, the environment,
// flags.
func (a *app) configure(cmd *cobra.Command) error {
	var err error
	if a.paths, err = a.findPaths(); err != nil {
		return err
	}
	s := defaults()
	if err := a.loadFiles(&s); err != nil {
		return err
	}
	if err := a.loadEnv(&s); err != nil {
		return err
	}
	if cmd.Flags().Changed("log-level") {
		s.LogLevel, s.origin["log_level"] = a.logLevel, "flag --log-level"
	}
	if err := s.check(); err != nil {
		return err
	}
	a.cfg = s
	a.log = a.newLogger()
	return nil
}

func (a *app) loadFiles(s *settings) error {
	file, named := a.configFile, a.configFile != ""
	if !named {
		file = a.getenv("ANNALS_CONFIG")
		named = file != ""
	}
	if !named {
		file = a.paths.configFile()
	}
	if err := loadFile(s, file, named, false); err != nil {
		return err
	}
	if project := findProjectFile(); project != "" {
		return loadFile(s, project, true, true)
	}
	return nil
}

// findProjectFile looks in the working directory and above it. A file that
// belongs to somebody else does not count: directories such as /tmp are
// everybody's.
func findProjectFile() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		file := filepath.Join(dir, projectFile)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && ours(st) {
			return file
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// loadFile lays one file over the settings, strictly: a key that does not
// exist is an error, with its line.
func loadFile(s *settings, file string, mustExist, project bool) error {
	raw, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) && !mustExist {
		return nil
	}
	if err != nil {
		return fault.Wrap(err, fault.Config, "see `annals config path`", "the configuration cannot be read")
	}
	var read settings
	dec := toml.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&read); err != nil {
		return tomlFault(file, err)
	}
	var given map[string]any
	if err := toml.Unmarshal(raw, &given); err != nil {
		return tomlFault(file, err)
	}
	target := leaves(s)
	for i, l := range leaves(&read) {
		if !isGiven(given, l.key) {
			continue
		}
		if project && !projectMay(l.key) {
			return fault.New(fault.Config, fmt.Sprintf("%s: a project's file may not set %q", file, l.key),
				"set it in the user's file; see `annals config path`")
		}
		target[i].value.Set(l.value)
		s.origin[l.key] = file
	}
	return nil
}

// maxConfig is the largest file that is read as a configuration, in bytes.
const maxConfig = 1 << 20

// readSmall reads a regular file of at most maxConfig bytes. Opening a FIFO
// would wait for ever, and a device has no end.
func readSmall(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: file, Err: errors.New("it is not a regular file")}
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(raw) > maxConfig {
		err = &fs.PathError{Op: "read", Path: file, Err: fmt.Errorf("it is larger than %d bytes", maxConfig)}
	}
	return raw, err
}

// projectMay reports whether a project's file may set a key: how a run goes,
// never what it concludes, which is about every project.
func projectMay(key string) bool {
	switch key {
	case "log_level", "log_format", "index.page_size", "index.request_timeout", "index.retries", "index.wait":
		return true
	}
	return false
}

func isGiven(table map[string]any, key string) bool {
	first, rest, nested := strings.Cut(key, ".")
	v, ok := table[first]
	if !ok || !nested {
		return ok
	}
	sub, ok := v.(map[string]any)
	return ok && isGiven(sub, rest)
}

// tomlFault names the file, the line and the key, and never a value: it may
// be a password that was written in the wrong place.
func tomlFault(file string, err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		e := strict.Errors[0]
		line, _ := e.Position()
		return fault.New(fault.Config, fmt.Sprintf("%s:%d: there is no setting %q", file, line, strings.Join(e.Key(), ".")),
			"`annals config show` lists the settings")
	}
	var dec *toml.DecodeError
	if errors.As(err, &dec) {
		line, col := dec.Position()
		return fault.New(fault.Config, fmt.Sprintf("%s:%d:%d: %s", file, line, col, strings.TrimPrefix(dec.Error(), "toml: ")), "")
	}
	return fault.Wrap(err, fault.Config, "", "%s", file)
}

// envName is the variable of a key.
func envName(key string) string {
	return "ANNALS_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func (a *app) loadEnv(s *settings) error {
	for _, l := range leaves(s) {
		if l.value.Kind() == reflect.Slice {
			continue
		}
		name := envName(l.key)
		text, ok := a.lookupEnv(name)
		if !ok || text == "" {
			continue
		}
		if err := setScalar(l.value, text); err != nil {
			return fault.New(fault.Config, name+": "+err.Error(), "")
		}
		s.origin[l.key] = name
	}
	return nil
}

func setScalar(v reflect.Value, text string) error {
	switch p := v.Addr().Interface().(type) {
	case *duration:
		return p.UnmarshalText([]byte(text))
	case *string:
		*p = text
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*p = n
	}
	return nil
}
