// Package buildinfo says from what a program was built.
package buildinfo

import (
	"cmp"
	"runtime/debug"
)

// release is set by the linker where a program is built without its repository, as in images.
var release string

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
	return cmp.Or(release, of, "(devel)") + " " + info.GoVersion
}
