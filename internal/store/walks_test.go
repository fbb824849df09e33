package store

import (
	"bytes"
	"slices"
	"testing"
)

func FuzzAPackedListIsReadAsItWasWritten(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 'a', 0, 2, 'b', 0})
	f.Add([]byte{5, 'a'})
	f.Add(bytes.Repeat([]byte{0xff}, 12))
	f.Fuzz(func(t *testing.T, packed []byte) {
		ids, err := unpackIDs(packed)
		if err != nil {
			return
		}
		again, err := unpackIDs(packIDs(ids))
		if err != nil || !slices.Equal(again, ids) {
			t.Fatalf("%q became %q, %v", ids, again, err)
		}
	})
}

func TestADamagedListOfIDsIsRefused(t *testing.T) {
	good := packIDs([]string{"abc", ""})
	for cut := 1; cut < 4; cut++ {
		if ids, err := unpackIDs(good[:cut]); err == nil {
			t.Errorf("%d of %d bytes gave %q", cut, len(good), ids)
		}
	}
}
