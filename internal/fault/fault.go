// Package fault holds the one error shape that every layer of Annals returns
// when a person or a program has to act on it. The command line and the HTTP
// API print the same object.
package fault

import (
	"errors"
	"fmt"
)

// Codes that more than one package returns. A code is stable: scripts match
// on it, messages may be reworded.
const (
	Usage        = "usage"          // the call itself is wrong; exit status 2
	Config       = "config"         // a configuration value is wrong; exit status 2
	Unauthorized = "unauthorized"   // the upstream refused the password (401)
	Unreachable  = "unreachable"    // no answer, refused, timed out
	Upstream     = "upstream_error" // the upstream answered, and the answer is unusable
	NotFound     = "not_found"      // the named thing does not exist
	Busy         = "busy"           // somebody else holds what is needed
	Fenced       = "fenced"         // our lease was taken over while we worked
	Store        = "store"          // the store failed or refuses
	Cancelled    = "cancelled"      // the caller asked to stop
	NoStore      = "no_store"       // the agent has no history on this machine
)

// Error is a failure that says what to do about it. Message and Hint never
// hold session text, passwords or tokens.
type Error struct {
	Code      string // one of the codes above, or one a package documents
	Message   string // what happened, one line
	Hint      string // what to do about it; may be empty
	Retryable bool   // the same call may succeed later, unchanged
	Err       error  // the cause, for errors.Is; may be nil
}

// Error returns the message, followed by that of the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an Error without a cause.
func New(code, message, hint string) *Error {
	return &Error{Code: code, Message: message, Hint: hint}
}

// Wrap returns an Error with a cause and a formatted message.
func Wrap(err error, code, hint, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint, Err: err}
}

// Again marks the error as one that may pass by itself, and returns it.
func (e *Error) Again() *Error {
	e.Retryable = true
	return e
}

// CodeOf returns the code of the outermost Error in err's chain, or "" when
// there is none.
func CodeOf(err error) string {
	var f *Error
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

// Is reports whether err's chain holds an Error with this code at its top.
func Is(err error, code string) bool { return code != "" && CodeOf(err) == code }

// Internal is the code of an error that no layer gave a code to.
const Internal = "internal"

// From returns the outermost Error in err's chain with err's whole text as
// its message, or err under the code Internal. It returns nil for nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var f *Error
	if errors.As(err, &f) {
		return &Error{Code: f.Code, Message: err.Error(), Hint: f.Hint, Retryable: f.Retryable}
	}
	return &Error{Code: Internal, Message: err.Error()}
}
