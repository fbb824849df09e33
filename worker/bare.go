package worker

import (
	"context"
	"fmt"

	"annals/internal/fault"
	"annals/internal/index"
	"annals/worker/opencode"
)

// tail watches the end of a page: how many of its last rows share one time.
type tail struct {
	updated int64
	tied    int
}

func (t *tail) row(updated int64) {
	if t.tied > 0 && updated == t.updated {
		t.tied++
		return
	}
	t.updated, t.tied = updated, 1
}

// walkTies walks the bare list so that no row escapes it. The list's token is
// the time of the last row of a page, and the next page starts strictly below
// it: rows that share that time and did not fit are lost (measured on 1.18.33:
// 233 of 2,000, where 250 share a time and a page holds 100). So the walk never
// follows the token of a page that ends inside a group of equal times. It asks
// for the page again, cut just before the group, and follows that token: the
// next page then holds the group whole. A group larger than a page makes the
// page larger.
func (p *pass) walkTies(ctx context.Context, dir string) error {
	req := opencode.Request{Route: opencode.Bare, Directory: dir, Limit: p.w.cfg.PageSize}
	sent := tokens{}
	for first := p.rep.Pages; ; {
		var end tail
		sum, err := p.ask(ctx, req, p.feedWatched(ctx, &end))
		if err != nil {
			return err
		}
		p.rep.Pages++
		next, err := p.borderToken(ctx, req, sum, end)
		if err != nil {
			return err
		}
		if err := p.endPage(ctx, req, next); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		if err := sent.follow(next, req.Route, p.rep.Pages); err != nil {
			return err
		}
		req.Cursor = next
		if p.overBudget(p.rep.Pages - first) {
			return nil // a walk by time cannot be taken up later: rows move in it
		}
	}
}

// feedWatched is the sink that feeds the index, with an eye on how the page
// ends.
func (p *pass) feedWatched(ctx context.Context, end *tail) sink {
	s := p.feed(ctx)
	take := s.take
	s.take = func(r *index.Record) error {
		end.row(r.Updated)
		return take(r)
	}
	return s
}

// borderToken returns the token behind the last whole group of a page, or ""
// when the list has ended.
func (p *pass) borderToken(ctx context.Context, req opencode.Request, sum opencode.Summary, end tail) (string, error) {
	for sum.Next != "" && sum.Rows > 0 && end.tied+len(sum.Skipped) >= sum.Rows {
		// The page is one group: only a larger page can show where it ends.
		before := sum.Rows
		req.Limit *= 2
		end = tail{}
		var err error
		if sum, err = p.ask(ctx, req, p.feedWatched(ctx, &end)); err != nil {
			return "", err
		}
		if sum.Next != "" && sum.Rows <= before {
			p.incomplete = fault.New(FullPage, fmt.Sprintf("more than %d sessions share one time, and %s gives no more in a page", before, req.Route),
				"update the server: newer ones have a list without this fault")
			return sum.Next, nil
		}
	}
	if sum.Next == "" || sum.Rows == 0 {
		return sum.Next, nil
	}
	// Rows that could not be read may belong to the last group: the cut goes
	// before as many rows more. Cut too early, the token only shows rows again
	// that came already.
	req.Limit = sum.Rows - end.tied - len(sum.Skipped)
	cut, err := p.ask(ctx, req, sink{list: p.server.Stubs, take: func(*index.Record) error { return nil }})
	if err != nil {
		return "", err
	}
	if cut.Next == "" { // the list changed meanwhile and ends here now
		return sum.Next, nil
	}
	return cut.Next, nil
}

// plain reads the list that has no pages: whole, once a project, or once for
// a directory that was asked for.
func (p *pass) plain(ctx context.Context, dir string) error {
	if dir != "" {
		return p.plainList(ctx, opencode.Request{Route: opencode.Plain, Directory: dir, Limit: listingLimit})
	}
	projects, err := p.server.Projects(ctx)
	if fault.Is(err, fault.NotFound) {
		return p.plainList(ctx, opencode.Request{Route: opencode.Plain, Limit: listingLimit})
	}
	if err != nil {
		return err
	}
	done := map[string]bool{}
	failed := 0
	for _, pr := range projects {
		if done[pr.Worktree] || pr.Worktree == "" {
			continue
		}
		done[pr.Worktree] = true
		err = p.plainList(ctx, opencode.Request{Route: opencode.Plain, Directory: pr.Worktree, Limit: listingLimit, WholeProject: true})
		switch {
		case err == nil:
		case fatal(ctx, err):
			return err
		default:
			failed++
			p.rep.FailedDirectories = append(p.rep.FailedDirectories, pr.Worktree)
		}
	}
	if failed > 0 && failed == len(done) {
		return err
	}
	return nil
}

func (p *pass) plainList(ctx context.Context, req opencode.Request) error {
	sent := tokens{}
	for first := p.rep.Pages; ; {
		sum, err := p.ask(ctx, req, p.feed(ctx))
		if err != nil {
			return err
		}
		p.rep.Pages++
		if err := p.endPage(ctx, req, sum.Next); err != nil {
			return err
		}
		if sum.Next == "" {
			if sum.Rows >= req.Limit {
				p.incomplete = fault.New(FullPage, fmt.Sprintf("%s answered with a full page and no token", req.Route), "")
			}
			return nil
		}
		if err := sent.follow(sum.Next, req.Route, p.rep.Pages); err != nil {
			return err
		}
		if p.overBudget(p.rep.Pages - first) {
			return nil
		}
		req.Cursor = sum.Next
	}
}
