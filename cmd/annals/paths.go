package main

import (
	"path/filepath"

	"annals/internal/fault"
)

// paths are the directories and files that Annals keeps.
type paths struct {
	configDir string // $XDG_CONFIG_HOME/annals
	dataDir   string // $XDG_DATA_HOME/annals
	stateDir  string // $XDG_STATE_HOME/annals
}

func (p paths) configFile() string { return filepath.Join(p.configDir, "config.toml") }
func (p paths) database() string   { return filepath.Join(p.dataDir, "annals.db") }
func (p paths) locks() string      { return filepath.Join(p.stateDir, "locks") }
func (p paths) managed() string    { return filepath.Join(p.stateDir, "managed") }

// findPaths follows the XDG rules, on macOS too: a variable that is not an
// absolute path counts as unset.
func (a *app) findPaths() (paths, error) {
	home := a.getenv("HOME")
	dir := func(variable string, fallback ...string) (string, error) {
		if v := a.getenv(variable); filepath.IsAbs(v) {
			return filepath.Join(v, "annals"), nil
		}
		if !filepath.IsAbs(home) {
			return "", fault.New(fault.Config, "neither "+variable+" nor HOME is an absolute path", "set HOME, or the XDG directories")
		}
		return filepath.Join(append(append([]string{home}, fallback...), "annals")...), nil
	}
	var p paths
	var err error
	if p.configDir, err = dir("XDG_CONFIG_HOME", ".config"); err != nil {
		return p, err
	}
	if p.dataDir, err = dir("XDG_DATA_HOME", ".local", "share"); err != nil {
		return p, err
	}
	p.stateDir, err = dir("XDG_STATE_HOME", ".local", "state")
	return p, err
}
