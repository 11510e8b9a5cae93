package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/tool"
)

// Bounds of the schema of a tool's arguments.
const (
	maxSchema      = 64 << 10
	maxSchemaDepth = 32
)

// parameters returns a server's schema of a tool's arguments as models get it, with clean and redacted texts, or the
// reason why it cannot be used.
func parameters(schema any, r *redact.Redactor) (json.RawMessage, error) {
	object, ok := schema.(map[string]any)
	switch {
	case schema == nil:
		return nil, errors.New("it has no schema of its arguments (inputSchema)")
	case !ok:
		return nil, errors.New("its inputSchema is not a JSON Schema, an object")
	case object["type"] != "object":
		return nil, errors.New(`its inputSchema must have the type "object"`)
	}
	cleaned, err := cleanSchema(object, r, 0)
	if err != nil {
		return nil, fmt.Errorf("its inputSchema %w", err)
	}
	root := cleaned.(map[string]any)
	delete(root, "$id") // references are within the schema
	if _, err := encodeSchema(root); err != nil {
		return nil, err
	}
	if err := acyclic(root); err != nil {
		return nil, fmt.Errorf("its inputSchema %w", err)
	}
	raw, err := encodeSchema(root)
	if err != nil {
		return nil, err
	}
	if err := check(raw); err != nil {
		// Drafts that the validator does not know are close enough to the one it does.
		delete(root, "$schema")
		if raw, err = encodeSchema(root); err != nil {
			return nil, err
		}
		if err := check(raw); err != nil {
			return nil, fmt.Errorf("its inputSchema is not valid: %s", line(err.Error(), maxReason))
		}
	}
	return raw, nil
}

func encodeSchema(schema any) (json.RawMessage, error) {
	raw, err := strictjson.Encode(schema)
	if err != nil {
		return nil, fmt.Errorf("its inputSchema cannot be encoded: %w", err)
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("its inputSchema has %d bytes, must have at most %d", len(raw), maxSchema)
	}
	return raw, nil
}

// check reports whether arguments can be validated against a schema.
func check(schema json.RawMessage) error {
	err := tool.Definition{Name: "tool", Parameters: schema}.ValidateArguments("{}")
	var wrong *tool.ArgumentError
	if errors.As(err, &wrong) { // it can, and {} is not valid
		return nil
	}
	return err
}

// prose are the keywords whose values are text for the reader.
var prose = []string{"description", "title", "$comment"}

// cleanSchema cleans the texts for readers, and fails for other text with control characters: to
// change that would change the meaning. It redacts all values, and fails for names that would be redacted: the server knows no others.
func cleanSchema(value any, r *redact.Redactor, depth int) (any, error) {
	if depth > maxSchemaDepth {
		return nil, fmt.Errorf("is nested more than %d levels deep", maxSchemaDepth)
	}
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if hides(name) {
				return nil, fmt.Errorf("has a name with control characters: %s", line(name, maxTitle))
			}
			if shown := r.Text(name); shown != name {
				return nil, fmt.Errorf("has a name with text that is redacted: %s", line(shown, maxTitle))
			}
			if text, ok := v[name].(string); ok && slices.Contains(prose, name) {
				out[name] = clean(r.Text(text), maxDescription)
				continue
			}
			field, err := cleanSchema(v[name], r, depth+1)
			if err != nil {
				return nil, err
			}
			out[name] = field
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			cleaned, err := cleanSchema(item, r, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = cleaned
		}
		return out, nil
	case string:
		if hides(v) {
			return nil, fmt.Errorf("has a value with control characters: %s", line(v, maxTitle))
		}
		return r.Text(v), nil
	}
	return value, nil
}
