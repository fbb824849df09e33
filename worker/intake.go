package worker

import (
	"context"

	"annals/internal/index"
)

// intake turns rows, in whatever order and however often they come, into
// commits of at most a page. It keeps what a run must remember of each
// session: that it was seen, how new the copy was, and whether it has been
// written.
type intake struct {
	store     index.Store
	fence     index.Fence
	upstream  string
	namespace string
	dryRun    bool
	full      bool  // commit every row, also those whose digest is known
	size      int   // rows a commit
	base      int64 // feed revision when the rows of the batch were asked for

	known    map[string]index.Known
	seen     map[string]sighting
	vanished []string            // written by this run, then disproved
	silent   map[string]struct{} // rows without a word on metadata, where that may mean none; nil elsewhere
	overlap  bool                // a row that the index knows has come
	dirs     map[string]string
	resolver *index.Resolver

	batch   []index.Record
	inBatch map[string]struct{}
	newDirs []index.Directory
	rep     *UpstreamReport

	// vet is asked before the first row is written; its error stops the run
	// with nothing written.
	vet    func(context.Context) error
	vetted bool
}

// sighting is what a run remembers of a session it has seen.
type sighting struct {
	updated int64 // of the newest copy
	state   sightingState
}

type sightingState int8

const (
	met       sightingState = iota // it is there, but its row was not read
	unchanged                      // read, counted as unchanged
	written                        // read, and committed in a page
)

// take accepts one row. An older or equal copy of a row that came before is
// dropped: page sets are not atomic, and the newest copy wins.
func (in *intake) take(ctx context.Context, rec *index.Record) error {
	before, again := in.seen[rec.ID]
	again = again && before.state != met
	if again && rec.Updated <= before.updated {
		return nil
	}
	in.seen[rec.ID] = sighting{rec.Updated, before.state}
	if in.silent != nil {
		delete(in.silent, rec.ID)
		if rec.Metadata == nil {
			in.silent[rec.ID] = struct{}{}
		}
	}
	k, known := in.known[rec.ID]
	if known {
		// A row that this run added is known too by now, and says nothing.
		in.overlap = in.overlap || !again && !k.Missing
		if !k.Missing && !in.full && k.Digest == index.DigestOf(rec, in.namespace) {
			if !again {
				in.rep.Unchanged++
				in.seen[rec.ID] = sighting{rec.Updated, unchanged}
			}
			return nil
		}
	}
	if _, waiting := in.inBatch[rec.ID]; again && !waiting {
		return in.rewrite(ctx, rec)
	}
	in.add(rec)
	if len(in.batch) >= in.size {
		return in.flush(ctx, nil)
	}
	return nil
}

func (in *intake) add(rec *index.Record) {
	if _, ok := in.dirs[rec.Directory]; !ok {
		canonical, _ := in.resolver.Resolve(rec.Directory)
		in.dirs[rec.Directory] = canonical
		in.newDirs = append(in.newDirs, index.Directory{Given: rec.Directory, Canonical: canonical})
	}
	in.batch = append(in.batch, *rec)
	in.inBatch[rec.ID] = struct{}{}
}

// rewrite commits a newer copy of a row that this run has counted already, and
// corrects the count.
func (in *intake) rewrite(ctx context.Context, rec *index.Record) error {
	if err := in.flush(ctx, nil); err != nil {
		return err
	}
	in.add(rec)
	before, counted := *in.rep, in.seen[rec.ID].state
	if err := in.flush(ctx, nil); err != nil {
		return err
	}
	if counted == written {
		in.rep.Added, in.rep.Updated, in.rep.Unchanged = before.Added, before.Updated, before.Unchanged
	} else {
		in.rep.Unchanged--
	}
	return nil
}

// flush commits the rows taken so far together with cp; without rows and
// without cp it does nothing. The commit is not cut short by a cancelled
// context: a page that has been read is kept.
func (in *intake) flush(ctx context.Context, cp *index.Checkpoint) error {
	if len(in.batch) == 0 && (cp == nil || in.dryRun) {
		return nil
	}
	if !in.vetted && len(in.batch) > 0 {
		if err := in.vet(ctx); err != nil {
			return err
		}
		in.vetted = true
	}
	res, err := in.store.Commit(context.WithoutCancel(ctx), in.fence, index.Commit{
		Upstream: in.upstream, Namespace: in.namespace, Base: in.base,
		Records: in.batch, Directories: in.newDirs, Checkpoint: cp, DryRun: in.dryRun,
	})
	if err != nil {
		return err
	}
	in.rep.count(res)
	for i := range in.batch {
		rec := &in.batch[i]
		in.seen[rec.ID] = sighting{in.seen[rec.ID].updated, written}
		in.known[rec.ID] = index.Known{Digest: index.DigestOf(rec, in.namespace)}
	}
	clear(in.batch) // lets the strings of a page go
	clear(in.inBatch)
	in.batch, in.newDirs = in.batch[:0], nil
	return nil
}

// rebase notes the feed's revision before rows are asked for: what is committed
// after it, by others, is newer than these rows. Rows that still wait for their
// commit keep the revision they were asked at.
func (in *intake) rebase(ctx context.Context) error {
	if len(in.batch) > 0 {
		return nil
	}
	point, err := in.store.Point(ctx)
	in.base = point.Revision
	return err
}

// meet notes that a session is there although its row could not be read: it
// cannot turn missing.
func (in *intake) meet(id string) {
	if _, ok := in.seen[id]; !ok {
		in.seen[id] = sighting{}
	}
}

// forget takes back that a session was seen: a lookup has disproved it.
func (in *intake) forget(id string) {
	switch in.seen[id].state {
	case written:
		in.vanished = append(in.vanished, id)
	case unchanged:
		in.rep.Unchanged--
	case met:
	}
	delete(in.seen, id)
}
