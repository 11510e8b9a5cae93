package event

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/threadmill/threadmill/internal/strictjson"
)

// MaxDepth is the maximum nesting depth of objects and arrays in JSON input.
const MaxDepth = strictjson.MaxDepth

// ValidateJSON reports, as a [*FieldError], why data, the value of a field, is not unambiguous JSON:
// names must be unique, text must be valid Unicode, and objects and arrays at most [MaxDepth] deep.
func ValidateJSON(field string, data []byte) error { return jsonError(field, strictjson.Check(data)) }

// DecodeJSON decodes data, the value of a field, into v. data must pass [ValidateJSON], and names must
// match exactly: package json would accept By for by. Unknown names are ignored. The error is a
// [*FieldError]. The field "" denotes a whole input, which may be a few levels deeper than the
// values in it.
func DecodeJSON(field string, data []byte, v any) error {
	return jsonError(field, strictjson.Decode(data, v, modeOf(field)))
}

// DecodeKnownJSON is [DecodeJSON], but rejects unknown names.
func DecodeKnownJSON(field string, data []byte, v any) error {
	return jsonError(field, strictjson.Decode(data, v, modeOf(field)|strictjson.Known))
}

func modeOf(field string) strictjson.Mode {
	if field == "" {
		return strictjson.Envelope
	}
	return 0
}

func jsonError(field string, err error) error {
	if err == nil {
		return nil
	}
	var known *FieldError
	if errors.As(err, &known) {
		return known
	}
	at := &strictjson.Error{Problem: "is not valid JSON: " + err.Error()}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		kind, _, _ := strings.Cut(mismatch.Value, " ")
		at = &strictjson.Error{Path: mismatch.Field, Problem: "cannot be of type " + kind}
	}
	errors.As(err, &at)
	switch {
	case at.Path == "" && field == "":
		field = "input"
	case field == "":
		field = at.Path
	case at.Path != "" && at.Path[0] == '[':
		field += at.Path
	case at.Path != "":
		field += "." + at.Path
	}
	return FieldErrorf(field, "%s", at.Problem)
}
