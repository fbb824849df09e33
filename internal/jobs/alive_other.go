//go:build !unix

package jobs

// alive cannot tell here, so that an owner is waited for until its lease ends.
func alive(int) bool { return true }
