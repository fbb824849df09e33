package opencode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"annals/internal/fault"
	"annals/internal/index"
)

// Request is one list request.
type Request struct {
	Route     Route
	Directory string // "" for all; on Envelope it goes with the first page only, the cursor carries it on
	Limit     int    // rows, above 0
	Cursor    string // the token of an earlier Summary, as it came; "" for the first page
	// WholeProject makes Plain list the whole project of the directory, and not
	// the sessions of exactly this directory.
	WholeProject bool
}

// Skip is a row that was left out. It never holds session text.
type Skip struct {
	ID     string // "" when the row does not tell a usable one
	Reason string // names the field, and the row's position when ID is empty
}

// Summary is what a list answer held besides its rows.
type Summary struct {
	Rows        int // rows in the answer, skipped ones included
	Skipped     []Skip
	Next        string // token of the next page, "" at the end
	HasMetadata bool   // a row carried a metadata object; Stubs does not look
}

// List sends one list request and hands each usable row to yield, in the order
// of the answer and while it arrives; it holds one row at a time. An error of
// yield ends the call and is returned as it is.
//
// The shape, a bare array or {data, cursor}, is taken from the answer. Of a
// bare array the token is the x-next-cursor header. The record passed to yield
// is used again; its strings and its metadata stay valid.
//
// Errors have the codes fault.Unauthorized, fault.Unreachable,
// fault.Cancelled, and fault.Upstream for every answer that is not a complete
// page; rows yielded before such an error are real, but not all.
func (c *Client) List(ctx context.Context, r Request, yield func(*index.Record) error) (Summary, error) {
	return c.list(ctx, r, false, yield)
}

// Stubs is List for callers that need the id and the time of the last update
// only: nothing else of the record is set, and a row is skipped only when
// these two cannot be read. It is faster.
func (c *Client) Stubs(ctx context.Context, r Request, yield func(*index.Record) error) (Summary, error) {
	return c.list(ctx, r, true, yield)
}

func (c *Client) list(ctx context.Context, r Request, stub bool, yield func(*index.Record) error) (Summary, error) {
	query, err := r.query()
	if err != nil {
		return Summary{}, err
	}
	resp, err := c.get(ctx, string(r.Route), string(r.Route), query)
	if err != nil {
		return Summary{}, err
	}
	defer drained(resp.Body)
	if !success(resp.StatusCode) || resp.StatusCode == http.StatusNoContent || !isJSON(resp) {
		return Summary{}, c.status(string(r.Route), resp)
	}
	p := newPage(resp.Body, c.cfg.MaxRow, c.cfg.MaxBody)
	p.rows.stub, p.yield = stub, yield
	if r.Route != Envelope && !stub {
		p.rows.none = index.NoMetadata()
	}
	got, err := p.read()
	if err != nil {
		return p.sum, c.pageFailed(ctx, string(r.Route), p, err)
	}
	switch got {
	case shapeArray:
		p.sum.Next = strings.TrimSpace(resp.Header.Get("x-next-cursor"))
		if len(p.sum.Next) > maxToken {
			return p.sum, c.malformed(string(r.Route), fmt.Sprintf("a page token longer than %d bytes", maxToken))
		}
	case shapeOther:
		return p.sum, c.malformed(string(r.Route), "neither an array nor an object with an array \"data\"")
	}
	return p.sum, nil
}

// query returns the parameters of a request. Only those are sent that the
// route is known to have: others would be ignored in silence.
func (r *Request) query() (url.Values, error) {
	if r.Route == None || r.Limit <= 0 {
		return nil, fault.New(fault.Usage, "a list request needs a route and a limit above 0", "")
	}
	q := url.Values{"limit": {strconv.Itoa(r.Limit)}}
	if r.Cursor != "" {
		q.Set("cursor", r.Cursor)
	}
	if r.Directory != "" && (r.Route != Envelope || r.Cursor == "") {
		q.Set("directory", r.Directory)
	}
	switch {
	case r.Route == Bare:
		q.Set("archived", "true") // both kinds; without it archived rows are left out
	case r.Route == Plain && r.WholeProject:
		q.Set("scope", "project")
	}
	return q, nil
}

// pageFailed turns an error of reading a page into one that may be shown.
func (c *Client) pageFailed(ctx context.Context, route string, p *page, err error) error {
	var caller *yieldError
	var bad *pageError
	switch {
	case errors.As(err, &caller):
		return caller.err
	case ctx.Err() != nil, errors.Is(err, errDeadline):
		return c.failed(ctx, route, err)
	case errors.As(err, &bad):
		return c.malformed(route, bad.what)
	}
	return c.malformed(route, fmt.Sprintf("cut short or damaged after %d bytes", p.in.raw))
}

// drained reads what is left of a short body, so that its connection can be
// used again.
func drained(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close()
}
