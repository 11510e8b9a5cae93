package rule

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
)

// view is an event as JSON, which is decoded only as far as conditions require.
type view struct {
	event             event.EnvEvent
	metadata, payload *any
}

// at returns the value of a field, if the event has it.
func (s *view) at(path string) (any, bool) {
	head, rest, deeper := strings.Cut(path, ".")
	var v any
	switch head {
	case "id":
		v = s.event.ID
	case "type":
		v = s.event.Type
	case "timestamp":
		v = json.Number(strconv.FormatInt(s.event.Timestamp, 10))
	case "metadata":
		if s.metadata == nil {
			got, _ := plain(s.event.Metadata)
			s.metadata = &got
		}
		v = *s.metadata
	case "payload":
		if s.payload == nil {
			s.payload = new(any)
			_ = decode(s.event.Payload, s.payload) // invalid JSON has no fields
		}
		v = *s.payload
	default:
		return nil, false
	}
	if !deeper {
		return v, true
	}
	return inside(v, rest)
}

// inside follows a path into objects and, by index, into arrays.
func inside(v any, path string) (any, bool) {
	for part := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			found, ok := in[part]
			if !ok {
				return nil, false
			}
			v = found
		case []any:
			i, err := strconv.ParseUint(part, 10, 31)
			if err != nil || int(i) >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// plain returns a value as decoded from its JSON form.
func plain(v any) (any, error) {
	switch s, text := v.(string); {
	case v == nil, text && utf8.ValidString(s):
		return v, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	err = decode(raw, &out)
	return out, err
}

// equals compares a value of an event with a value of a condition.
func equals(v, want any) bool {
	want, err := plain(want)
	return err == nil && same(v, want)
}

// contains reports whether a string contains a substring, or an array an element.
func contains(v, want any) bool {
	switch v := v.(type) {
	case string:
		part, ok := want.(string)
		return ok && strings.Contains(v, part)
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return equals(element, want) })
	}
	return false
}

// same compares two values that were decoded from JSON. Numbers are compared by value.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && decimal(a) == decimal(b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && sameObjects(a, b)
	}
	switch b.(type) {
	case []any, map[string]any:
		return false // == cannot compare these
	}
	return a == b
}

func sameObjects(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	// The order makes no difference.
	//workflowcheck:ignore
	for key, v := range a {
		if other, ok := b[key]; !ok || !same(v, other) {
			return false
		}
	}
	return true
}

// decimal returns the one normal form of a number: 1, 1.0 and 10e-1 are equal. As float64,
// different large ids would be equal too.
func decimal(n json.Number) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	point := len(whole)
	if exponent != "" {
		shift, err := strconv.Atoi(exponent)
		if err != nil {
			return string(n) // too large for the normal form
		}
		point += shift
	}
	all := whole + fraction
	digits := strings.TrimLeft(all, "0")
	point -= len(all) - len(digits)
	digits = strings.TrimRight(digits, "0")
	switch {
	case digits == "":
		return "0"
	case negative:
		digits = "-" + digits
	}
	return digits + "e" + strconv.Itoa(point)
}

// number returns a number for comparison with a bound. A number out of range is infinite.
func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, _ := strconv.ParseFloat(string(n), 64)
	return f, true
}
