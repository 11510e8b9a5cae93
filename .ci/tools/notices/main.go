// Command notices writes the licences of everything that is compiled into programs of a module: a table, then their texts, as most
// licences require of who passes a program on. It fails if a module has no licence that it knows, or one that would bind
// the whole program.
//
//	notices MODULE PACKAGE… > NOTICES.txt
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// permitted are the licences, by their SPDX ids, that leave the program free.
var permitted = []string{
	"MIT", "MIT-0", "Apache-2.0", "BSD-2-Clause", "BSD-2-Clause-Views", "BSD-3-Clause", "ISC", "0BSD", "MPL-2.0", "Unlicense", "CC0-1.0",
	"OFL-1.1", "CC-BY-4.0", // of fonts and documentation
}

// unstated are modules without a file of a licence, and why a program contains them all the same.
var unstated = map[string]string{
	"github.com/cactus/go-statsd-client/statsd":    "MIT, as its sources say",
	"github.com/nexus-rpc/nexus-proto-annotations": "not stated; part of Temporal's API for Go, which is MIT",
}

// licenceFile are the names of files with licences and what must be passed on with them.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense)([-._].*)?$`)

// minCovered is the part of a file of a licence that must be one that is known, in percent.
const minCovered = 75

// systems are those for which programs are released.
var systems = []string{"linux", "darwin", "windows"}

const project = "github.com/threadmill/threadmill"

// module is a module of others, as "go list" describes it.
type module struct {
	Path, Version, Dir string

	seen  []string // folders
	names []string // SPDX ids
	files []string

	// covered is how much of a file is a known licence, in percent, at best.
	covered float64
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("name the folder of a module, and packages of it, such as: notices . ./worker ./starter")
	}
	modules, err := compiledIn(args[0], args[1:])
	if err != nil {
		return err
	}
	var wrong []error
	for _, m := range modules {
		wrong = append(wrong, m.check())
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	return write(out, modules)
}

// compiledIn returns the modules of others that are compiled into packages of the module in a folder, for any of the systems, with the
// files of their licences.
func compiledIn(folder string, packages []string) ([]*module, error) {
	found := map[string]*module{}
	for _, system := range systems {
		list := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Module"}, packages...)...)
		list.Dir, list.Stderr = folder, os.Stderr
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0", "GOWORK=off")
		raw, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("listing the packages of %s for %s: %w", folder, system, err)
		}
		for decoder := json.NewDecoder(bytes.NewReader(raw)); decoder.More(); {
			var p struct {
				Dir    string
				Module *module
			}
			if err := decoder.Decode(&p); err != nil {
				return nil, fmt.Errorf("reading the list of packages: %w", err)
			}
			if p.Module == nil || p.Module.own() {
				continue
			}
			m := found[p.Module.Path]
			if m == nil {
				m = p.Module
				found[m.Path] = m
			}
			if err := m.read(p.Dir); err != nil {
				return nil, err
			}
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("looking for the licence of Go: %w", err)
	}
	golang := &module{Path: "std", Version: runtime.Version(), Dir: strings.TrimSpace(string(root))}
	if err := golang.read(golang.Dir); err != nil {
		return nil, err
	}
	found[golang.Path] = golang
	return slices.SortedFunc(maps.Values(found), func(a, b *module) int { return cmp.Compare(a.Path, b.Path) }), nil
}

// own reports whether a module is one of this project.
func (m *module) own() bool { return m.Path == project || strings.HasPrefix(m.Path, project+"/") }

// read finds the licences of a package: those in its folder and above, up to that of the module.
func (m *module) read(dir string) error {
	if slices.Contains(m.seen, dir) {
		return nil
	}
	m.seen = append(m.seen, dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the licence of %s: %w", m.Path, err)
	}
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the licence of %s: %w", m.Path, err)
		}
		scanned := licensecheck.Scan(text)
		m.covered = max(m.covered, scanned.Percent)
		for _, match := range scanned.Match {
			if !slices.Contains(m.names, match.ID) {
				m.names = append(m.names, match.ID)
			}
		}
		m.files = append(m.files, path)
	}
	if dir == m.Dir {
		return nil
	}
	return m.read(filepath.Dir(dir))
}

// check reports what keeps a module out of a program.
func (m *module) check() error {
	if why, ok := unstated[m.Path]; ok && len(m.names) == 0 {
		m.names = []string{why}
		return nil
	}
	if len(m.names) == 0 || m.covered < minCovered {
		return fmt.Errorf("%s@%s has no licence that is known: look at %s", m.Path, m.Version, m.Dir)
	}
	slices.Sort(m.names)
	for _, name := range m.names {
		if !slices.Contains(permitted, name) {
			return fmt.Errorf("%s@%s has the licence %s: look whether a program may contain it, then add it to the permitted ones", m.Path, m.Version, name)
		}
	}
	return nil
}

func write(out io.Writer, modules []*module) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "These programs contain %d modules of others, under these licences:\n\n", len(modules))
	for _, m := range modules {
		fmt.Fprintf(w, "%-70s %-45s %s\n", m.Path, m.Version, strings.Join(m.names, ", "))
	}
	// Many modules have the same text.
	var texts []string
	of := map[string][]string{}
	for _, m := range modules {
		for _, path := range m.files {
			raw, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("reading the licence of %s: %w", m.Path, err)
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n"))
			if of[text] == nil {
				texts = append(texts, text)
			}
			of[text] = append(of[text], m.Path+strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(m.Dir)))
		}
	}
	for _, text := range texts {
		fmt.Fprintf(w, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 100), strings.Join(of[text], "\n"), text)
	}
	return w.Flush()
}
