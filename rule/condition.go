package rule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
)

// UnmarshalJSON keeps numbers as written: as float64 they would lose digits, and a rule would
// change when it is stored.
func (c *Condition) UnmarshalJSON(data []byte) error {
	type fields Condition
	var f fields
	if err := decode(data, &f); err != nil {
		return err
	}
	*c = Condition(f)
	return nil
}

// decode decodes JSON with numbers as [json.Number].
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}

// holds reports whether the condition holds for an event. For a missing field, only Not and Exists
// can hold.
func (c Condition) holds(seen *view) bool {
	v, there := seen.at(c.Field)
	switch {
	case c.Exists != nil:
		return (there && v != nil) == *c.Exists
	case c.Not != nil:
		return !there || !equals(v, c.Not)
	case !there:
		return false
	case c.Equals != nil:
		return equals(v, c.Equals)
	case c.In != nil:
		return slices.ContainsFunc(c.In, func(want any) bool { return equals(v, want) })
	case c.Above != nil:
		n, ok := number(v)
		return ok && n > *c.Above
	case c.Below != nil:
		n, ok := number(v)
		return ok && n < *c.Below
	case c.Prefix != "":
		s, ok := v.(string)
		return ok && strings.HasPrefix(s, c.Prefix)
	case c.Contains != nil:
		return contains(v, c.Contains)
	}
	return false
}

// test is one of the tests of a condition. name is its name in JSON.
type test struct {
	name string
	set  bool
}

func (c Condition) tests() []test {
	return []test{
		{"equals", c.Equals != nil},
		{"not", c.Not != nil},
		{"in", c.In != nil},
		{"above", c.Above != nil},
		{"below", c.Below != nil},
		{"prefix", c.Prefix != ""},
		{"contains", c.Contains != nil},
		{"exists", c.Exists != nil},
	}
}

// Validate reports the first missing or invalid field, as an [*event.FieldError].
func (c Condition) Validate() error {
	if problem := fieldProblem(c.Field); problem != "" {
		return event.FieldErrorf("field", "%s", problem)
	}
	var set, others []string
	for _, t := range c.tests() {
		if t.set {
			set = append(set, t.name)
		} else {
			others = append(others, t.name)
		}
	}
	switch len(set) {
	case 0:
		return event.FieldErrorf(others[0], "is required, or another test: one of %s", strings.Join(others[1:], ", "))
	case 1:
		return c.validateTest(set[0])
	}
	return event.FieldErrorf(set[1], "and %s exclude each other: a condition has one test, so write two conditions", set[0])
}

// validateTest validates the one test that is set.
func (c Condition) validateTest(name string) error {
	for _, bound := range []*float64{c.Above, c.Below} {
		if bound != nil && (math.IsNaN(*bound) || math.IsInf(*bound, 0)) {
			return event.FieldErrorf(name, "is %g, must be a number", *bound)
		}
	}
	if c.In != nil && len(c.In) == 0 {
		return event.FieldErrorf(name, "is empty: name at least one value")
	}
	if !utf8.ValidString(c.Prefix) {
		return event.FieldErrorf(name, "is not UTF-8 text")
	}
	for _, v := range append([]any{c.Equals, c.Not, c.Contains}, c.In...) {
		got, err := plain(v)
		switch {
		case err != nil:
			return event.FieldErrorf(name, "has no JSON form: %s", err)
		case got == nil && v != nil:
			return event.FieldErrorf(name, "is null: test with exists whether there is a value")
		}
	}
	return nil
}

// fieldProblem returns the problem of a field path, or "".
func fieldProblem(path string) string {
	head, rest, deeper := strings.Cut(path, ".")
	switch head {
	case "":
		return "is required: a path into the event, such as payload.branch"
	case "id", "type", "timestamp":
		if deeper {
			return fmt.Sprintf("%q: %s has no fields", path, head)
		}
	case "metadata", "payload":
		if deeper && slices.Contains(strings.Split(rest, "."), "") {
			return fmt.Sprintf("%q has an empty part: write it like payload.commits.0.author", path)
		}
	default:
		return fmt.Sprintf("%q must begin with id, type, timestamp, metadata or payload", path)
	}
	if !utf8.ValidString(path) {
		return "is not UTF-8 text"
	}
	return ""
}
