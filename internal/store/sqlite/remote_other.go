//go:build !linux && !darwin

package sqlite

// remote knows no network file systems here.
func remote(string) string { return "" }
