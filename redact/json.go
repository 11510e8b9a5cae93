package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// JSON redacts the strings, numbers and names of a JSON document. A number that is redacted becomes a string. The rest of the document
// remains as it is, byte by byte. keep are names of the outermost object whose values are not redacted, such as ids.
func (r *Redactor) JSON(document json.RawMessage, keep ...string) json.RawMessage {
	if r == nil || len(document) == 0 {
		return document
	}
	if !json.Valid(document) {
		return json.RawMessage(r.plain(string(document)))
	}
	return r.document(document, 0, keep...)
}

// document redacts a valid document that is within a number of others.
func (r *Redactor) document(document json.RawMessage, within int, keep ...string) json.RawMessage {
	w := &walk{r: r, in: document, within: within, dec: json.NewDecoder(bytes.NewReader(document)), keep: keep}
	w.dec.UseNumber()
	if w.value(0, false) != nil {
		return json.RawMessage(r.plain(string(document)))
	}
	if w.copied == 0 {
		return document
	}
	return append(w.out, document[w.copied:]...)
}

// Value redacts any value that has a JSON form. Of what it changes, the numbers become a [json.Number].
func (r *Redactor) Value(v any) any {
	if r == nil || v == nil {
		return v
	}
	before, err := json.Marshal(v)
	if err != nil {
		return v
	}
	after := r.JSON(before)
	if bytes.Equal(before, after) {
		return v
	}
	var out any
	d := json.NewDecoder(bytes.NewReader(after))
	d.UseNumber()
	if d.Decode(&out) != nil {
		return nil // not kept rather than kept as it is
	}
	return out
}

// Map is [Redactor.Value] for an object.
func (r *Redactor) Map(m map[string]any) map[string]any {
	if len(m) == 0 {
		return m
	}
	out, _ := r.Value(m).(map[string]any)
	return out
}

// maxWithin is how many documents may be within each other's strings. A text within more is not read as JSON: each would be read once more.
const maxWithin = 8

// isDocument reports whether a text is a JSON object or array.
func isDocument(text string) bool {
	trimmed := strings.TrimSpace(text)
	return trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(text))
}

// walk redacts one document.
type walk struct {
	r    *Redactor
	in   []byte
	dec  *json.Decoder
	keep []string

	// within is the number of documents in whose strings it is.
	within int

	// out is the redacted document up to the byte copied of in.
	out    []byte
	copied int

	// taken are the strings of the document and the names that have been given. Nil until a name is redacted.
	taken map[string]bool

	// last are the last numbers that were given to names.
	last map[string]int
}

// value redacts the next value.
func (w *walk) value(depth int, kept bool) error {
	from := w.dec.InputOffset()
	token, err := w.dec.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		// An id has no parts: none of them is kept.
		if t == '{' {
			return w.object(depth)
		}
		for w.dec.More() {
			if err := w.value(depth+1, false); err != nil {
				return err
			}
		}
		_, err = w.dec.Token()
		return err
	case string:
		if clean := w.r.text(t, w.within+1); clean != t && !kept {
			w.replace(from, clean)
		}
	case json.Number:
		if strings.ContainsAny(t.String(), ".eE") {
			return nil // a measure, not a number of anything
		}
		if clean := w.r.plain(t.String()); clean != t.String() && !kept {
			w.replace(from, clean)
		}
	}
	return nil
}

func (w *walk) object(depth int) error {
	for w.dec.More() {
		from := w.dec.InputOffset()
		token, err := w.dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		keeps := depth == 0 && slices.Contains(w.keep, name)
		if clean := w.r.text(name, w.within+1); clean != name && !keeps {
			w.replace(from, w.unique(clean))
		}
		if err := w.value(depth+1, keeps); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

// unique returns a name that no object of the document has, since two names may become the same, and an object must not have one twice.
func (w *walk) unique(clean string) string {
	if w.taken == nil {
		w.taken, w.last = map[string]bool{}, map[string]int{}
		// More than the names: any string.
		for dec := json.NewDecoder(bytes.NewReader(w.in)); ; {
			token, err := dec.Token()
			if err != nil {
				break
			}
			if text, ok := token.(string); ok {
				w.taken[text] = true
			}
		}
	}
	name, n := clean, w.last[clean]
	for w.taken[name] {
		n = max(n+1, 2)
		name = clean + strconv.Itoa(n)
	}
	w.taken[name], w.last[clean] = true, n
	return name
}

// replace replaces the token that has just been read, which begins behind from.
func (w *walk) replace(from int64, clean string) {
	start := int(from) + bytes.IndexFunc(w.in[from:], func(c rune) bool { return !strings.ContainsRune(" \t\r\n,:", c) })
	text, _ := json.Marshal(clean)
	w.out = append(append(w.out, w.in[w.copied:start]...), text...)
	w.copied = int(w.dec.InputOffset())
}
