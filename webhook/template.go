package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Fields of templates, and the prefixes of those with a name or path.
const (
	sourceField  = "source"
	payloadField = "payload"
	headerPrefix = "header."
)

var (
	headerForm  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	payloadForm = regexp.MustCompile(`^payload(\.[^.]+)*$`)
)

// template is a sequence of texts and fields.
type template []part

// part is a text or a field.
type part struct {
	text  string
	field string
}

func parse(s string) (template, error) {
	var t template
	for s != "" {
		text, rest, open := strings.Cut(s, "{")
		if strings.Contains(text, "}") {
			return nil, errors.New("has a } without a { before it")
		}
		if text != "" {
			t = append(t, part{text: text})
		}
		if !open {
			return t, nil
		}
		field, after, closed := strings.Cut(rest, "}")
		if !closed {
			return nil, errors.New("has a { without a } behind it")
		}
		if err := checkField(field); err != nil {
			return nil, err
		}
		t, s = append(t, part{field: field}), after
	}
	return t, nil
}

func checkField(field string) error {
	header, isHeader := strings.CutPrefix(field, headerPrefix)
	switch {
	case field == sourceField, payloadForm.MatchString(field), isHeader && headerForm.MatchString(header):
		return nil
	}
	return fmt.Errorf("has {%s}: write {payload.path.to.field}, {header.Name} or {source}", field)
}

// varies reports whether the text depends on the request.
func (t template) varies() bool {
	for _, p := range t {
		if p.field != "" && p.field != sourceField {
			return true
		}
	}
	return false
}

func (e Event) check(m *mistakes) {
	parsed := map[string]template{}
	for _, f := range []struct{ field, text string }{
		{"type", e.Type},
		{"thread", e.Thread},
		{"id", e.ID},
		{"envName", e.EnvName},
		{"payload", e.Payload},
		{"timestamp", e.Timestamp},
		{"title", e.Title},
	} {
		t, err := parse(f.text)
		if err != nil {
			m.add("event."+f.field, "%v", err)
			continue
		}
		parsed[f.field] = t
	}
	if e.Type == "" {
		m.add("event.type", "is required: what has happened, such as github.{header.X-GitHub-Event}")
	} else if t := parsed["type"]; len(t) == 1 && t[0].text != "" {
		checkType(m, e.Type)
	}
	if e.Thread == "" {
		m.add("event.thread", "is required: the thread that the event is for, such as {payload.repository.full_name}")
	}
	if t, ok := parsed["id"]; ok && len(t) > 0 && !t.varies() {
		m.add("event.id", "is the same for all requests, so that all but the first would be duplicates: put a field of the request into it")
	}
	if t, ok := parsed["timestamp"]; ok && len(t) > 0 && !t.varies() {
		m.add("event.timestamp", "is the same for all requests: put a field of the request into it")
	}
	if t, ok := parsed["payload"]; ok && len(t) > 0 && (len(t) > 1 || !payloadForm.MatchString(t[0].field)) {
		m.add("event.payload", "must be a single field of the body, such as {payload.data.object}")
	}
	e.checkStart(m)
}

// checkType validates a type that is the same for all requests.
func checkType(m *mistakes, typ string) {
	var field *event.FieldError
	if err := valid(event.EnvEvent{Type: typ}); errors.As(err, &field) && field.Field == "event.type" {
		m.add(field.Field, "%s", field.Problem)
	}
}

func (e Event) checkStart(m *mistakes) {
	if e.Title != "" && !e.Open {
		m.add("event.title", "is that of threads that are opened: set open as well, or remove it")
	}
	if len(e.Agents) > 0 && !e.Open {
		m.add("event.agents", "are those of threads that are opened: set open as well, or remove them")
	}
	for i, name := range e.Agents {
		field := fmt.Sprintf("event.agents[%d]", i)
		var problem *event.FieldError
		if err := signals.ValidateID(field, name); errors.As(err, &problem) {
			m.add(field, "%s", problem.Problem)
		}
	}
}

// request contains the values for templates.
type request struct {
	source string
	header http.Header
	body   json.RawMessage
}

// fill returns the text of a template. purpose is the field that contains the template.
func (r request) fill(purpose, text string) (string, error) {
	t, err := parse(text)
	if err != nil {
		return "", event.FieldErrorf(purpose, "%v", err)
	}
	var b strings.Builder
	for _, p := range t {
		if p.field == "" {
			b.WriteString(p.text)
			continue
		}
		value, err := r.text(p.field)
		if err != nil {
			return "", needed(purpose, err)
		}
		b.WriteString(value)
	}
	return b.String(), nil
}

// needed adds the purpose of a field to an error about it.
func needed(purpose string, err error) error {
	var field *event.FieldError
	if errors.As(err, &field) {
		return event.FieldErrorf(field.Field, "%s; %s is made of it", field.Problem, purpose)
	}
	return err
}

func (r request) text(field string) (string, error) {
	if field == sourceField {
		return r.source, nil
	}
	if name, ok := strings.CutPrefix(field, headerPrefix); ok {
		values := r.header.Values(name)
		if len(values) == 0 {
			return "", event.FieldErrorf(field, "is missing in the request")
		}
		return values[0], nil
	}
	raw, err := r.value(field)
	if err != nil {
		return "", err
	}
	return scalar(field, raw)
}

// value returns the value at a path of the body.
func (r request) value(field string) (json.RawMessage, error) {
	at := r.body
	keys := strings.Split(field, ".")
	for i, key := range keys[1:] {
		next, ok := child(at, key)
		if !ok {
			return nil, event.FieldErrorf(field, "is missing: %s has no %q", strings.Join(keys[:i+1], "."), key)
		}
		at = next
	}
	return at, nil
}

// child returns a field of an object or an item of an array. Indexes start at 0.
func child(raw json.RawMessage, key string) (json.RawMessage, bool) {
	switch kind(raw) {
	case '{':
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return nil, false
		}
		value, ok := object[key]
		return value, ok
	case '[':
		var list []json.RawMessage
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || json.Unmarshal(raw, &list) != nil || i >= len(list) {
			return nil, false
		}
		return list[i], true
	}
	return nil, false
}

// kind returns the first character of a JSON value, which determines its type.
func kind(raw json.RawMessage) byte {
	for _, c := range raw {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

// scalar returns a value as text. Numbers are unchanged.
func scalar(field string, raw json.RawMessage) (string, error) {
	switch kind(raw) {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{':
		return "", event.FieldErrorf(field, "is an object, must be a text, a number or a boolean")
	case '[':
		return "", event.FieldErrorf(field, "is a list, must be a text, a number or a boolean")
	case 'n', 0:
		return "", event.FieldErrorf(field, "is null, must be a text, a number or a boolean")
	}
	return strings.TrimSpace(string(raw)), nil
}
