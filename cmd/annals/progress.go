package main

import (
	"github.com/schollz/progressbar/v3"

	"annals/worker"
)

// progress returns what draws a run's progress: a bar when a person looks at
// standard error, nothing elsewhere, where the log has its one line a run.
func (a *app) progress() (draw func(worker.Progress), done func()) {
	if !isTerminal(a.stderr) || a.json {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	name := ""
	done = func() {
		if bar != nil {
			_ = bar.Finish() // clears it; what it says no longer matters
		}
	}
	return func(p worker.Progress) {
		if bar == nil || p.Upstream != name {
			done()
			name = p.Upstream
			bar = progressbar.NewOptions(-1,
				progressbar.OptionSetWriter(a.stderr),
				progressbar.OptionSetDescription("reading "+clean(name, 48)),
				progressbar.OptionShowCount(),
				progressbar.OptionSetItsString("rows"),
				progressbar.OptionSetSpinnerChangeInterval(0), // it moves when a page comes, and not by itself
				progressbar.OptionClearOnFinish(),
				progressbar.OptionEnableColorCodes(a.getenv("NO_COLOR") == ""),
			)
		}
		_ = bar.Set(p.Rows)
	}, done
}
