package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/config/strictyaml"
)

// document is a file while it is decoded. It collects all errors.
type document struct {
	name   string
	dir    string
	getenv func(string) string
	tools  []string

	// declared are the names of what the program itself has.
	declared Declared

	// groups are the groups of approvers. Nil = only the program knows them.
	groups []string

	// taskQueue is the task queue of the threads, if it is known.
	taskQueue string

	lines   []string
	anchors map[string]ast.Node

	// keys and places are the positions of the keys and the values, by path.
	keys, places map[string]*token.Position

	// failed are the paths with an error, or for which an unknown field may be a misspelling.
	failed map[string]bool

	values int // read for schemas and conditions
	files  []file
	errs   []*Error

	// secrets are values that excerpts must not show.
	secrets []string
}

// open parses the file and returns its only document.
func (d *document) open(data []byte) (ast.Node, bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	d.lines = strings.Split(string(data), "\n")
	d.anchors, d.failed = map[string]ast.Node{}, map[string]bool{}
	d.keys, d.places = map[string]*token.Position{}, map[string]*token.Position{"": start}
	for i, line := range d.lines {
		if !utf8.ValidString(line) {
			d.lines[i] = ""
			d.fail(&token.Position{Line: i + 1, Column: 1}, "", KindSyntax, "is not UTF-8 text: save the file as UTF-8")
			return nil, false
		}
	}
	if limit, ok := errors.AsType[*strictyaml.Error](strictyaml.Check(data)); ok {
		d.fail(&token.Position{Line: limit.Line, Column: 1}, "", KindLimit, "%s", limit.Problem)
		return nil, false
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return nil, false
	}
	return d.only(file)
}

func (d *document) syntax(err error) {
	const hint = "check the indentation and the quotes, here and in the line above"
	at, ok := errors.AsType[yaml.Error](err)
	if !ok || at.GetToken() == nil {
		d.fail(start, "", KindSyntax, "this is not YAML: %s", hint)
		return
	}
	pos := at.GetToken().Position
	if pos.Line >= 1 && pos.Line <= len(d.lines) && strings.HasPrefix(strings.TrimLeft(d.lines[pos.Line-1], " "), "\t") {
		d.fail(pos, "", KindSyntax, "this is not YAML: the line begins with a tab; indent with spaces")
		return
	}
	d.fail(pos, "", KindSyntax, "this is not YAML: %s; %s", strings.ReplaceAll(at.GetMessage(), "\n", " "), hint)
}

func (d *document) only(file *ast.File) (root ast.Node, ok bool) {
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.DirectiveNode, *ast.CommentGroupNode:
			continue
		}
		if root != nil {
			d.fail(place(doc.Body), "", KindSyntax, "a second document begins here: put everything in one, without the --- line")
			return nil, false
		}
		root = doc.Body
	}
	if root == nil {
		d.fail(start, "", KindMissing, "the file is empty: it needs at least agents, each with a name and a model")
		return nil, false
	}
	ast.Walk(anchors(d.anchors), root)
	return root, true
}

type anchors map[string]ast.Node

// Visit implements [ast.Visitor].
func (a anchors) Visit(n ast.Node) ast.Visitor {
	if n, ok := n.(*ast.AnchorNode); ok {
		a[n.Name.String()] = n.Value
	}
	return a
}

// start is the position of the first character of the file.
var start = &token.Position{Line: 1, Column: 1}

// mergeKey is the key that merges the fields of another mapping.
const mergeKey = "<<"

// fail reports an error, even if its path already has one.
func (d *document) fail(at *token.Position, path string, kind Kind, format string, args ...any) {
	d.failed[path] = true
	d.report(at, path, kind, format, args...)
}

func (d *document) report(at *token.Position, path string, kind Kind, format string, args ...any) {
	// The scanner may put the end of a file after its last line.
	line, column := min(max(at.Line, 1), len(d.lines)), max(at.Column, 1)
	d.errs = append(d.errs, &Error{
		File: d.name, Line: line, Column: column, Path: path, Kind: kind, Problem: fmt.Sprintf(format, args...),
	})
}

// fieldErrorf reports an error in a decoded value, unless the value, or a value around it, already
// has one: then it is not what the file says.
func (d *document) fieldErrorf(path string, kind Kind, format string, args ...any) {
	merged := kind == KindMissing && d.failed[join(parent(path), mergeKey)]
	if !merged && !d.hasFailed(path) {
		d.fail(d.placeOf(path), path, kind, format, args...)
	}
}

// keyErrorf is [document.fieldErrorf] at the position of the key.
func (d *document) keyErrorf(path string, kind Kind, format string, args ...any) {
	if !d.hasFailed(path) {
		d.fail(d.keys[path], path, kind, format, args...)
	}
}

func (d *document) hasFailed(path string) bool {
	for ; path != ""; path = parent(path) {
		if d.failed[path] {
			return true
		}
	}
	return d.failed[""]
}

// failedBelow reports whether the value at path, or a value in it or around it, has an error.
func (d *document) failedBelow(path string) bool {
	if d.hasFailed(path) {
		return true
	}
	for failed, is := range d.failed {
		if rest, below := strings.CutPrefix(failed, path); is && below && rest != "" && (rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// has reports whether the file sets a field.
func (d *document) has(path string) bool { return d.places[path] != nil }

// placeOf returns the position of the value at a path, or of the nearest value around it.
func (d *document) placeOf(path string) *token.Position {
	for ; path != ""; path = parent(path) {
		if at, ok := d.places[path]; ok {
			return at
		}
	}
	return d.places[""]
}

func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// invalid reports whether err is an error of a field within path, and adds its position.
func (d *document) invalid(path string, err error) bool {
	field, ok := errors.AsType[*event.FieldError](err)
	if !ok {
		return false
	}
	path = join(path, field.Field)
	kind := KindInvalid
	if !d.has(path) {
		kind = KindMissing
	}
	d.fieldErrorf(path, kind, "%s", field.Problem)
	return true
}

func place(n ast.Node) *token.Position {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		n = m.Values[0].Key
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position
	}
	return &token.Position{Line: 1, Column: 1}
}

// resolve follows anchors and aliases. It returns nil if an alias is undefined.
func (d *document) resolve(n ast.Node) ast.Node {
	for range 16 { // an alias may stand for an alias, but not for itself
		switch of := n.(type) {
		case *ast.AnchorNode:
			n = of.Value
		case *ast.AliasNode:
			n = d.anchors[of.Value.String()]
		default:
			return n
		}
	}
	return nil
}

// describe describes a value for people.
func (d *document) describe(n ast.Node) string {
	switch n := d.resolve(n).(type) {
	case nil:
		return "an alias (*) of an anchor (&) that is not there"
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value
	case *ast.TagNode:
		return "a tag, which is not supported"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	}
	return "something else"
}

func (d *document) relative(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.dir, path)
}
