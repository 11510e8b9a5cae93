// Package cli is the command line client as a function: [Run] takes arguments and streams and
// returns the exit code, so that tests and other programs can call it.
//
// Exit codes: 0 success, 1 failure, 2 wrong usage. Results go to stdout, everything else to stderr.
// With --json, results are JSON.
//
// Connections:
//
//   - Temporal by the standard TEMPORAL_* environment and profiles, default
//     localhost:7233, namespace default; flags override.
//   - The API by --api or THREADMILL_API, default http://127.0.0.1:8080; its key by
//     --api-key-file, THREADMILL_API_KEY or the profile, never by an argument.
//
// Ctrl-C ends a command; in a chat it first interrupts the turn.
package cli
