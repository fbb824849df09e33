package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"annals/internal/fault"
	"annals/internal/ownfile"
)

func configCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "See and start the configuration",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(configInitCommand(a), configShowCommand(a), configPathCommand(a))
	return c
}

func configInitCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "init",
		Short:       "Write a configuration file with every setting and its default",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"config": "none"}, // a broken file must not keep one from starting over elsewhere
		RunE: func(*cobra.Command, []string) error {
			var err error
			if a.paths, err = a.findPaths(); err != nil {
				return err
			}
			file := a.userFile()
			err = ownfile.Create(file, []byte(template()))
			if errors.Is(err, fs.ErrExist) {
				return fault.New(fault.Config, file+" is there already; it was not touched", "edit it, or move it away first")
			}
			if err != nil {
				return fault.Wrap(err, fault.Config, "", "the configuration was not written")
			}
			if a.json {
				return a.printJSON(struct {
					SchemaVersion int    `json:"schema_version"`
					File          string `json:"file"`
				}{1, file})
			}
			return a.printf("%s\n", file)
		},
	}
}

// userFile is the user's configuration file, wherever the call puts it.
func (a *app) userFile() string {
	for _, f := range []string{a.configFile, a.getenv("ANNALS_CONFIG")} {
		if f != "" {
			return f
		}
	}
	return a.paths.configFile()
}

// template is a configuration file in which every setting is a comment with
// its default, so that a later release may change what nobody chose.
func template() string {
	s := defaults()
	var b strings.Builder
	b.WriteString("# The configuration of annals. A line without \"#\" overrides the default.\n")
	b.WriteString("# Every setting but [[upstream]] is also a variable of the environment:\n# index.page_size is ANNALS_INDEX_PAGE_SIZE.\n\n")
	table := ""
	for _, l := range leaves(&s) {
		if l.doc == "" {
			continue
		}
		if t, _, nested := strings.Cut(l.key, "."); nested && t != table {
			table = t
			fmt.Fprintf(&b, "\n[%s]\n", t)
		}
		fmt.Fprintf(&b, "# %s\n# %s = %s\n", l.doc, l.key[strings.LastIndexByte(l.key, '.')+1:], tomlValue(l))
	}
	b.WriteString(`
# OpenCode servers. Without any, OPENCODE_SERVER_URL and OPENCODE_SERVER_PASSWORD
# name one; without these, annals starts one by itself for each run.
# [[upstream]]
# name = "local"
# url = "http://127.0.0.1:4096"
# username = "opencode"
# password_env = "OPENCODE_SERVER_PASSWORD"   # or password_file = "/path", mode 0600
`)
	return b.String()
}

// tomlValue writes the value of a key as TOML, on one line.
func tomlValue(l leaf) string {
	switch v := l.value.Interface().(type) {
	case duration:
		return strconv.Quote(v.String())
	case string:
		return strconv.Quote(v)
	case int:
		return strconv.Itoa(v)
	case []upstreamEntry:
		raw, err := json.Marshal(v)
		if err != nil || v == nil {
			return "[]"
		}
		return string(raw)
	}
	return ""
}

func configShowCommand(a *app) *cobra.Command {
	var origin bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the settings in force",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.showConfig(origin)
		},
	}
	c.Flags().BoolVar(&origin, "origin", false, "say where each value comes from")
	return c
}

func (a *app) showConfig(origin bool) error {
	type setting struct {
		Key    string `json:"key"`
		Value  any    `json:"value"`
		Origin string `json:"origin"`
	}
	var all []setting
	for _, l := range leaves(&a.cfg) {
		s := setting{l.key, l.value.Interface(), a.cfg.originOf(l.key)}
		if v, ok := s.Value.([]upstreamEntry); ok && v == nil {
			s.Value = []upstreamEntry{}
		}
		if d, ok := s.Value.(duration); ok {
			s.Value = d.String()
		}
		all = append(all, s)
		if a.json {
			continue
		}
		line := l.key + " = " + tomlValue(l)
		if origin {
			line += "  # " + s.Origin
		}
		if err := a.printf("%s\n", line); err != nil {
			return err
		}
	}
	if !a.json {
		return nil
	}
	return a.printJSON(struct {
		SchemaVersion int       `json:"schema_version"`
		Settings      []setting `json:"settings"`
	}{1, all})
}

func configPathCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "path",
		Short:       "Print where configuration, data and state are",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"config": "none"},
		RunE: func(*cobra.Command, []string) error {
			var err error
			if a.paths, err = a.findPaths(); err != nil {
				return err
			}
			type place struct {
				What   string `json:"what"`
				Path   string `json:"path"`
				Exists bool   `json:"exists"`
			}
			places := []place{{"user configuration", a.userFile(), false}, {"store", a.paths.database(), false}, {"state", a.paths.stateDir, false}}
			if p := findProjectFile(); p != "" {
				places = append(places, place{"project configuration", p, false})
			}
			rows := [][]string{}
			for i := range places {
				_, err := os.Stat(places[i].Path)
				places[i].Exists = err == nil
				there := ""
				if err != nil {
					there = "(not there)"
				}
				rows = append(rows, []string{places[i].What, filepath.Clean(places[i].Path), there})
			}
			if a.json {
				return a.printJSON(struct {
					SchemaVersion int     `json:"schema_version"`
					Paths         []place `json:"paths"`
				}{1, places})
			}
			return table(a.stdout, rows)
		},
	}
}
