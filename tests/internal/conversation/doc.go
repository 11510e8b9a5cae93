// Package conversation plays conversations that are written down in a file: who says what,
// who decides what, and what each agent's model answers. It renders what has become of one,
// so that it can be compared with what is expected.
package conversation
