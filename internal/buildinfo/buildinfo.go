// Package buildinfo says from what a program was built.
package buildinfo

import (
	"cmp"
	"runtime/debug"
)

// Version returns the version of the program's module or, without one, the commit from which it was built; and the version of Go.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	of := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (of == "" || of == "(devel)") {
			of = "commit " + s.Value
		}
	}
	return cmp.Or(of, "(devel)") + " " + info.GoVersion
}
