package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/threadmill/threadmill/internal/strictyaml"
)

// document is a file while it is read. It collects every mistake.
type document struct {
	name   string
	dir    string
	getenv func(string) string
	tools  []string

	// taskQueue is that of the threads, if it is known.
	taskQueue string

	lines   []string
	anchors map[string]ast.Node
	places  map[string]*token.Position // by path
	values  int                        // that were read for conditions
	files   []file
	errs    []*Error

	// secrets are values that no excerpt may show.
	secrets []string
}

// value is a node of the file and the path that leads to it.
type value struct {
	doc  *document
	node ast.Node
	path string
	at   *token.Position
}

// field is an entry of a mapping. At is the place of the key.
type field struct {
	value
	key string
	at  *token.Position
}

// open parses the file and returns its only document.
func (d *document) open(data []byte) (value, bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	d.lines = strings.Split(string(data), "\n")
	for i, line := range d.lines {
		if !utf8.ValidString(line) {
			d.lines[i] = ""
			d.fail(&token.Position{Line: i + 1, Column: 1}, "", "is not UTF-8 text: save the file as UTF-8")
			return value{}, false
		}
	}
	var limit *strictyaml.Error
	if errors.As(strictyaml.Check(data), &limit) {
		d.fail(&token.Position{Line: limit.Line, Column: 1}, "", "%s", limit.Problem)
		return value{}, false
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return value{}, false
	}
	return d.only(file)
}

func (d *document) syntax(err error) {
	const hint = "check the indentation and the quotes, here and in the line above"
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil {
		d.fail(&token.Position{Line: 1, Column: 1}, "", "this is not YAML: %s", hint)
		return
	}
	pos := at.GetToken().Position
	if pos.Line >= 1 && pos.Line <= len(d.lines) && strings.HasPrefix(strings.TrimLeft(d.lines[pos.Line-1], " "), "\t") {
		d.fail(pos, "", "this is not YAML: the line begins with a tab; indent with spaces")
		return
	}
	d.fail(pos, "", "this is not YAML: %s; %s", strings.ReplaceAll(at.GetMessage(), "\n", " "), hint)
}

func (d *document) only(file *ast.File) (value, bool) {
	root := value{doc: d, at: &token.Position{Line: 1, Column: 1}}
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.DirectiveNode, *ast.CommentGroupNode:
			continue
		}
		if root.node != nil {
			d.fail(place(doc.Body), "", "a second document begins here: put everything in one, without the --- line")
			return root, false
		}
		root.node = doc.Body
	}
	if root.node == nil {
		d.fail(root.at, "", "the file is empty: it needs at least agents, each with a name and a model")
		return root, false
	}
	d.anchors, d.places = map[string]ast.Node{}, map[string]*token.Position{}
	ast.Walk(anchors(d.anchors), root.node)
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

func (d *document) fail(at *token.Position, path, format string, args ...any) {
	// The scanner may see the end of a file behind its last line.
	line, column := min(max(at.Line, 1), len(d.lines)), max(at.Column, 1)
	d.errs = append(d.errs, &Error{
		File: d.name, Line: line, Column: column, Path: path, Problem: fmt.Sprintf(format, args...),
	})
}

func (v value) fail(format string, args ...any) { v.doc.fail(v.at, v.path, format, args...) }

// fail of a field points to its value, or to its key if the value is a block.
func (f field) fail(format string, args ...any) { f.value.fail(format, args...) }

// failKey points to the key.
func (f field) failKey(format string, args ...any) { f.doc.fail(f.at, f.path, format, args...) }

// child makes the value of a node below v. A block has no place of its own worth
// pointing at; it gets that of its key.
func (v value) child(n ast.Node, path string, key *token.Position) value {
	c := value{doc: v.doc, node: n, path: path, at: key}
	switch n := v.doc.resolve(n).(type) {
	case *ast.MappingNode:
		if n.IsFlowStyle {
			c.at = n.Start.Position
		}
	case *ast.SequenceNode:
		if n.IsFlowStyle {
			c.at = n.Start.Position
		}
	case *ast.NullNode:
	default:
		c.at = place(c.node)
	}
	v.doc.places[path] = c.at
	return c
}

// placeOf is where the value of a path stands, or of the nearest one around it.
func (d *document) placeOf(path string) *token.Position {
	for ; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if at, ok := d.places[path]; ok {
			return at
		}
	}
	return &token.Position{Line: 1, Column: 1}
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

// resolve looks through anchors and aliases; nil if an alias names nothing.
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

// kind says what the value is, for people.
func (v value) kind() string {
	switch n := v.doc.resolve(v.node).(type) {
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

// fields returns the entries of a mapping in the order of the file. With known
// names, it refuses all others; without, any name will do. An empty value is an
// empty mapping.
func (v value) fields(known ...string) []field {
	m, ok := v.doc.resolve(v.node).(*ast.MappingNode)
	if !ok {
		if _, empty := v.doc.resolve(v.node).(*ast.NullNode); !empty {
			v.fail("is %s, must be a mapping (name: value)", v.kind())
		}
		return nil
	}
	var fields []field
	seen := map[string]int{}
	for _, entry := range m.Values {
		f, ok := v.field(entry)
		if !ok {
			continue
		}
		if line, twice := seen[f.key]; twice {
			f.failKey("is already set in line %d: keep one of them", line)
			continue
		}
		seen[f.key] = f.at.Line
		if len(known) > 0 && !has(known, f.key) {
			f.failKey("unknown field; %s", suggest(f.key, known))
			continue
		}
		fields = append(fields, f)
	}
	return fields
}

func (v value) field(entry *ast.MappingValueNode) (field, bool) {
	at := place(entry.Key)
	if entry.Key.IsMergeKey() {
		v.doc.fail(at, v.path, "merging with << is not supported: repeat the fields")
		return field{}, false
	}
	key := v.doc.resolve(entry.Key)
	name, ok := key.(*ast.StringNode)
	if !ok {
		v.doc.fail(at, v.path, "the name of a field must be text: put it in quotes")
		return field{}, false
	}
	path := name.Value
	if v.path != "" {
		path = v.path + "." + path
	}
	return field{value: v.child(entry.Value, path, at), key: name.Value, at: at}, true
}

func has(list []string, s string) bool { return slices.Contains(list, s) }

// items returns the entries of a list.
func (v value) items() []value {
	s, ok := v.doc.resolve(v.node).(*ast.SequenceNode)
	if !ok {
		v.fail("is %s, must be a list ([a, b], or lines that begin with -)", v.kind())
		return nil
	}
	items := make([]value, 0, len(s.Values))
	for i, n := range s.Values {
		items = append(items, v.child(n, fmt.Sprintf("%s[%d]", v.path, i), place(n)))
	}
	return items
}

func (d *document) relative(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.dir, path)
}
