package worker

import (
	"annals/internal/fault"
	"annals/internal/index"
	"annals/internal/jobs"
	"annals/worker/opencode"
)

// Report is what one run did, as `annals sync --json` prints it. Times are
// milliseconds since the epoch, UTC.
type Report struct {
	SchemaVersion int              `json:"schema_version"`
	Run           string           `json:"run"`
	Trigger       string           `json:"trigger"`
	DryRun        bool             `json:"dry_run,omitempty"`
	Outcome       jobs.Outcome     `json:"outcome"`
	StartedAt     int64            `json:"started_at"`
	FinishedAt    int64            `json:"finished_at"`
	Upstreams     []UpstreamReport `json:"upstreams"`
	Sources       []struct{}       `json:"sources"` // none are installed
}

// UpstreamReport is one upstream's part of a Report.
type UpstreamReport struct {
	Name     string         `json:"name"`
	Version  string         `json:"version"` // as the server tells it, "" when it does not
	List     opencode.Route `json:"list"`    // the list that was walked
	Outcome  jobs.Outcome   `json:"outcome"`
	Complete bool           `json:"complete"` // every session that the upstream has was seen, and this is proven
	Pages    int            `json:"pages"`    // pages of the walk
	Requests int64          `json:"requests"` // HTTP requests, tries included
	Seen     int            `json:"seen"`     // distinct sessions seen
	Counted  int            `json:"counted"`  // distinct sessions of the independent listing
	// Added, Updated and Unchanged count the sessions whose rows this run read.
	Added     int `json:"added"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	Archived  int `json:"archived"` // known sessions that turned archived
	Restored  int `json:"restored"` // known sessions that turned active again
	Missing   int `json:"missing"`  // sessions marked missing by this run
	Held      int `json:"held"`     // sessions that would be, once accepted
	// Skipped are rows that could not be read. Reasons name fields, never
	// their content.
	Skipped           []SkippedRow `json:"skipped"`
	FailedDirectories []string     `json:"failed_directories"`
	Error             *Fault       `json:"error,omitempty"` // why it is not ok
}

// SkippedRow is a row that was not indexed, and why.
type SkippedRow struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// Fault is a fault.Error as JSON output and the HTTP API show it.
type Fault struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Hint      string `json:"hint"`
	Retryable bool   `json:"retryable"`
}

// AsFault returns err in the shape of the output; nil for nil.
func AsFault(err error) *Fault {
	if err == nil {
		return nil
	}
	f := fault.From(err)
	return &Fault{Code: f.Code, Message: f.Error(), Hint: f.Hint, Retryable: f.Retryable}
}

// Progress is told after each page.
type Progress struct {
	Upstream string
	Pages    int
	Rows     int // rows read so far, of all lists
	Expected int // rows that the index knows already; 0 on the first run
}

func (r *UpstreamReport) count(res index.Result) {
	r.Added += res.Added
	r.Updated += res.Updated
	r.Unchanged += res.Unchanged
	r.Archived += res.Archived
	r.Restored += res.Restored
}

// overall is the outcome of a run of several targets: as good as the best
// when they agree, partial when they do not.
func overall(parts []UpstreamReport) jobs.Outcome {
	out := jobs.Running
	for i := range parts {
		o := parts[i].Outcome
		switch {
		case out == jobs.Running, out == o:
			out = o
		case out == jobs.Held || o == jobs.Held:
			out = jobs.Held
		default:
			out = jobs.Partial
		}
	}
	return out
}
