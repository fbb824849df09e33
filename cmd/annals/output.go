package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"annals/internal/fault"
	"annals/worker"
)

// printJSON prints the one object of a --json call.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fault.Wrap(err, fault.Internal, "", "the output could not be written")
	}
	return nil
}

// printf prints to standard output; a failed write ends the command.
func (a *app) printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(a.stdout, format, args...); err != nil {
		return fault.Wrap(err, fault.Internal, "", "the output could not be written")
	}
	return nil
}

// note tells a person something beside the result, on standard error.
func (a *app) note(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, format+"\n", args...)
}

// printError prints an error in the way the call asked for.
func (a *app) printError(err error) {
	f := worker.AsFault(err)
	if a.json {
		_ = a.printJSON(struct {
			SchemaVersion int           `json:"schema_version"`
			Error         *worker.Fault `json:"error"`
		}{1, f})
		return
	}
	a.printFault("annals: ", f)
}

func (a *app) printFault(prefix string, f *worker.Fault) {
	a.note("%s%s", prefix, clean(f.Message, 0))
	if f.Hint != "" {
		a.note("%s%s", strings.Repeat(" ", len(prefix)), clean(f.Hint, 0))
	}
}

// table writes aligned columns.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := fmt.Fprintln(tw, strings.Join(row, "\t")); err != nil {
			return fault.Wrap(err, fault.Internal, "", "the output could not be written")
		}
	}
	if err := tw.Flush(); err != nil {
		return fault.Wrap(err, fault.Internal, "", "the output could not be written")
	}
	return nil
}

// clean makes text from elsewhere safe to print in one line: control
// characters and escapes, which could move a terminal's cursor or hide text,
// become a space, and what is longer than width characters is cut with a
// mark. Width 0 cuts nothing.
func clean(s string, width int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if width > 0 && utf8.RuneCountInString(s) > width {
		r := []rune(s)
		s = string(r[:width-1]) + "…"
	}
	return s
}

// when prints a time in ms: local, or UTC with --utc.
func (a *app) when(ms int64) string {
	if ms == 0 {
		return "-"
	}
	t := time.UnixMilli(ms)
	if a.utc {
		return t.UTC().Format("2006-01-02 15:04:05Z")
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// took prints a span between two times in ms.
func took(from, to int64) string {
	if to < from {
		return "-"
	}
	d := time.Duration(to-from) * time.Millisecond
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func itoa(n int) string { return strconv.Itoa(n) }

// plural writes a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return itoa(n) + " " + noun + "s"
}
