package main

import (
	"os"

	"github.com/spf13/cobra"

	"annals/internal/supervise"
)

// superviseName is the hidden command that watches over the managed server and
// over the programs of sources; see internal/supervise.
const superviseName = "__supervise"

func superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:                superviseName,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return exitStatus(supervise.Main(os.Stdin, os.Stdout, os.Stderr))
		},
	}
}
