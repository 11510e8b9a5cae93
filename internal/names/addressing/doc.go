// Package addressing determines who answers a message: the mentions and directives in its text, and
// the agents of the thread that respond to it. Routing of new messages, visibility of old ones and the
// rewriting of replies all follow it. It is plain Go: no I/O, no clock.
package addressing
