package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

var updateDescriptions = flag.Bool("update", false, "write the descriptions of fields from their comments")

// TestDescriptions compares the stored descriptions of fields with the comments. -update stores those of the comments.
func TestDescriptions(t *testing.T) {
	all := map[string]string{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return publicFolder(root, name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(name))
		describeTypes(all, filepath.ToSlash(folder), file)
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 500)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	require.NoError(t, encoder.Encode(all))
	if *updateDescriptions {
		require.NoError(t, os.WriteFile("descriptions.json", out.Bytes(), 0o644))
		return
	}
	require.Equal(t, string(descriptionsJSON), out.String(), "descriptions.json is stale: go test ./internal/server -run TestDescriptions$ -update")
}

// publicFolder skips the folders of internal packages and of other modules.
func publicFolder(root, folder string) error {
	if folder == root {
		return nil
	}
	switch base := filepath.Base(folder); {
	case base == "internal", base == "testdata", base == "node_modules", strings.HasPrefix(base, "."):
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// describeTypes adds the descriptions of the fields of a file's structs.
func describeTypes(all map[string]string, folder string, file *ast.File) {
	for _, d := range file.Decls {
		types, ok := d.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		for _, spec := range types.Specs {
			spec := spec.(*ast.TypeSpec)
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range fields.Fields.List {
				text := description(field.Doc.Text())
				if text == "" || field.Tag == nil {
					continue
				}
				tag, _ := strconv.Unquote(field.Tag.Value)
				if json := reflect.StructTag(tag).Get("json"); json == "" || json == "-" {
					continue
				}
				for _, name := range field.Names {
					if name.IsExported() {
						all[folder+"."+spec.Name.Name+"."+name.Name] = text
					}
				}
			}
		}
	}
}

var link = regexp.MustCompile(`\[(\*?[A-Za-z][\w.]*)\]`)

// description returns what a comment says in the API: its first paragraph without brackets around Go names and without
// the full stop at its end.
func description(comment string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(comment), "\n\n")
	return strings.TrimSuffix(link.ReplaceAllString(strings.ReplaceAll(first, "\n", " "), "$1"), ".")
}

func TestDescription(t *testing.T) {
	for comment, want := range map[string]string{
		"":                              "",
		"The thread.\n":                 "The thread",
		"Two. Sentences\nin lines.\n":   "Two. Sentences in lines",
		"See [Message].\n\nIt is Go.\n": "See Message",
		"A list, such as [\"x\"].\n":    "A list, such as [\"x\"]",
	} {
		assert.Equal(t, want, description(comment))
	}
}

type (
	embedsPublic struct {
		event.StoredMessage
		*signals.DecideResult
		ID    string          `json:"id" doc:"Of the tag"`
		List  []event.Passage `json:"list"`
		Own   string          `json:"own"`
		Inner withinPublic    `json:"inner"`
	}
	withinPublic struct {
		One *event.Retry `json:"one,omitempty"`
	}
)

// TestSchemasHaveDescriptionsOfComments looks at properties of structs that have fields of public packages.
func TestSchemasHaveDescriptionsOfComments(t *testing.T) {
	r := newSchemas()
	r.Schema(reflect.TypeFor[*embedsPublic](), true, "")
	all := r.Map()
	for at, want := range map[string]string{
		"EmbedsPublic.id":        "Of the tag",
		"EmbedsPublic.own":       "",
		"EmbedsPublic.threadId":  "The thread that the message belongs to",
		"EmbedsPublic.createdAt": "When the message was stored",
		"EmbedsPublic.missing":   "How many more have to approve: the call still waits",
		"Passage.id":             "The id of the passage",
		"Retry.attempts":         "How many attempts have failed",
	} {
		name, property, _ := strings.Cut(at, ".")
		require.NotNil(t, all[name], name)
		require.NotNil(t, all[name].Properties[property], at)
		assert.Equal(t, want, all[name].Properties[property].Description, at)
	}
}
