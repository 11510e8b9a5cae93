// Package queueowner lets one program serve a task queue of threads. Whoever polls a queue takes its tasks, and decides by hooks and
// approvals of its own. So the workers of a queue agree through Temporal, before they poll, on the program, its store and its guards.
//
// What they have agreed on is the memo of a workflow that no worker runs. It is never changed: an owner ends it, by its run id, and
// starts the next one, which only one can.
package queueowner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// Guards are the digests of what guards threads, by what it is: "hooks", "approvals". Each is made by [Digest].
type Guards map[string]string

// Owner is a program with its store and its guards.
type Owner struct {
	// Program is the path of its main package, and Store the id of its store; "" is a store that has none.
	Program string `json:"program"`
	Store   string `json:"store"`

	// Guards are those of its builds; "" stands for workers without a build.
	Guards map[string]Guards `json:"guards"`
}

// maxBuilds is the number of builds whose guards are kept. A build that is forgotten is added again when it looks.
const maxBuilds = 100

// Digest returns a digest of a value, by its JSON.
func Digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // a type that has no JSON would always be another one
		text = fmt.Appendf(nil, "%T", v)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// key tells workers of a build apart in the list of those that poll a queue. It does not tell the guards, which may change while they
// poll.
func (o Owner) key(build string) string { return Digest([]string{o.Program, o.Store, build}) }

// is reports whether both are the same program with the same store.
func (o Owner) is(other Owner) bool { return o.Program == other.Program && o.Store == other.Store }

// serves reports whether an owner is what a build of another one wants it to be.
func (o Owner) serves(mine Owner, build string) bool {
	return o.is(mine) && maps.Equal(o.Guards[build], mine.Guards[build])
}

// with returns the owner with the guards of a build of another one.
func (o Owner) with(mine Owner, build string) Owner {
	guards := maps.Clone(o.Guards)
	for other := range o.Guards {
		if len(guards) >= maxBuilds && other != build {
			delete(guards, other)
		}
	}
	guards[build] = mine.Guards[build]
	o.Guards = guards
	return o
}

// differ names the guards in which two configurations differ.
func differ(a, b Guards) string {
	names := slices.Sorted(maps.Keys(a))
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return a[name] == b[name] }), ", ")
}

func (o Owner) String() string {
	if o.Store == "" {
		return fmt.Sprintf("program %s with a store that has no id", o.Program)
	}
	return fmt.Sprintf("program %s with store %.8s", o.Program, o.Store)
}

// version is the last element of the path of a module from its second version on.
var version = regexp.MustCompile(`^v\d+$`)

// Program returns the path of the main package of this process.
func Program() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return path.Base(os.Args[0])
	}
	if info.Path == "" || info.Path == "command-line-arguments" { // "go run main.go": the file has the name
		return path.Join(info.Main.Path, path.Base(os.Args[0]))
	}
	return info.Path
}

// Name returns the name of a program by its path.
func Name(program string) string {
	if dir := path.Dir(program); version.MatchString(path.Base(program)) && dir != "." {
		program = dir
	}
	return strings.TrimSuffix(path.Base(program), ".test")
}
