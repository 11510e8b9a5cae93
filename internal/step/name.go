package step

import "strings"

// between separates the type of a step from what its name says beyond it.
const between = " · "

// Name returns the name under which a step of a type runs as a local activity: Temporal's Web UI shows nothing else of it.
func Name(typ, shown string) string { return typ + between + shown }

// TypeOf returns the type of a step by its name.
func TypeOf(name string) string {
	typ, _, _ := strings.Cut(name, between)
	return typ
}
