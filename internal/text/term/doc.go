// Package term is where a program's output leaves it. Everything that a [Writer] writes is
// untrusted text: characters that a terminal obeys, or that nobody can see, are written as
// escapes, so that neither a model nor another user can move the cursor, clear the screen,
// reorder a line or hide part of it.
//
// The only way past that is a [Style], of which there is a fixed set.
package term
