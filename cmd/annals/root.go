package main

import (
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
)

// app is what the commands share: the process, the configuration once it is
// read, and how to print.
type app struct {
	process
	started bool // a command's own code has begun: errors are no longer about the call
	json    bool
	utc     bool

	configFile string // --config
	logLevel   string // --log-level

	paths paths
	cfg   settings
	log   *slog.Logger
}

func newApp(p process) *app { return &app{process: p, log: slog.New(slog.DiscardHandler)} }

// getenv returns the last value of name in the process's environment.
func (a *app) getenv(name string) string {
	v, _ := a.lookupEnv(name)
	return v
}

func (a *app) lookupEnv(name string) (string, bool) {
	for i := len(a.env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(a.env[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

const rootLong = `Annals keeps an index of your coding agents' sessions, with their archive state
right, on your own machine.

Start with:
  annals sync             index every OpenCode session, now
  annals sessions list    see them
  annals doctor           find out what is wrong

Exit status: 0 ok, 1 failed, 2 usage or configuration, 3 partial or held.`

func rootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "annals",
		Short:         "An index of your coding agents' sessions",
		Long:          rootLong,
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Annotations:   map[string]string{"config": "none"},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.started = true
			completion := cmd.HasParent() && cmd.Parent().Name() == "completion" // it runs in every new shell
			if completion || strings.HasPrefix(cmd.Name(), "__") || cmd.Annotations["config"] == "none" {
				return nil
			}
			return a.configure(cmd)
		},
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON object on standard output")
	f.StringVar(&a.configFile, "config", "", "configuration `file` (default: see `annals config path`)")
	f.StringVar(&a.logLevel, "log-level", "", "`level` of the log on standard error: debug, info, warn, error")
	_ = root.RegisterFlagCompletionFunc("log-level", fixed("debug", "info", "warn", "error"))
	root.AddGroup(&cobra.Group{ID: "main", Title: "Commands:"}, &cobra.Group{ID: "care", Title: "Looking after it:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("main", syncCommand(a), sessionsCommand(a), runsCommand(a))
	add("care", statusCommand(a), doctorCommand(a), configCommand(a), versionCommand(a))
	root.AddCommand(superviseCommand())
	root.SetHelpCommandGroupID("care")
	root.SetCompletionCommandGroupID("care")
	return root
}

// fixed completes a flag with a fixed set of words.
func fixed(words ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
