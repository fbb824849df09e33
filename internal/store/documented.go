package store

import (
	"context"
	"database/sql"

	"annals/internal/index"
)

// Documented returns the ids of an upstream's sessions whose committed
// metadata is not empty, in order.
func (s *Store) Documented(ctx context.Context, upstream string) ([]string, error) {
	var ids []string
	err := s.readOne(ctx, func(rows *sql.Rows) error {
		var id string
		var doc sql.RawBytes
		if err := rows.Scan(&id, &doc); err != nil {
			return err
		}
		if !index.SameDocument(index.NoMetadata(), []byte(doc)) {
			ids = append(ids, id)
		}
		return nil
	}, `SELECT id, document FROM session_metadata WHERE upstream = $1 ORDER BY id`, upstream)
	return ids, err
}
