package store

import (
	"context"
	"fmt"
	"strings"

	"annals/internal/fault"
)

// rule is a rule that holds between our tables: what breaks it is counted by
// its query.
type rule struct{ what, query string }

func rules() []rule {
	return []rule{
		{"sessions have a revision that the feed has not reached", `SELECT COUNT(*) FROM sessions WHERE revision > (SELECT revision FROM feed)`},
		{"metadata documents have a revision that the feed has not reached", `SELECT COUNT(*) FROM session_metadata WHERE revision > (SELECT revision FROM feed)`},
		{"sessions have no canonical directory", `SELECT COUNT(*) FROM sessions s WHERE NOT EXISTS
		(SELECT 1 FROM directories d WHERE d.upstream = s.upstream AND d.given = s.directory)`},
		{"leases are held by runs that are not open", `SELECT COUNT(*) FROM leases l WHERE l.run <> '' AND NOT EXISTS
		(SELECT 1 FROM runs r WHERE r.id = l.run AND r.outcome = '')`},
		{"targets are open in runs that are closed", `SELECT COUNT(*) FROM run_targets t WHERE t.outcome = '' AND EXISTS
		(SELECT 1 FROM runs r WHERE r.id = t.run AND r.outcome <> '')`},
		{"stores have no feed", `SELECT 1 - COUNT(*) FROM feed`},
	}
}

// Check looks for damage, in the database and between our tables. It returns
// nil when the store is sound, and otherwise an error with code fault.Store
// that names every fault it found. The error holds no session text.
func (s *Store) Check(ctx context.Context) error {
	found, err := s.d.Check(ctx, s.read)
	if err != nil {
		return s.explain(ctx, err)
	}
	for _, rule := range rules() {
		var n int64
		if err := s.read.QueryRowContext(ctx, rule.query).Scan(&n); err != nil {
			return s.explain(ctx, err)
		}
		if n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, rule.what))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fault.New(fault.Store, "the store is not sound: "+strings.Join(found, "; "),
		"keep a copy of it and report this; the index itself comes back when the store is moved away and `annals sync` runs, pins and the runs' history do not")
}
