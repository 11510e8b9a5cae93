package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// strictly decodes JSON, and rejects fields that v does not have.
func strictly(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		return nil
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return errors.New("Unknown parameter: " + name)
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// isObjectSchema reports whether a schema is that of objects, which all providers require of the
// arguments of calls.
func isObjectSchema(schema json.RawMessage) bool {
	var in struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	return json.Unmarshal(schema, &in) == nil && in.Type == "object"
}
