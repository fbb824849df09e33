package opencode

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"annals/internal/fault"
)

// Capabilities is what a server turned out to have.
type Capabilities struct {
	Version  string // "" when the server does not tell
	Envelope bool
	Bare     bool
	Plain    bool
}

// Probe asks for the version and for each list route once, with a limit of
// one row. A route is present when its answer is JSON and has the shape of a
// list; an unknown route is answered with a web page and status 200 by some
// servers. A refused password is fault.Unauthorized, no answer is
// fault.Unreachable, and a route that fails is fault.Upstream: it is not
// known to be absent.
func (c *Client) Probe(ctx context.Context) (Capabilities, error) {
	var caps Capabilities
	var err error
	if caps.Version, err = c.version(ctx); err != nil {
		return Capabilities{}, err
	}
	for _, route := range []struct {
		name Route
		has  *bool
	}{{Envelope, &caps.Envelope}, {Bare, &caps.Bare}, {Plain, &caps.Plain}} {
		if *route.has, err = c.present(ctx, route.name); err != nil {
			return Capabilities{}, err
		}
	}
	if !caps.Envelope && !caps.Bare && !caps.Plain {
		return Capabilities{}, fault.New(fault.Upstream,
			fmt.Sprintf("upstream %q: the server has no list of sessions that is known", c.cfg.Name),
			fmt.Sprintf("is an OpenCode server running at %s?", c.base))
	}
	return caps, nil
}

// version reads the version from the one route that tells it. A server that
// has no such route is none the worse.
func (c *Client) version(ctx context.Context) (string, error) {
	const route = "/global/health"
	resp, err := c.get(ctx, route, route, nil)
	if err != nil {
		return "", err
	}
	defer drained(resp.Body)
	if code := resp.StatusCode; code == http.StatusUnauthorized || code == http.StatusForbidden {
		return "", c.status(route, resp)
	}
	if !success(resp.StatusCode) || !isJSON(resp) {
		return "", nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return "", c.failed(ctx, route, err)
	}
	var health struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(body, &health) != nil || len(health.Version) > 64 ||
		strings.ContainsFunc(health.Version, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", nil
	}
	return health.Version, nil
}

// present asks one route for one row.
func (c *Client) present(ctx context.Context, route Route) (bool, error) {
	query := url.Values{"limit": {"1"}}
	if route == Bare {
		query.Set("archived", "true")
	}
	resp, err := c.get(ctx, string(route), string(route), query)
	if err != nil {
		return false, err
	}
	defer drained(resp.Body)
	switch code := resp.StatusCode; {
	case success(code):
	case code == http.StatusUnauthorized, code == http.StatusForbidden,
		code == http.StatusRequestTimeout, code == http.StatusTooManyRequests,
		code < 400, code >= 500 && code != http.StatusNotImplemented:
		return false, c.status(string(route), resp)
	default:
		return false, nil
	}
	if resp.StatusCode == http.StatusNoContent || resp.ContentLength == 0 || !isJSON(resp) {
		return false, nil
	}
	p := newPage(resp.Body, c.cfg.MaxRow, c.cfg.MaxBody)
	p.rows.stub = true
	got, err := p.read()
	if err != nil {
		return false, c.pageFailed(ctx, string(route), p, err)
	}
	return got != shapeOther, nil
}
