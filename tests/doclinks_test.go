package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docLink matches a link in a comment, such as [Name], [Type.Member] or [pkg.Type.Member].
var docLink = regexp.MustCompile(`\[\*?([\w]+(?:\.\w+){0,2})\](?:[^(:\w]|$)`)

// majorVersion matches the end of the path of a module after its first major version.
var majorVersion = regexp.MustCompile(`/v\d+$`)

// TestDocLinks: links in comments lead to declarations that exist.
func TestDocLinks(t *testing.T) {
	fset, files := token.NewFileSet(), map[string][]*ast.File{} // by the folder of the package
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == ".git"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		dir := path.Clean(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../"))
		files[strings.TrimPrefix(dir, "..")] = append(files[strings.TrimPrefix(dir, "..")], file)
		return err
	})
	require.NoError(t, err)
	declared := map[string]map[string]bool{}
	for dir, of := range files {
		declared[dir] = names(of)
	}
	links := 0
	for dir, of := range files {
		imported := packagesOf(of)
		for _, file := range of {
			for _, group := range file.Comments {
				for _, m := range docLink.FindAllStringSubmatch(group.Text(), -1) {
					to, name := dir, m[1]
					first, rest, qualified := strings.Cut(name, ".")
					switch lower := strings.ToLower(first[:1]) == first[:1]; {
					case qualified && declared[dir][first]:
					case qualified && lower:
						var ok bool
						if to, ok = imported[first]; !ok {
							t.Errorf("%s: [%s]: the package does not import %s", fset.Position(group.Pos()), m[1], first)
							continue
						}
						name = rest
					case lower, strings.ToUpper(name) == name:
						continue // such as data: [DONE]
					}
					if known, ours := declared[to]; ours {
						links++
						if !known[name] {
							t.Errorf("%s: [%s] does not exist", fset.Position(group.Pos()), m[1])
						}
					}
				}
			}
		}
	}
	require.Greater(t, links, 300)
}

// packagesOf returns the folders of the packages that files import by their names, or their paths if
// they belong to another module.
func packagesOf(files []*ast.File) map[string]string {
	out := map[string]string{}
	for _, file := range files {
		for _, i := range file.Imports {
			p, _ := strconv.Unquote(i.Path.Value)
			name := strings.TrimPrefix(path.Base(majorVersion.ReplaceAllString(p, "")), "go-")
			if i.Name != nil {
				name = i.Name.Name
			}
			out[name] = strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
		}
	}
	return out
}

// names returns what a package declares: names, and methods and fields as Type.Member.
func names(files []*ast.File) map[string]bool {
	out := map[string]bool{}
	for _, file := range files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				out[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							out[n.Name] = true
						}
					case *ast.TypeSpec:
						out[s.Name.Name] = true
						members(s, out)
					}
				}
			}
		}
	}
	return out
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// members adds the fields or the methods of a type.
func members(s *ast.TypeSpec, out map[string]bool) {
	var list *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			out[s.Name.Name+"."+n.Name] = true
		}
	}
}
