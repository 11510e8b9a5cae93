package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/threadmill/threadmill/internal/names/near"
	"github.com/threadmill/threadmill/signals"
)

// Limits of the values in schemas and conditions, which aliases can multiply.
const (
	maxValues = 10_000 // of a file
	maxDepth  = 20
)

// fieldRule restricts the values of a field beyond its Go type.
type fieldRule struct {
	required string // what an error says if the field is missing
	unset    string // what leaving the field out means
	min, max float64

	text     bool   // may have several lines, and is taken as it stands
	single   bool   // takes an item in place of a list
	short    string // takes text in place of a mapping, for this field of it
	nonEmpty string // what an error says of an empty list or mapping
	null     string // what an error says of an empty value
	secret   bool   // names a variable, which may be the secret itself by mistake

	check func(string) string // returns what is wrong with a text, or with an item
}

// size is a number of bytes.
type size int

// decode sets v to the value of a node, and reports each error with its position. It replaces the
// decoder of the YAML library, which reports only one error per file, and accepts 7 as text and "7"
// as a number.
func (d *document) decode(n ast.Node, path string, v reflect.Value, r fieldRule) {
	node := d.resolve(n)
	if _, empty := node.(*ast.NullNode); empty && (r.null != "" || typeName(v) != "") {
		d.decodeNull(n, path, v, r)
		return
	}
	switch out := v.Addr().Interface().(type) {
	case *time.Duration:
		*out = time.Duration(d.duration(node, path, r))
		return
	case *size:
		*out = size(d.size(node, path, r))
		return
	case *json.RawMessage:
		*out = d.schema(n, path)
		return
	}
	switch v.Kind() { //nolint:exhaustive // no field has another kind
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, path, v.Elem(), r)
	case reflect.Interface:
		d.decodeAny(n, path, v)
	case reflect.Struct:
		d.decodeStruct(n, path, v, r)
	case reflect.Map:
		d.decodeMap(n, path, v, r)
	case reflect.Slice:
		d.decodeList(n, path, v, r)
	case reflect.String:
		v.SetString(d.text(node, path, v.Type(), r))
	case reflect.Bool:
		if b, ok := node.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
		} else {
			d.wrongType(n, path, "true or false")
		}
	case reflect.Int:
		v.SetInt(int64(d.number(node, path, r, true)))
	case reflect.Float64:
		v.SetFloat(d.number(node, path, r, false))
	}
}

func (d *document) decodeNull(n ast.Node, path string, v reflect.Value, r fieldRule) {
	switch name := typeName(v); {
	case r.null != "":
		d.fail(d.places[path], path, KindEmpty, "is empty: %s", r.null)
	case name == "text":
		d.fail(d.places[path], path, KindEmpty, "is empty: give it a value or remove the field")
	default:
		d.wrongType(n, path, name)
	}
}

// typeName names the type of a scalar for people; "" for other nodes.
func typeName(v reflect.Value) string {
	switch v.Kind() { //nolint:exhaustive // no other kind is that of a scalar
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String, reflect.Int64:
		return "text"
	}
	return ""
}

func (d *document) wrongType(n ast.Node, path, want string) {
	is := d.describe(n)
	s, quoted := d.resolve(n).(*ast.StringNode)
	switch {
	case strings.HasPrefix(want, "a mapping") || strings.HasPrefix(want, "a list"):
		d.hide(n, path)
	case quoted && len(s.Value) < 40:
		is = strconv.Quote(s.Value)
	}
	d.fail(d.places[path], path, KindType, "is %s, must be %s", is, want)
}

// at records the position of the value at a path. The position of a block is that of its key.
func (d *document) at(n ast.Node, path string, key *token.Position) {
	at := key
	switch of := d.resolve(n).(type) {
	case *ast.MappingNode:
		if of.IsFlowStyle {
			at = of.Start.Position
		}
	case *ast.SequenceNode:
		if of.IsFlowStyle {
			at = of.Start.Position
		}
	case *ast.NullNode:
	default:
		at = place(n)
	}
	d.keys[path], d.places[path] = key, at
}

// entry is a field of a mapping.
type entry struct {
	key, path string
	node      ast.Node
}

// entries returns the fields of a mapping, without duplicates. An empty value is an empty mapping.
func (d *document) entries(n ast.Node, path string) []entry {
	m, ok := d.resolve(n).(*ast.MappingNode)
	if !ok {
		if _, empty := d.resolve(n).(*ast.NullNode); !empty {
			d.wrongType(n, path, "a mapping (name: value)")
		}
		return nil
	}
	var list []entry
	lines := map[string]int{}
	for _, e := range m.Values {
		at := place(e.Key)
		if e.Key.IsMergeKey() {
			d.report(at, path, KindSyntax, "merging with << is not supported: repeat the fields")
			d.failed[join(path, mergeKey)] = true
			continue
		}
		name, ok := d.resolve(e.Key).(*ast.StringNode)
		if !ok {
			d.report(at, path, KindType, "the name of a field must be text: put it in quotes")
			d.failed[join(path, e.Key.String())] = true
			continue
		}
		inner := join(path, name.Value)
		if line, twice := lines[name.Value]; twice {
			d.hide(e.Value, inner)
			d.report(at, inner, KindDuplicate, "is already set in line %d: keep one of them", line)
			d.failed[inner+" again"] = true
			continue
		}
		lines[name.Value] = at.Line
		d.at(e.Value, inner, at)
		list = append(list, entry{name.Value, inner, e.Value})
	}
	return list
}

func (d *document) decodeStruct(n ast.Node, path string, v reflect.Value, r fieldRule) {
	if r.short != "" && d.describe(n) == "text" {
		d.decode(n, path, v.FieldByName(r.short), fieldRule{})
		return
	}
	known, fields := fieldsOf(v.Type())
	var meant []string // by unknown fields
	for _, e := range d.entries(n, path) {
		f, ok := fields[e.key]
		if !ok {
			d.unknownField(e, path, known)
			if names := near.To(e.key, known); len(names) > 0 {
				meant = append(meant, join(path, names[0]))
			}
			continue
		}
		rule := ruleOf(v.Type(), f)
		if rule.secret {
			d.conceal(e.node)
		}
		d.decode(e.node, e.path, v.FieldByIndex(f.Index), rule)
	}
	for _, inner := range meant {
		d.failed[inner] = d.failed[inner] || !d.has(inner)
	}
	for _, name := range known {
		rule := ruleOf(v.Type(), fields[name])
		if inner := join(path, name); rule.required != "" && !d.has(inner) && !(inner == "agents" && len(d.declared.Agents) > 0) {
			d.fieldErrorf(inner, KindMissing, "is missing: %s", rule.required)
		}
	}
}

// fieldsOf returns the fields of the mapping for a struct, and their names in order.
func fieldsOf(t reflect.Type) (known []string, fields map[string]reflect.StructField) {
	fields = map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous && f.IsExported() && f.Type.Kind() != reflect.Func && f.Type != reflect.TypeFor[notInFile]() {
			name := fieldName(f)
			known, fields[name] = append(known, name), f
		}
	}
	return known, fields
}

// ruleOf returns the rule of a field of a struct or of an embedded struct.
func ruleOf(t reflect.Type, f reflect.StructField) fieldRule {
	if len(f.Index) > 1 {
		t = t.Field(f.Index[0]).Type
	}
	return fieldRules[t.String()+"."+f.Name]
}

// fieldName returns the name of a Go field in the file: that of the tag, if it has one.
func fieldName(f reflect.StructField) string {
	if tag, ok := f.Tag.Lookup("yaml"); ok {
		return tag
	}
	runes := []rune(f.Name)
	for i := range runes {
		if i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1]) || !unicode.IsUpper(runes[i]) {
			break
		}
		runes[i] = unicode.ToLower(runes[i])
	}
	return string(runes)
}

func (d *document) unknownField(e entry, path string, known []string) {
	at := d.keys[e.path]
	d.hide(e.node, e.path)
	if variable := secretVariable(path); variable != "" && (secretNames[near.Plain(e.key)] || mcpSecrets[near.Plain(e.key)] && strings.HasPrefix(path, "mcp.")) {
		d.fail(at, e.path, KindSecret, "must not stand in the file, where it is copied and committed: "+
			"put it into an environment variable and write %s: NAME_OF_THE_VARIABLE", variable)
		return
	}
	d.fail(at, e.path, KindUnknown, "unknown field; %s", near.Suggest(e.key, known))
}

func (d *document) decodeMap(n ast.Node, path string, v reflect.Value, r fieldRule) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range d.entries(n, path) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.decode(e.node, e.path, item, fieldRule{check: r.check})
		if item.Kind() == reflect.Struct || !d.failed[e.path] {
			v.SetMapIndex(reflect.ValueOf(e.key), item)
		}
	}
}

func (d *document) decodeList(n ast.Node, path string, v reflect.Value, r fieldRule) {
	list, ok := d.resolve(n).(*ast.SequenceNode)
	item := r
	item.nonEmpty, item.null, item.single = "", "", false
	switch {
	case !ok && r.single && v.Type().Elem().Kind() == reflect.String && d.describe(n) == "a mapping":
		d.wrongType(n, path, "text, or a list of texts")
	case !ok && r.single:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		d.decode(n, path, v.Index(0), item)
	case !ok:
		d.wrongType(n, path, "a list ([a, b], or lines that begin with -)")
	case len(list.Values) == 0 && r.nonEmpty != "":
		d.fail(d.places[path], path, KindEmpty, "is empty: %s", r.nonEmpty)
	case r.max > 0 && v.Type().Elem().Kind() == reflect.Struct && len(list.Values) > int(r.max):
		d.fail(d.places[path], path, KindLimit, "has %d items, at most %g are allowed", len(list.Values), r.max)
	default:
		v.Set(reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values)))
		seen := map[string]bool{}
		for i, n := range list.Values {
			inner := fmt.Sprintf("%s[%d]", path, i)
			d.at(n, inner, place(n))
			d.decode(n, inner, v.Index(i), item)
			if s := v.Index(i); s.Kind() == reflect.String && s.String() != "" {
				if seen[s.String()] {
					d.fieldErrorf(inner, KindDuplicate, "%q is duplicated: remove one", s)
				}
				seen[s.String()] = true
			}
		}
	}
}

// text decodes a text that must not be empty, and must be one of the enum if its type has one.
func (d *document) text(n ast.Node, path string, t reflect.Type, r fieldRule) string {
	s, known := "", enums[t]
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	default:
		want := "text"
		if scalar := d.describe(n); known != nil {
			want = strings.Join(known, " or ")
		} else if _, ok := n.(ast.ScalarNode); ok && scalar == n.GetToken().Value {
			want = "text: put it in quotes"
		} else if scalar == "a mapping" && strings.HasPrefix(path, "webhooks") {
			want = "text: put a text that begins with a brace in quotes"
		}
		d.wrongType(n, path, want)
		return ""
	}
	if !r.text {
		s = strings.TrimSpace(s)
	}
	switch problem := ""; {
	case strings.TrimSpace(s) == "":
		d.fail(d.places[path], path, KindEmpty, "is empty: give it a value or remove the field")
	case r.text && r.check == nil:
		return s
	case !r.text && strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		d.fail(d.places[path], path, KindInvalid, "must be a single line without control characters")
	case known != nil && !slices.Contains(known, s):
		if problem = fmt.Sprintf("%q is not known", s); d.hide(n, path) {
			problem = "is not known"
		}
		d.fail(d.places[path], path, KindInvalid, "%s; %s", problem, near.Suggest(s, known))
	case r.check != nil:
		if problem = r.check(s); problem == "" {
			return s
		}
		d.fail(d.places[path], path, KindInvalid, "%s", problem)
	default:
		return s
	}
	return ""
}

// number decodes a number exactly, for every whole number within the limits of the file.
func (d *document) number(n ast.Node, path string, r fieldRule, whole bool) float64 {
	f, unbounded, want := math.NaN(), r.min == 0 && r.max == 0, "a number"
	if whole {
		want = "a whole number"
	}
	if !unbounded {
		want += fmt.Sprintf(" from %.0f to %.0f", r.min, r.max)
	}
	switch n := n.(type) {
	case *ast.IntegerNode:
		switch i := n.Value.(type) {
		case int64:
			f = float64(i)
		case uint64:
			f = float64(i)
		}
	case *ast.FloatNode:
		if whole {
			d.wrongType(n, path, want)
			return 0
		}
		f = n.Value
	default:
		d.wrongType(n, path, want)
		return 0
	}
	if !unbounded && !(f >= r.min && f <= r.max) {
		d.outOfBounds(n.GetToken().Value, path, fmt.Sprintf("%.0f to %.0f", r.min, r.max), r.unset)
		return 0
	}
	return f
}

func (d *document) outOfBounds(is, path, bounds, unset string) {
	if unset != "" {
		unset = "; omit it for " + unset
	}
	d.fail(d.places[path], path, KindInvalid, "is %s, must be %s%s", is, bounds, unset)
}

// duration decodes a duration such as 30s or 10m. A minimum of 0 is exclusive.
func (d *document) duration(n ast.Node, path string, r fieldRule) time.Duration {
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		d.fail(d.places[path], path, KindType, "%s has no unit: write it like %[1]ss or %[1]sm", n.GetToken().Value)
		return 0
	}
	s := d.text(n, path, reflect.TypeFor[string](), fieldRule{})
	if s == "" {
		return 0
	}
	t, err := time.ParseDuration(s)
	switch {
	case err != nil:
		d.fail(d.places[path], path, KindInvalid, "%q is not a duration: write a number with its unit, such as 500ms, 30s, 10m or 1h30m", s)
	case t <= 0 || float64(t) < r.min || float64(t) > r.max:
		bounds := "positive and at most "
		if r.min > 0 {
			bounds = short(time.Duration(r.min)) + " to "
		}
		d.outOfBounds(s, path, bounds+short(time.Duration(r.max)), r.unset)
	default:
		return t
	}
	return 0
}

// short formats a duration without trailing zeros: 10m, not 10m0s.
func short(t time.Duration) string { return signals.Duration(t).String() }

var units = []struct {
	name  string
	bytes int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"KB", 1000}, {"MB", 1000 * 1000}, {"B", 1}}

// size decodes a size such as 64KiB, or a number of bytes.
func (d *document) size(n ast.Node, path string, r fieldRule) float64 {
	s := ""
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		s = n.GetToken().Value
	default:
		if s = d.text(n, path, reflect.TypeFor[string](), fieldRule{}); s == "" {
			return 0
		}
	}
	digits, unit := s, 1
	for _, u := range units {
		if len(s) > len(u.name) && strings.EqualFold(s[len(s)-len(u.name):], u.name) {
			digits, unit = strings.TrimSpace(s[:len(s)-len(u.name)]), u.bytes
			break
		}
	}
	i, err := strconv.ParseInt(digits, 10, 64)
	bytes := float64(i) * float64(unit)
	switch {
	case err != nil:
		d.fail(d.places[path], path, KindInvalid, "%q is not a size: write a whole number of bytes, or one with its unit, such as 64KiB or 1MiB", s)
	case bytes < r.min || bytes > r.max:
		d.outOfBounds(s, path, fmt.Sprintf("%s to %s", bytesText(int(r.min)), bytesText(int(r.max))), r.unset)
	default:
		return bytes
	}
	return 0
}

func bytesText(n int) string {
	switch {
	case n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "MiB"
	case n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "KiB"
	}
	return strconv.Itoa(n) + "B"
}

// decodeAny decodes any value with a JSON form.
func (d *document) decodeAny(n ast.Node, path string, v reflect.Value) {
	before := d.values
	if out := d.json(n, path, maxDepth); out != nil {
		v.Set(reflect.ValueOf(out))
	}
	if before <= maxValues && d.values > maxValues {
		d.fail(d.places[path], path, KindLimit, "is too much: a file has at most %d values in its schemas and conditions, at most %d deep", maxValues, maxDepth)
	}
}

func (d *document) json(n ast.Node, path string, depth int) any {
	d.values++
	if depth == 0 {
		d.values = maxValues + 1
	}
	if d.values > maxValues {
		return nil
	}
	switch n := d.resolve(n).(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.StringNode:
		return scalar(n)
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.IntegerNode:
		return json.Number(fmt.Sprint(n.Value)) // exact, unlike a float64
	case *ast.FloatNode:
		return n.Value
	case *ast.SequenceNode:
		list := []any{}
		for i, item := range n.Values {
			inner := fmt.Sprintf("%s[%d]", path, i)
			d.at(item, inner, place(item))
			list = append(list, d.json(item, inner, depth-1))
		}
		return list
	case *ast.MappingNode:
		object := map[string]any{}
		for _, e := range d.entries(n, path) {
			object[e.key] = d.json(e.node, e.path, depth-1)
		}
		return object
	}
	d.wrongType(n, path, "text, a number, true, false, a list or a mapping")
	return nil
}

// scalar returns a text, or a number that is too large for the parser, which returns it as text.
func scalar(n *ast.StringNode) any {
	number := json.Number(n.Value)
	if _, err := json.Marshal(number); err != nil || n.Value == "" || n.GetToken().Type != token.StringType {
		return n.Value
	}
	return number
}
