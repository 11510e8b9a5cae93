// Package threadclient is a typed client for threads, over a Temporal client. It
// does what any Temporal client can do with the contract of package signals, and
// spells it out: which errors there are, how a turn is awaited across
// continue-as-new, which search attributes a Temporal namespace needs.
package threadclient
