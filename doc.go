// Package annals is the root of a sync worker for people who work with coding
// agents: it keeps an index of their OpenCode sessions, with the archive
// state right, and never loses a row. The root holds no code; the program is
// cmd/annals.
//
// # The map, in the order in which data flows
//
//	cmd/annals                the binary: flags, environment, configuration, and which parts are put together
//	worker                    one run: own the job, read the lists, commit page by page, prove, conclude
//	worker/opencode           the OpenCode server's HTTP interface, and the server that Annals starts itself
//	internal/supervise        a process that ends with everything below it
//	internal/metadata         who decides whether a session is archived, and which are nobody's
//	internal/index            the session index: projection, merge, directories; pure
//	internal/jobs             who runs what: lease, epoch, lock file, ledger
//	internal/store            the database, one SQL text for every engine
//	internal/store/sqlite     the engine that is built in
//	internal/store/storetest  what every engine must do
//	internal/fault            the one shape of an error
//	internal/ownfile          files that only their owner may read
//	internal/archtest         the rules of the house, checked
//	fixtures                  for tests: a stand-in OpenCode, a corpus, a real OpenCode, the demo
//
// A step returns a value to the next one; no step calls back, and none logs
// an error and goes on. Where a change goes is in docs/ARCHITECTURE.md, why
// things are as they are in docs/RATIONALE.md.
package annals
