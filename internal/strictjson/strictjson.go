// Package strictjson reads JSON that means the same to every reader.
//
// A value that is checked must be the value that runs. JSON leaves duplicate names and
// broken Unicode to each reader, package json ignores the case of names, and deep nesting
// exhausts the stack of a later reader. All of these are errors here.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep objects and lists may be nested: the one limit for all JSON that
// comes from outside.
const MaxDepth = 64

// envelope is how much deeper an [Envelope] may be.
const envelope = 8

// Mode changes how a struct is read.
type Mode int

const (
	// Known makes an unknown name an error. Without it, only one that differs from a known
	// name in case is.
	Known Mode = 1 << iota

	// Envelope is for structs that hold values from elsewhere, which may have MaxDepth
	// levels themselves.
	Envelope
)

// Error says where a value is wrong.
type Error struct {
	// Path is the place, as in args.files[2].name. Empty = the whole value.
	Path    string
	Problem string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// Check reports, as an [*Error] or an error of package json, why data is not one JSON value
// with one meaning.
func Check(data []byte) error { return check(data, nil, 0) }

// CheckAs is [Check] with the names of v, as [Decode] takes them.
func CheckAs(data []byte, v any, mode Mode) error { return check(data, shapeOf(v), mode) }

// Decode reads data into v, as [json.Unmarshal] does, after [Check]. The fields of structs
// are known by their exact names. Types with an UnmarshalJSON look after their own names.
func Decode(data []byte, v any, mode Mode) error {
	if err := CheckAs(data, v, mode); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// Parse reads one JSON value: map[string]any, []any, string, [json.Number], bool or nil.
// Numbers keep their text.
func Parse(text string) (any, error) {
	if err := Check([]byte(text)); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var value any
	err := dec.Decode(&value)
	return value, err
}

// Object is [Parse] for the arguments of a call: an object, which may be left out.
func Object(text string) (map[string]any, error) {
	if strings.TrimSpace(text) == "" {
		return map[string]any{}, nil
	}
	value, err := Parse(text)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("it must be a JSON object")
	}
	return object, nil
}

// Canonical is the one form of all objects that mean the same: names are sorted and
// nothing stands between values, while numbers and texts are as they were written.
func Canonical(text string) ([]byte, error) {
	object, err := Object(text)
	if err != nil {
		return nil, err
	}
	return Encode(object)
}

// Encode writes a value in its canonical form. Go's encoder sorts the names of maps.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func check(data []byte, s *shape, mode Mode) error {
	if !utf8.Valid(data) {
		return &Error{Problem: "the text is not UTF-8"}
	}
	depth := MaxDepth
	if mode&Envelope != 0 {
		depth += envelope
	}
	if tooDeep(data, depth) {
		return &Error{Problem: fmt.Sprintf("there are more than %d levels of objects and lists", MaxDepth)}
	}
	// The walk below relies on valid JSON. Unmarshal, unlike Valid, says what is wrong.
	if !json.Valid(data) {
		if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
			return err
		}
	}
	if half := halfCharacter(data); half != "" {
		return &Error{Problem: fmt.Sprintf("%s is half of a character: write it as a whole", half)}
	}
	w := walker{data: data, known: mode&Known != 0}
	return w.value(s)
}

// tooDeep reports nesting beyond limit. It takes any text, so that nothing recursive sees
// one that is too deep.
func tooDeep(data []byte, limit int) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			i = endOfText(data, i) - 1
		}
	}
	return false
}

// endOfText returns the place behind the text that begins at start.
func endOfText(data []byte, start int) int {
	for at := start + 1; ; {
		quote := bytes.IndexByte(data[at:], '"')
		if quote < 0 {
			return len(data)
		}
		quote += at
		escapes := 0
		for quote-escapes > at && data[quote-1-escapes] == '\\' {
			escapes++
		}
		at = quote + 1
		if escapes%2 == 0 {
			return at
		}
	}
}

// walker goes through valid JSON and compares its names with a shape.
type walker struct {
	data  []byte
	at    int
	path  []step
	known bool
}

// step is a name in an object, or a place in a list.
type step struct {
	name string
	at   int
	list bool
}

func (w *walker) value(s *shape) error {
	switch w.next() {
	case '{':
		return w.object(s)
	case '[':
		return w.list(s)
	case '"':
		w.at = endOfText(w.data, w.at)
	default:
		return w.word()
	}
	return nil
}

// word goes past a number, true, false or null.
func (w *walker) word() error {
	start := w.at
	for w.at < len(w.data) && strings.IndexByte(",]} \t\r\n", w.data[w.at]) < 0 {
		w.at++
	}
	// Only these can be beyond what readers keep numbers in, which would be infinity for
	// some and an error for others.
	text := w.data[start:w.at]
	if len(text) > 300 || bytes.ContainsAny(text, "E") || bytes.IndexByte(text, 'e') > 0 && text[0] <= '9' {
		if _, err := strconv.ParseFloat(string(text), 64); err != nil {
			return w.wrong("the number %.32q is out of range", text)
		}
	}
	return nil
}

// next returns the next character that means something, and stays before it.
func (w *walker) next() byte {
	for w.at < len(w.data) {
		switch c := w.data[w.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			w.at++
		default:
			return c
		}
	}
	return 0
}

func (w *walker) object(s *shape) error {
	w.at++
	var names names
	for w.next() != '}' {
		name := w.name()
		w.path = append(w.path, step{name: name})
		if !names.add(name) {
			return w.wrong("is given twice, keep one of them")
		}
		field, problem := s.field(name, w.known)
		if problem != "" {
			return w.wrong("%s", problem)
		}
		if err := w.value(field); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	w.at++
	return nil
}

// name reads the name of a field.
func (w *walker) name() string {
	start := w.at
	w.at = endOfText(w.data, start)
	raw := w.data[start:w.at]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var name string
	_ = json.Unmarshal(raw, &name) // it is valid
	return name
}

func (w *walker) list(s *shape) error {
	w.at++
	item := s.item()
	for i := 0; w.next() != ']'; i++ {
		w.path = append(w.path, step{at: i, list: true})
		if err := w.value(item); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	w.at++
	return nil
}

func (w *walker) wrong(format string, args ...any) error {
	return &Error{Path: w.place(), Problem: fmt.Sprintf(format, args...)}
}

// maxPlace bounds a path in an error: its names may be long.
const maxPlace = 256

// place writes the path as in args.files[2].name.
func (w *walker) place() string {
	var b strings.Builder
	for i, s := range w.path {
		switch {
		case s.list:
			fmt.Fprintf(&b, "[%d]", s.at)
		case i > 0:
			b.WriteString("." + s.name)
		default:
			b.WriteString(s.name)
		}
	}
	if b.Len() > maxPlace {
		return strings.ToValidUTF8(b.String()[:maxPlace], "") + "…"
	}
	return b.String()
}

// names are those of one object. Most objects have few.
type names struct {
	few  []string
	many map[string]bool
}

// add reports whether the name is new.
func (n *names) add(name string) bool {
	const few = 16
	if n.many == nil {
		for _, other := range n.few {
			if other == name {
				return false
			}
		}
		if n.few = append(n.few, name); len(n.few) <= few {
			return true
		}
		n.many = make(map[string]bool, 2*few)
		for _, other := range n.few {
			n.many[other] = true
		}
		return true
	}
	if n.many[name] {
		return false
	}
	n.many[name] = true
	return true
}

// halfCharacter finds an escape such as \ud800 without its other half: readers replace it,
// each in its own way. In valid JSON, backslashes stand in texts only.
func halfCharacter(text []byte) string {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return ""
		}
		text = text[i:]
		first, ok := escaped(text)
		if !ok {
			text = text[2:]
			continue
		}
		if !utf16.IsSurrogate(first) {
			text = text[6:]
			continue
		}
		second, ok := escaped(text[6:])
		if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
			return string(text[:6])
		}
		text = text[12:]
	}
}

// escaped returns the number of an escape such as \u00e9 that text begins with.
func escaped(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}
