// Package archtest holds the rules of the house that a compiler does not
// check: which way imports point, which package owns which part, where the
// process is touched, how long a file may be. Each rule carries its reason,
// and prints it when it is broken.
//
// A rule reads the parsed source, not what one operating system compiles, so
// a file for macOS is held to the same rules as one for Linux. The tables
// that say who may do what are in layers.go and parts.go.
//
// Every rule is proven against small trees that break it. Those of the rules
// here lie under testdata: a line that says "want" must be found, and no other
// line may be.
package archtest
