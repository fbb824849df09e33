package main

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"annals/internal/fault"
	"annals/internal/metadata"
)

// settings are the configuration, as a file of TOML writes it. Every scalar
// may also be set by a variable of the environment: ANNALS_ and the key in
// capitals, with "_" for ".", as in ANNALS_INDEX_PAGE_SIZE.
type settings struct {
	LogLevel  string           `toml:"log_level" doc:"debug, info, warn or error"`
	LogFormat string           `toml:"log_format" doc:"auto (text on a terminal, JSON elsewhere), text or json"`
	Index     indexSettings    `toml:"index"`
	OpenCode  openCodeSettings `toml:"opencode"`
	Upstreams []upstreamEntry  `toml:"upstream"`

	// origin says where each key's value came from.
	origin map[string]string
}

// indexSettings tune the session index.
type indexSettings struct {
	MetadataNamespace string   `toml:"metadata_namespace" doc:"key of the session metadata that holds the archive stamp"`
	PageSize          int      `toml:"page_size" doc:"sessions a page, 1 to 10000"`
	PageBudget        int      `toml:"page_budget" doc:"pages a run and upstream; 0 walks to the end"`
	TimeBudget        duration `toml:"time_budget" doc:"time for the lists of one upstream; 0 for no bound"`
	RequestTimeout    duration `toml:"request_timeout" doc:"time for one request, its answer included"`
	Retries           int      `toml:"retries" doc:"further tries of a failed read, 0 to 10"`
	MaxMissing        int      `toml:"max_missing" doc:"hold a run when more than this per cent of the sessions would turn missing"`
	MaxMissingRows    int      `toml:"max_missing_rows" doc:"and at least so many sessions"`
	Wait              duration `toml:"wait" doc:"how long a sync waits for another one to end"`
}

// openCodeSettings are for the server that Annals starts by itself when no
// upstream is configured.
type openCodeSettings struct {
	Program      string   `toml:"program" doc:"the opencode command"`
	StartTimeout duration `toml:"start_timeout" doc:"how long it may take to start"`
}

// upstreamEntry is one [[upstream]].
type upstreamEntry struct {
	Name         string `toml:"name" json:"name"`
	URL          string `toml:"url" json:"url"`
	Username     string `toml:"username" json:"username,omitempty"`
	PasswordEnv  string `toml:"password_env" json:"password_env,omitempty"`
	PasswordFile string `toml:"password_file" json:"password_file,omitempty"`
}

// duration is a time.Duration that TOML writes as "30s".
type duration time.Duration

// UnmarshalText reads a duration.
func (d *duration) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*d = 0
		return nil
	}
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a time such as 30s, 10m or 1h", text)
	}
	*d = duration(v)
	return nil
}

// MarshalText writes a duration.
func (d duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String writes a duration as people do: 10m, not 10m0s.
func (d duration) String() string {
	v := time.Duration(d)
	switch {
	case v == 0:
		return "0s"
	case v%time.Hour == 0:
		return fmt.Sprintf("%dh", v/time.Hour)
	case v%time.Minute == 0:
		return fmt.Sprintf("%dm", v/time.Minute)
	}
	return v.String()
}

func defaults() settings {
	return settings{
		LogLevel: "info", LogFormat: "auto",
		Index: indexSettings{
			MetadataNamespace: metadata.DefaultNamespace, PageSize: 1000, TimeBudget: duration(10 * time.Minute),
			RequestTimeout: duration(30 * time.Second), Retries: 3, MaxMissing: 50, MaxMissingRows: 20,
			Wait: duration(5 * time.Minute),
		},
		OpenCode: openCodeSettings{Program: "opencode", StartTimeout: duration(time.Minute)},
		origin:   map[string]string{},
	}
}

// check refuses values that cannot be meant.
func (s *settings) check() error {
	bad := func(key, format string, args ...any) error {
		return fault.New(fault.Config, key+": "+fmt.Sprintf(format, args...)+" (from "+s.originOf(key)+")", "see `annals config show --origin`")
	}
	within := func(key string, v, low, high int) error {
		if v < low || v > high {
			return bad(key, "%d is not between %d and %d", v, low, high)
		}
		return nil
	}
	x := &s.Index
	for _, r := range []struct {
		key          string
		v, low, high int
	}{
		{"index.page_size", x.PageSize, 1, 10000}, {"index.page_budget", x.PageBudget, 0, 1 << 30},
		{"index.retries", x.Retries, 0, 10}, {"index.max_missing", x.MaxMissing, 1, 100},
		{"index.max_missing_rows", x.MaxMissingRows, 1, 1 << 30},
	} {
		if err := within(r.key, r.v, r.low, r.high); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		key string
		v   duration
		min time.Duration
	}{
		{"index.time_budget", x.TimeBudget, 0}, {"index.request_timeout", x.RequestTimeout, 10 * time.Millisecond},
		{"index.wait", x.Wait, 0}, {"opencode.start_timeout", s.OpenCode.StartTimeout, time.Second},
	} {
		if time.Duration(r.v) < r.min {
			return bad(r.key, "%s is too short", r.v)
		}
	}
	if _, ok := levelOf(s.LogLevel); !ok {
		return bad("log_level", "%q is none of debug, info, warn, error", s.LogLevel)
	}
	if s.LogFormat != "auto" && s.LogFormat != "text" && s.LogFormat != "json" {
		return bad("log_format", "%q is none of auto, text, json", s.LogFormat)
	}
	if x.MetadataNamespace == "" {
		return bad("index.metadata_namespace", "it is empty")
	}
	return s.checkUpstreams(bad)
}

func (s *settings) checkUpstreams(bad func(key, format string, args ...any) error) error {
	seen := map[string]bool{}
	for i, u := range s.Upstreams {
		key := "upstream"
		switch {
		case !validName(u.Name):
			return bad(key, "entry %d: name %q is not 1 to 48 letters, digits, \"-\" or \"_\"", i+1, u.Name)
		case seen[u.Name]:
			return bad(key, "two are called %q", u.Name)
		case u.PasswordEnv != "" && u.PasswordFile != "":
			return bad(key, "%q has both password_env and password_file", u.Name)
		}
		seen[u.Name] = true
		if p, err := url.Parse(u.URL); err != nil || p.User != nil || p.Host == "" || (p.Scheme != "http" && p.Scheme != "https") {
			// The text is not repeated: it may hold a password.
			return bad(key, "the url of %q is not http(s)://host:port without a user and password", u.Name)
		}
	}
	return nil
}

func validName(name string) bool {
	const letters = "-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return name != "" && len(name) <= 48 && strings.Trim(name, letters) == ""
}

func (s *settings) originOf(key string) string {
	if o, ok := s.origin[key]; ok {
		return o
	}
	return originDefault
}

const originDefault = "default"
