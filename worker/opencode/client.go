// Package opencode talks to OpenCode servers over HTTP: it finds out which
// session lists a server has, reads them row by row, looks single sessions up,
// and can start a server of its own for as long as somebody needs one. It is
// the only package that imports resty.
//
// Everything that a server sends is foreign: rows are read leniently and
// skipped by name when they cannot be, pages are bounded, and no text of an
// answer ever reaches an error.
package opencode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-resty/resty/v2"

	"annals/internal/fault"
)

// Route is a list route of an OpenCode server.
type Route string

// The list routes, and what each is good for.
const (
	Envelope Route = "/api/session"          // {data, cursor}; loses nothing on ties
	Bare     Route = "/experimental/session" // bare array, x-next-cursor; loses ties at page borders
	Plain    Route = "/session"              // bare array without a cursor, one project
	None     Route = ""
)

// Defaults of a Config.
const (
	DefaultUsername       = "opencode"
	DefaultRequestTimeout = 30 * time.Second
	DefaultRetries        = 3
	DefaultRetryWait      = 200 * time.Millisecond
	DefaultRetryMaxWait   = 5 * time.Second
	DefaultMaxRow         = 4 << 20
	DefaultMaxBody        = 1 << 30
)

// Config says which server a Client talks to, and how patiently. Numbers that
// are 0 take the defaults named.
type Config struct {
	Name     string // the upstream's configured name, used in errors
	URL      string // http(s)://host[:port][/base]; user info or a query is refused
	Username string // "opencode" when empty
	Password string // "" sends no Authorization header

	// RequestTimeout bounds the time that one try of a request waits for the
	// server: connecting, the head, and every byte of the body. What the
	// caller does with the rows in between is not counted. 30s.
	RequestTimeout time.Duration

	Retries      int           // extra tries of a GET after the first; 3, -1 for none
	RetryWait    time.Duration // before the second try, doubled for each further one, with jitter; 200ms
	RetryMaxWait time.Duration // the longest wait, also for a Retry-After; 5s
	MaxRow       int64         // bytes of one session row; 4 MiB. A longer row is skipped and named
	MaxBody      int64         // decoded bytes of one answer; 1 GiB
}

// Client reads one OpenCode server. It may be used by several goroutines.
type Client struct {
	cfg      Config
	base     string // scheme://host[:port][/base], without a slash at its end
	loopback bool
	http     *resty.Client
	wire     *wire
}

// New returns a Client. It sends nothing. A URL that cannot be used is an
// error with the code fault.Config that never repeats the URL's user info.
func New(c Config) (*Client, error) {
	base, err := parseBase(c.Name, c.URL)
	if err != nil {
		return nil, err
	}
	c.fillDefaults()
	if strings.Contains(c.Username, ":") {
		return nil, fault.New(fault.Config, fmt.Sprintf("upstream %q: the user name has a colon, which HTTP cannot carry", c.Name), "")
	}
	loopback := isLoopback(base.Hostname())
	w := newWire(loopback, c.RequestTimeout)
	return &Client{cfg: c, base: base.String(), loopback: loopback, wire: w, http: newResty(&c, base, w)}, nil
}

func (c *Config) fillDefaults() {
	if c.Username == "" {
		c.Username = DefaultUsername
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	switch {
	case c.Retries == 0:
		c.Retries = DefaultRetries
	case c.Retries < 0:
		c.Retries = 0
	}
	if c.RetryWait <= 0 {
		c.RetryWait = DefaultRetryWait
	}
	if c.RetryMaxWait <= 0 {
		c.RetryMaxWait = DefaultRetryMaxWait
	}
	if c.MaxRow <= 0 {
		c.MaxRow = DefaultMaxRow
	}
	if c.MaxBody <= 0 {
		c.MaxBody = DefaultMaxBody
	}
	c.MaxRow = min(c.MaxRow, c.MaxBody)
}

// parseBase checks an upstream's URL. The parser's own errors repeat the URL,
// and with it a password that somebody wrote into it; they are not passed on.
func parseBase(name, raw string) (*url.URL, error) {
	const hint = "write it as http://host:port or https://host:port/base"
	bad := func(what string) error {
		return fault.New(fault.Config, fmt.Sprintf("upstream %q: the URL %s", name, what), hint)
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return nil, bad("cannot be read")
	case u.User != nil:
		return nil, fault.New(fault.Config, fmt.Sprintf("upstream %q: the URL holds user info", name),
			"set username and password_env or password_file instead")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, bad("has another scheme than http or https")
	case u.Hostname() == "":
		return nil, bad("has no host")
	case u.Port() != "" && !validPort(u.Port()):
		return nil, bad("has a port that does not exist")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, bad("has a query")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, bad("has a fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func isLoopback(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// newResty sets up the one retry layer, the redirect rule and the headers.
func newResty(c *Config, base *url.URL, w *wire) *resty.Client {
	r := resty.NewWithClient(&http.Client{Transport: w}).
		SetLogger(silent{}).SetDisableWarn(true).
		SetDoNotParseResponse(true).
		SetHeader("Accept", "application/json").
		SetHeader("User-Agent", "annals").
		SetRedirectPolicy(resty.RedirectPolicyFunc(sameServer(base))).
		SetRetryCount(c.Retries).
		SetRetryWaitTime(c.RetryWait).
		SetRetryMaxWaitTime(max(c.RetryMaxWait, c.RetryWait)).
		SetRetryAfter(retryAfter).
		AddRetryCondition(tryAgain).
		AddRetryHook(closeBody)
	if c.Password != "" {
		r.SetBasicAuth(c.Username, c.Password)
	}
	return r
}

// silent keeps resty from logging: its lines hold whole URLs.
type silent struct{}

func (silent) Errorf(string, ...any) {}
func (silent) Warnf(string, ...any)  {}
func (silent) Debugf(string, ...any) {}

// Close closes the idle connections. A Client may still be used afterwards.
func (c *Client) Close() { c.wire.base.CloseIdleConnections() }

// Requests returns the number of HTTP requests sent so far; retries and
// followed redirects count.
func (c *Client) Requests() int64 { return c.wire.sent.Load() }

// Lexical reports whether the server runs on another machine, so that the
// paths it names mean nothing here.
func (c *Client) Lexical() bool { return !c.loopback }

// get sends one GET. The answer's body is open whatever its status, and the
// caller closes it. route stands for path in errors.
func (c *Client) get(ctx context.Context, route, path string, query url.Values) (*http.Response, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	resp, err := c.http.R().SetContext(ctx).Get(target)
	if err == nil {
		return resp.RawResponse, nil
	}
	if resp != nil && resp.RawResponse != nil && resp.RawResponse.Body != nil {
		_ = resp.RawResponse.Body.Close() // a refused redirect leaves its answer behind
	}
	return nil, c.failed(ctx, route, err)
}

// failed turns an error of an exchange, or of reading its body, into one that
// may be shown. The text of the original never is: net/http quotes what the
// server sent in some of them.
func (c *Client) failed(ctx context.Context, route string, err error) error {
	where := fmt.Sprintf("upstream %q: GET %s", c.cfg.Name, route)
	if ctx.Err() != nil {
		return fault.Wrap(ctx.Err(), fault.Cancelled, "", "%s was stopped", where).Again()
	}
	var refused *redirectError
	var cert *tls.CertificateVerificationError
	hint := fmt.Sprintf("is `opencode serve` running at %s?", c.base)
	switch {
	case errors.As(err, &refused):
		return fault.New(fault.Upstream, where+" was redirected "+refused.why+"; it was not followed",
			"name the server's own address as the upstream's URL")
	case errors.Is(err, errDeadline):
		return fault.New(fault.Unreachable, fmt.Sprintf("%s: no complete answer within %s", where, c.cfg.RequestTimeout), hint).Again()
	case errors.As(err, &cert):
		return fault.New(fault.Unreachable, where+": the server's certificate is not trusted", "name the host as its certificate does, and trust its issuer")
	}
	return fault.Wrap(plainCause(err), fault.Unreachable, hint, "%s", where).Again()
}

// status is the error for an answer whose status is not the one hoped for.
func (c *Client) status(route string, resp *http.Response) error {
	text := fmt.Sprintf("upstream %q: GET %s answered %d", c.cfg.Name, route, resp.StatusCode)
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized && c.cfg.Password == "":
		return fault.New(fault.Unauthorized, text+": the server wants a password", "set the upstream's password_env or password_file")
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fault.New(fault.Unauthorized, text+": the server refused the password", "check the upstream's username and password")
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return fault.New(fault.Upstream, text, "the server's own log says why").Again()
	case success(code):
		return fault.New(fault.Upstream, fmt.Sprintf("%s with %s, not with JSON", text, contentType(resp)),
			"the server does not have this route, or something stands in front of it")
	}
	return fault.New(fault.Upstream, text, "")
}

func success(code int) bool { return code >= 200 && code < 300 }

// malformed is the error for an answer that cannot be used.
func (c *Client) malformed(route, what string) error {
	return fault.New(fault.Upstream, fmt.Sprintf("upstream %q: GET %s: malformed page: %s", c.cfg.Name, route, what), "").Again()
}
