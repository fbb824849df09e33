package fault

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestTheOutermostCodeCountsAndTheWholeTextIsKept(t *testing.T) {
	inner := Wrap(io.ErrUnexpectedEOF, Upstream, "inner hint", "a page").Again()
	outer := fmt.Errorf("while reading: %w", inner)
	if !Is(outer, Upstream) || Is(outer, Store) || !errors.Is(outer, io.ErrUnexpectedEOF) {
		t.Errorf("code %q", CodeOf(outer))
	}
	got := From(outer)
	if got.Message != "while reading: a page: unexpected EOF" || got.Hint != "inner hint" || !got.Retryable {
		t.Errorf("%+v", got)
	}
	if again := Wrap(inner, Unauthorized, "", "outer"); CodeOf(again) != Unauthorized {
		t.Errorf("code %q", CodeOf(again))
	}
}

func TestAnErrorWithoutACodeIsInternal(t *testing.T) {
	if got := From(io.EOF); got.Code != Internal || got.Message != "EOF" {
		t.Errorf("%+v", got)
	}
	if From(nil) != nil || CodeOf(nil) != "" || Is(nil, "") {
		t.Error("nil has a code")
	}
}
