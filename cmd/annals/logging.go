package main

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"
)

// levelOf returns the level of a name as the configuration writes it.
func levelOf(name string) (slog.Level, bool) {
	switch name {
	case "debug":
		return slog.LevelDebug, true
	case "info":
		return slog.LevelInfo, true
	case "warn":
		return slog.LevelWarn, true
	case "error":
		return slog.LevelError, true
	}
	return 0, false
}

// newLogger writes to standard error: text for a person at a terminal, JSON
// for what collects logs. Attributes are ids, counts and times; session text
// and passwords are never among them.
func (a *app) newLogger() *slog.Logger {
	level, _ := levelOf(a.cfg.LogLevel)
	if isTerminal(a.stderr) && a.cfg.originOf("log_level") == originDefault {
		level = slog.LevelError // the command's own output tells the rest
	}
	opts := &slog.HandlerOptions{Level: level}
	format := a.cfg.LogFormat
	if format == "text" || format == "auto" && isTerminal(a.stderr) {
		return slog.New(slog.NewTextHandler(a.stderr, opts))
	}
	return slog.New(slog.NewJSONHandler(a.stderr, opts))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
