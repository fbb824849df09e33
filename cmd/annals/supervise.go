package main

import (
	"os"

	"github.com/spf13/cobra"

	"annals/worker/opencode"
)

// superviseName is the hidden command that watches over the managed server;
// see worker/opencode.
const superviseName = "__supervise"

func superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:                superviseName,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return exitStatus(opencode.Supervise(os.Stdin, os.Stdout, os.Stderr))
		},
	}
}
