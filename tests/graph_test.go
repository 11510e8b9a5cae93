package tests

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/threadmill/threadmill"

// graph has the imports of each package. Packages of the root module are named by their folder, the
// root package by a dot. The standard library's own imports are omitted.
type graph map[string][]string

// importsOf lists the packages that match a pattern in the root module, with their dependencies.
func importsOf(t *testing.T, pattern string) graph {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,Standard", pattern)
	cmd.Dir = ".."
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("go list: %s", failed.Stderr)
	}
	require.NoError(t, err)
	g := graph{}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var pkg struct {
			ImportPath string
			Imports    []string
			Standard   bool
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		if pkg.Standard {
			continue
		}
		imports := make([]string, len(pkg.Imports))
		for i, path := range pkg.Imports {
			imports[i] = folder(path)
		}
		g[folder(pkg.ImportPath)] = imports
	}
	require.Contains(t, g, "event", "the root module's packages are listed")
	return g
}

// folder shortens the paths of the root module's packages.
func folder(path string) string {
	if path == module {
		return "."
	}
	short, ok := strings.CutPrefix(path, module+"/")
	if nested, _, _ := strings.Cut(short, "/"); !ok || slices.Contains([]string{"devserver", "tests", "bench", "threadmilltest", "examples"}, nested) {
		return path
	}
	return short
}

// importers lists, in order, the packages of the root module that import a package, or one inside it,
// and are not inside it.
func (g graph) importers(path string) (out []string) {
	for _, pkg := range g.own() {
		if !inside(pkg, []string{path}) && slices.ContainsFunc(g[pkg], func(next string) bool { return inside(next, []string{path}) }) {
			out = append(out, pkg)
		}
	}
	return out
}

// breaches lists, in order, the paths by which packages reach forbidden ones.
func (g graph) breaches(b boundary) []string {
	found := map[string]bool{}
	for _, pkg := range g.own() {
		if len(b.rooms) > 0 && !inside(pkg, b.rooms) {
			continue
		}
		g.walk(pkg, b, map[string]bool{}, nil, found)
	}
	if len(b.rooms) == 0 {
		shortest(found)
	}
	return slices.Sorted(maps.Keys(found))
}

func (g graph) walk(pkg string, b boundary, seen map[string]bool, way []string, found map[string]bool) {
	way = append(slices.Clone(way), pkg)
	for _, next := range g[pkg] {
		if b.forbids(g, pkg, next) {
			found[strings.Join(append(slices.Clone(way), next), " → ")] = true
			continue
		}
		if !seen[next] {
			seen[next] = true
			g.walk(next, b, seen, way, found)
		}
	}
}

func (b boundary) forbids(g graph, from, to string) bool {
	_, listed := g[to]
	switch {
	case inside(to, b.never):
		return true
	case listed && b.only != nil && !slices.Contains(b.only, to) && !withinOnly(from, b.only):
		return true
	default:
		return b.plain && g.isOwn(from) && inside(to, impure)
	}
}

// withinOnly: dependencies of a permitted external package are permitted too.
func withinOnly(from string, only []string) bool {
	first, _, _ := strings.Cut(from, "/")
	return strings.Contains(first, ".") && from != "." && slices.Contains(only, from)
}

// shortest drops the paths that lead into another one.
func shortest(found map[string]bool) {
	for way := range found {
		for other := range found {
			if way != other && strings.HasSuffix(way, " → "+other) {
				delete(found, way)
			}
		}
	}
}

// upward lists imports against the order of the layers, and packages without a layer.
func (g graph) upward(layers [][]string) []string {
	var found []string
	for _, pkg := range g.own() {
		if forTests(pkg) {
			continue
		}
		from := layerOf(layers, pkg)
		if from < 0 {
			found = append(found, pkg+": in no layer")
			continue
		}
		for _, next := range g[pkg] {
			switch to := layerOf(layers, next); {
			case g.isOwn(next) && forTests(next):
				found = append(found, pkg+" → "+next+": for tests only")
			case g.isOwn(next) && to > from:
				found = append(found, pkg+" → "+next+": upward")
			}
		}
	}
	return found
}

// layerOf returns the index of a package's layer, or -1: that of the innermost room that contains it.
func layerOf(layers [][]string, pkg string) int {
	layer, innermost := -1, ""
	for i, rooms := range layers {
		for _, room := range rooms {
			if inside(pkg, []string{room}) && len(room) > len(innermost) {
				layer, innermost = i, room
			}
		}
	}
	return layer
}

// forTests reports whether a package is for tests, such as storetest.
func forTests(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || pkg == "internal/testenv" || strings.HasPrefix(pkg, "internal/testenv/")
}

// own lists the root module's packages.
func (g graph) own() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(g)), func(pkg string) bool { return !g.isOwn(pkg) })
}

func (g graph) isOwn(pkg string) bool {
	_, listed := g[pkg]
	first, _, _ := strings.Cut(pkg, "/")
	return listed && (pkg == "." || !strings.Contains(first, "."))
}

// inside reports whether pkg is one of rooms or inside one.
func inside(pkg string, rooms []string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool {
		room, innerOnly := strings.CutSuffix(room, "/...")
		return strings.HasPrefix(pkg, room+"/") || pkg == room && !innerOnly
	})
}
