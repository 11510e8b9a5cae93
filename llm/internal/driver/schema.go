package driver

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"
)

// maxDescription is the length of a tool's description that OpenAI takes, in bytes.
const maxDescription = 1024

// maxDepth bounds the nesting of a schema that is changed.
const maxDepth = 64

// Description returns the description of a tool, cut to a length that every provider takes.
func Description(text string) string {
	if len(text) <= maxDescription {
		return text
	}
	end := maxDescription - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Parameters returns the schema of a tool's arguments in a form that every provider takes: one tool that they refuse would make them refuse
// each request of its agent. It is that of an object with properties, its alternatives are not at the top, and lists have items. A schema
// that has this form stays as it is.
func Parameters(schema json.RawMessage) json.RawMessage {
	none := json.RawMessage(`{"type":"object","properties":{}}`)
	if len(schema) == 0 {
		return none
	}
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	var root map[string]any
	if d.Decode(&root) != nil || root == nil {
		return none // it says nothing about arguments, which are an object
	}
	changed := withoutAlternatives(root)
	if root["type"] != "object" {
		root["type"], changed = "object", true
	}
	if _, ok := root["properties"].(map[string]any); !ok {
		root["properties"], changed = map[string]any{}, true
	}
	if withItems(root, 0) {
		changed = true
	}
	if !changed {
		return schema
	}
	out, err := json.Marshal(root)
	if err != nil {
		return none
	}
	return out
}

// withoutAlternatives replaces alternatives at the top of a schema by their properties together, of which those are required that all of
// them require; of allOf, those that any requires. It reports whether it has changed the schema.
func withoutAlternatives(root map[string]any) (changed bool) {
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		parts, ok := root[word].([]any)
		if !ok {
			continue
		}
		delete(root, word)
		changed = true
		properties, _ := root["properties"].(map[string]any)
		properties = maps.Clone(properties)
		if properties == nil {
			properties = map[string]any{}
		}
		var required []any
		for i, part := range parts {
			one, _ := part.(map[string]any)
			its, _ := one["properties"].(map[string]any)
			for name, p := range its {
				if _, known := properties[name]; !known {
					properties[name] = p
				}
			}
			wants, _ := one["required"].([]any)
			switch {
			case word == "allOf":
				required = append(required, wants...)
			case i == 0:
				required = wants
			default:
				required = slices.DeleteFunc(slices.Clone(required), func(name any) bool { return !slices.Contains(wants, name) })
			}
		}
		root["properties"] = properties
		always, _ := root["required"].([]any)
		for _, name := range required {
			if !slices.Contains(always, name) {
				always = append(always, name)
			}
		}
		if len(always) > 0 {
			root["required"] = always
		}
	}
	return changed
}

// withItems gives the lists of a schema items of any kind where it says nothing of them, and reports whether there are such lists.
func withItems(schema any, depth int) (changed bool) {
	if depth > maxDepth {
		return false
	}
	switch s := schema.(type) {
	case map[string]any:
		if _, ok := s["items"]; !ok && isList(s["type"]) && s["prefixItems"] == nil {
			s["items"], changed = map[string]any{}, true
		}
		for name, part := range s {
			switch named, _ := part.(map[string]any); name {
			case "default", "enum", "const", "examples": // values, not schemas
			case "properties", "patternProperties", "$defs", "definitions":
				for _, one := range named {
					changed = withItems(one, depth+1) || changed
				}
			default:
				changed = withItems(part, depth+1) || changed
			}
		}
	case []any:
		for _, part := range s {
			changed = withItems(part, depth+1) || changed
		}
	}
	return changed
}

func isList(typ any) bool {
	all, ok := typ.([]any)
	return typ == "array" || ok && slices.Contains(all, any("array"))
}
