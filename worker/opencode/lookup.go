package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"annals/internal/fault"
	"annals/internal/index"
)

// Lookup reads one session's own record. Only a 404 in JSON says that the
// session is gone (fault.NotFound). Every other failure leaves that open and
// has one of the other codes.
func (c *Client) Lookup(ctx context.Context, caps Capabilities, id string) (index.Record, error) {
	if id == "" || len(id) > maxID || !plain(id) || id == "." || id == ".." {
		return index.Record{}, fault.New(fault.Usage, "this is not a session id", "")
	}
	prefix, v1 := string(Envelope), caps.Bare || caps.Plain
	if v1 {
		prefix = string(Plain)
	}
	route := prefix + "/{id}"
	resp, err := c.get(ctx, route, prefix+"/"+url.PathEscape(id), nil)
	if err != nil {
		return index.Record{}, err
	}
	defer drained(resp.Body)
	gone := resp.StatusCode == http.StatusNotFound && isJSON(resp)
	if !gone && (!success(resp.StatusCode) || resp.StatusCode == http.StatusNoContent || !isJSON(resp)) {
		return index.Record{}, c.status(route, resp)
	}
	p := newPage(resp.Body, c.cfg.MaxRow, c.cfg.MaxBody)
	if v1 {
		p.rows.none = index.NoMetadata()
	}
	if gone {
		if err := p.explain(p.whole()); err != nil {
			return index.Record{}, c.pageFailed(ctx, route, p, err)
		}
		return index.Record{}, fault.New(fault.NotFound, fmt.Sprintf("upstream %q has no session %s", c.cfg.Name, id), "")
	}
	rec, err := p.single()
	if err != nil {
		return index.Record{}, c.pageFailed(ctx, route, p, err)
	}
	if rec.ID != id {
		return index.Record{}, c.malformed(route, "the record of another session")
	}
	return rec, nil
}

// Project is a project that a server knows.
type Project struct {
	ID        string
	Worktree  string
	Sandboxes []string // further worktrees of the same repository
}

// Projects lists the projects that the server knows. fault.NotFound says that
// it has no such route. A project that cannot be read makes the whole answer
// unusable: leaving it out would leave out its sessions.
func (c *Client) Projects(ctx context.Context) ([]Project, error) {
	const route = "/project"
	resp, err := c.get(ctx, route, route, nil)
	if err != nil {
		return nil, err
	}
	defer drained(resp.Body)
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed, code == http.StatusNotImplemented,
		success(code) && (code == http.StatusNoContent || !isJSON(resp)):
		return nil, fault.New(fault.NotFound, fmt.Sprintf("upstream %q does not list projects", c.cfg.Name), "")
	case !success(code):
		return nil, c.status(route, resp)
	}
	p := newPage(resp.Body, c.cfg.MaxRow, c.cfg.MaxBody)
	list, err := p.projects()
	if err != nil {
		return nil, c.pageFailed(ctx, route, p, err)
	}
	return list, nil
}

// projects reads an array of projects.
func (p *page) projects() ([]Project, error) {
	p.allow()
	if p.dec.PeekKind() != '[' {
		err := p.whole()
		if err == nil {
			err = &pageError{"not an array"}
		}
		return nil, p.explain(err)
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return nil, p.explain(err)
	}
	list := []Project{}
	for p.allow(); p.dec.PeekKind() != ']'; p.allow() {
		v, err := p.dec.ReadValue()
		if err != nil {
			return nil, p.explain(err)
		}
		var row struct {
			ID        string   `json:"id"`
			Worktree  string   `json:"worktree"`
			Sandboxes []string `json:"sandboxes"`
		}
		if v.Kind() != '{' || json.Unmarshal(v, &row) != nil {
			return nil, &pageError{fmt.Sprintf("project %d cannot be read", len(list)+1)}
		}
		list = append(list, Project(row))
	}
	_, err := p.dec.ReadToken()
	if err == nil {
		err = p.end()
	}
	return list, p.explain(err)
}

// whole reads one value of any shape to its end.
func (p *page) whole() error {
	if err := p.skipValue(); err != nil {
		return err
	}
	return p.end()
}

// single reads one record, bare or as the member "data" of an object that is
// none itself.
func (p *page) single() (index.Record, error) {
	p.allow()
	raw, err := p.dec.ReadValue()
	if err != nil {
		return index.Record{}, p.explain(err)
	}
	object := raw.Clone()
	if err := p.end(); err != nil {
		return index.Record{}, p.explain(err)
	}
	if object.Kind() == '{' && memberOf(object, "id") == nil {
		object = memberOf(object, "data")
	}
	if object.Kind() != '{' {
		return index.Record{}, &pageError{"not a session"}
	}
	inner := newPage(bytes.NewReader(object), p.maxRow, p.maxRow)
	inner.rows.none = p.rows.none
	var rec index.Record
	inner.yield = func(r *index.Record) error { rec = *r; return nil }
	inner.allow()
	if err := inner.row(inner.dec.PeekKind()); err != nil {
		return index.Record{}, inner.explain(err)
	}
	if len(inner.sum.Skipped) > 0 {
		return index.Record{}, &pageError{inner.sum.Skipped[0].Reason}
	}
	return rec, nil
}
