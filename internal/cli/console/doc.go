// Package console is a terminal with an input line that output does not disturb: what is complete
// stands above it for good, what is still being written stands between the two.
//
// Everything that a thread says goes through package term, and Markdown through package markdown, so
// that a terminal obeys none of it.
package console
