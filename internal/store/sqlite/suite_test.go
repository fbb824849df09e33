package sqlite

import (
	"path/filepath"
	"testing"

	"annals/internal/store/storetest"
)

func TestTheStorePassesTheSuite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Stores {
		path := filepath.Join(t.TempDir(), "annals.db")
		return storetest.Stores{Open: func(t *testing.T) storetest.Store {
			st, err := Open(t.Context(), Config{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}}
	})
}
