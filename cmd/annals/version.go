package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker; see the Makefile.
var version = ""

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Short:       "Print the version",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"config": "none"},
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if a.json {
				return a.printJSON(struct {
					SchemaVersion int    `json:"schema_version"`
					Version       string `json:"version"`
					Go            string `json:"go"`
					OS            string `json:"os"`
					Arch          string `json:"arch"`
				}{1, v, runtime.Version(), runtime.GOOS, runtime.GOARCH})
			}
			return a.printf("annals %s (%s, %s/%s)\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}
