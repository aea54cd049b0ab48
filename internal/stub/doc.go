// Package stub is a scoring service for trying things out: an HTTP server that
// takes a record and answers with a score, and that can be made slow, failing,
// busy or dead while it runs.
//
// # Model
//
// [Settings] say how the service behaves, and [Plan] says what one call gets
// under them: how long it waits and what comes back. Plan is a pure function
// of the settings, the key, how often that key was called before, and the time
// since the settings were made; two runs with one seed therefore treat the
// same calls alike. What was planned when a call arrived stays, also when the
// settings change while it waits: the answers of a slow service that recovers
// are late ones.
//
// [Server] is the shell: it waits, writes, and counts.
//
//	POST   /score     a record; 200 with {"key", "score", "severity"}
//	GET    /control   the settings; PUT replaces them, POST changes some
//	GET    /counts    calls a key; ?key=K one key, ?min=2 the repeated ones;
//	                  DELETE forgets them
//	GET    /stats     calls in flight and outcomes
//	GET    /livez     200
//
// A call that goes away before its answer is counted as cut. A score depends
// on the record's bytes alone.
package stub
