package tests

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPublicAPI: no exported declaration of a public package needs an internal type, and fields have comments instead of doc
// tags, which Go's documentation does not show.
func TestPublicAPI(t *testing.T) {
	fset, checked := token.NewFileSet(), 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case "internal", "testdata", "tests", "bench", "devserver", "examples", "node_modules", "activities", "workflows": // the last two are for the runtime
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil || file.Name.Name == "main" {
			return err
		}
		checked++
		for _, used := range internalTypes(file) {
			t.Errorf("%s: %s", fset.Position(used.Pos()), "an exported declaration needs an internal type")
		}
		for _, tag := range docTags(file) {
			t.Errorf("%s: %s", fset.Position(tag.Pos()), "a doc tag: begin the comment of the field with it, and run go test ./internal/server -run 'TestDescriptions$' -update")
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, checked, 100)
}

// internalTypes returns the types of internal packages in the exported declarations of a file.
func internalTypes(file *ast.File) []ast.Node {
	internal := map[string]bool{}
	for _, i := range file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		internal[name] = strings.Contains(p, "/internal/")
	}
	ast.FileExports(file)
	var found []ast.Node
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			if f.Recv != nil && !ast.IsExported(receiver(f)) {
				continue
			}
			f.Body = nil
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				n.Values = nil
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && internal[x.Name] {
					found = append(found, n)
				}
			}
			return true
		})
	}
	return found
}

// docTags returns the tags of a file's fields that have a description.
func docTags(file *ast.File) []ast.Node {
	var found []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && f.Tag != nil && strings.Contains(f.Tag.Value, `doc:"`) {
			found = append(found, f.Tag)
		}
		return true
	})
	return found
}

// TestPackages: docs/packages.md says of each public package whether it is promised, and names no other.
func TestPackages(t *testing.T) {
	listed, err := os.ReadFile("../docs/packages.md")
	require.NoError(t, err)
	var named []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(string(listed), -1) {
		for _, name := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(row[1], -1) {
			named = append(named, name[1])
		}
	}
	public := []string{"threadmilltest"}
	for name := range importsOf(t, "./...") {
		switch {
		case name == ".":
			public = append(public, "threadmill")
		case name != "worker" && name != "starter" && !strings.Contains("/"+name+"/", "/internal/") && !strings.Contains(strings.Split(name, "/")[0], "."):
			public = append(public, name)
		}
	}
	require.ElementsMatch(t, public, named)
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` \\|.*\\| promised \\|$").FindAllStringSubmatch(string(listed), -1) {
		folder := "../" + strings.TrimPrefix(row[1], "threadmill")
		if row[1] == "threadmilltest" {
			folder = "../threadmilltest"
		}
		tests, err := filepath.Glob(folder + "/*_test.go")
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(tests, func(path string) bool {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			return bytes.Contains(text, []byte("\nfunc Example"))
		}), "package %s is promised, and pkg.go.dev shows no example", row[1])
	}
}
