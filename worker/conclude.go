package worker

import (
	"context"
	"fmt"
	"strings"

	"annals/internal/fault"
)

// isHeld reports whether an error holds the run.
func isHeld(err error) bool {
	switch fault.CodeOf(err) {
	case EmptyList, OtherStore, MassChange:
		return true
	}
	return false
}

// fatal reports whether an error ends the whole upstream's run, whatever list
// or directory it came from.
func fatal(ctx context.Context, err error) bool {
	switch fault.CodeOf(err) {
	case fault.Store, fault.Busy, fault.Fenced:
		return true
	}
	return ctx.Err() != nil || isHeld(err)
}

func (p *pass) acceptHint() string {
	cmd := "annals sync --upstream " + p.up.Name
	for _, dir := range p.req.Directories {
		cmd += " --directory " + quote(dir)
	}
	return "if that is right, accept it with: " + cmd + " --accept-mass-change"
}

// quote writes a path so that a shell takes it as one word.
func quote(s string) string {
	const harmless = "/.-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if s != "" && strings.Trim(s, harmless) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// conclude proves the run and, only when it is complete, says which sessions
// are gone. Gone is never deleted: the rows turn missing, and come back when
// they are seen again.
func (p *pass) conclude(ctx context.Context) error {
	if len(p.rep.FailedDirectories) > 0 && !p.cut() {
		p.incomplete = fault.New(SomeFailed, fmt.Sprintf("%d of the directories could not be read; their sessions are as they were", len(p.rep.FailedDirectories)), "").Again()
	}
	if err := p.prove(ctx); err != nil {
		return err
	}
	if p.cut() {
		return nil
	}
	gone := map[string]struct{}{}
	for id := range p.present {
		if _, ok := p.in.seen[id]; !ok {
			gone[id] = struct{}{}
		}
	}
	if p.anonymous > 0 && len(gone) > 0 {
		// One of the rows without an id may be one of the gone.
		p.incomplete = fault.New(SkippedRows, fmt.Sprintf("%d rows do not even tell their session; nothing is marked missing", p.anonymous), "see the skipped rows in `annals runs show`")
		return nil
	}
	if err := p.brake(ctx, len(gone)); err != nil {
		p.rep.Complete = isHeld(err)
		return err
	}
	for _, id := range p.in.vanished { // came and went while the lists were read
		gone[id] = struct{}{}
	}
	if err := p.markMissing(ctx, sortedKeys(gone)); err != nil {
		return err
	}
	if p.cut() {
		return nil
	}
	p.rep.Complete = true
	if n := len(p.rep.Skipped); n > 0 {
		p.incomplete = fault.New(SkippedRows, fmt.Sprintf("%d sessions could not be read and are named as skipped", n), "see the skipped rows in `annals runs show`")
	}
	return nil
}

// brake holds a run that would mark too much as missing.
func (p *pass) brake(ctx context.Context, gone int) error {
	if gone == 0 || p.req.AcceptMassChange {
		return nil
	}
	same := p.in.overlap
	if !p.whole() { // a directory may well have lost all it had
		var err error
		if same, err = p.sameStore(ctx); err != nil {
			return err
		}
	}
	present, cfg := len(p.present), &p.w.cfg
	var held *fault.Error
	switch {
	case len(p.in.seen) == 0 && !same:
		held = fault.New(EmptyList, fmt.Sprintf("%q answers with no sessions, and %d are known; nothing was marked missing", p.up.Name, present), p.acceptHint())
	case !same:
		held = fault.New(OtherStore, fmt.Sprintf("%q has none of the %d known sessions; nothing was marked missing", p.up.Name, present), p.acceptHint())
	case gone*100 > present*cfg.MaxMissing && gone >= cfg.MaxMissingRows:
		held = fault.New(MassChange, fmt.Sprintf("%d of %d known sessions of %q are gone, more than max_missing allows (%d %% and at least %d); nothing was marked missing",
			gone, present, p.up.Name, cfg.MaxMissing, cfg.MaxMissingRows), p.acceptHint())
	default:
		return nil
	}
	p.rep.Held = gone
	return held
}

// markMissing marks sessions that a complete run did not see. Where the run
// has no second list to lean on, or looked at some directories only, each is
// looked up first: it may have moved.
func (p *pass) markMissing(ctx context.Context, gone []string) error {
	if len(gone) == 0 {
		return nil
	}
	if !p.twice || !p.whole() {
		var err error
		if gone, err = p.confirmGone(ctx, gone); err != nil || p.cut() {
			return err
		}
	}
	if p.req.DryRun {
		p.rep.Missing = len(gone)
		return nil
	}
	n, err := p.w.cfg.Store.MarkMissing(context.WithoutCancel(ctx), p.fence, p.up.Name, gone, p.w.now())
	p.rep.Missing = n
	if n > 0 {
		p.w.cfg.Log.Info("sessions are gone at the upstream and marked missing", "upstream", p.up.Name, "count", n)
	}
	return err
}

// confirmGone keeps of the ids those that the upstream says it does not have.
// The others are taken as they are now.
func (p *pass) confirmGone(ctx context.Context, ids []string) ([]string, error) {
	var gone []string
	why, err := p.eachLookup(ctx, ids, func(id string) error {
		err := p.lookUp(ctx, id)
		if _, there := p.in.seen[id]; err == nil && !there {
			gone = append(gone, id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if why != nil {
		p.incomplete = fault.Wrap(why, Unexplained, "run it again", "sessions are in no list any more and could not be looked up").Again()
	}
	return gone, p.in.flush(ctx, nil)
}
