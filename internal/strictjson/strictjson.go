// Package strictjson reads JSON that means the same to everybody who reads it.
//
// What is checked must be what runs. JSON leaves to each reader what becomes of a name
// that stands twice in an object, and of text that is no Unicode: one takes the first,
// another the last. Here both are mistakes.
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

// MaxDepth is how deep objects and lists may lie in each other.
const MaxDepth = 1000

// Parse reads one JSON value: map[string]any, []any, string, [json.Number], bool or nil.
// Numbers keep their text. An error names the field that is wrong.
func Parse(text string) (any, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("the text is not UTF-8")
	}
	// The decoder below reads token by token, and leaves it to others that these follow
	// each other as they must.
	if err := json.Unmarshal([]byte(text), new(json.RawMessage)); err != nil {
		return nil, err
	}
	if half := halfCharacter(text); half != "" {
		return nil, fmt.Errorf("%s is half of a character: write it as a whole", half)
	}
	r := &reader{dec: json.NewDecoder(strings.NewReader(text))}
	r.dec.UseNumber()
	return r.value()
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

type reader struct {
	dec *json.Decoder

	// path leads to the value that is read.
	path []step
}

// step is a name in an object, or a place in a list.
type step struct {
	name string
	at   int
	list bool
}

func (r *reader) value() (any, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	delim, nested := token.(json.Delim)
	switch {
	case !nested:
		return token, nil
	case len(r.path) == MaxDepth:
		return nil, fmt.Errorf("there are more than %d levels of objects and lists", MaxDepth)
	case delim == '{':
		return r.object()
	}
	return r.list()
}

func (r *reader) object() (any, error) {
	object := map[string]any{}
	for r.dec.More() {
		token, err := r.dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string) // valid JSON has no other names
		r.path = append(r.path, step{name: name})
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("%s: is given twice, keep one of them", r.place())
		}
		if object[name], err = r.value(); err != nil {
			return nil, err
		}
		r.path = r.path[:len(r.path)-1]
	}
	_, err := r.dec.Token()
	return object, err
}

func (r *reader) list() (any, error) {
	list := []any{}
	for r.dec.More() {
		r.path = append(r.path, step{at: len(list), list: true})
		item, err := r.value()
		if err != nil {
			return nil, err
		}
		list = append(list, item)
		r.path = r.path[:len(r.path)-1]
	}
	_, err := r.dec.Token()
	return list, err
}

// place writes the path as in args.files[2].name.
func (r *reader) place() string {
	var b strings.Builder
	for i, s := range r.path {
		switch {
		case s.list:
			fmt.Fprintf(&b, "[%d]", s.at)
		case i > 0:
			b.WriteString("." + s.name)
		default:
			b.WriteString(s.name)
		}
	}
	return b.String()
}

// halfCharacter finds an escape such as \ud800 without its other half: readers replace it,
// each in its own way. In valid JSON, backslashes stand in texts only.
func halfCharacter(text string) string {
	for {
		i := strings.IndexByte(text, '\\')
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
			return text[:6]
		}
		text = text[12:]
	}
}

// escaped returns the number of an escape such as \u00e9 that text begins with.
func escaped(text string) (rune, bool) {
	if len(text) < 6 || !strings.HasPrefix(text, `\u`) {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n), err == nil
}
