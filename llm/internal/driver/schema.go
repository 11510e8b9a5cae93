package driver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/threadmill/threadmill/internal/strictjson"
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
// each request of its agent. It is that of an object with properties, whose names have letters and digits, its alternatives are not at the top,
// and lists have items. keys are the names of properties that have others, by the new ones. A schema that has this form stays as it is.
func Parameters(schema json.RawMessage) (out json.RawMessage, keys map[string]string) {
	none := json.RawMessage(`{"type":"object","properties":{}}`)
	root := decoded(schema)
	if root == nil {
		return none, nil // it says nothing about arguments, which are an object
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
	if keys = withKeys(root); len(keys) > 0 {
		changed = true
	}
	if !changed {
		return schema, nil
	}
	out, err := json.Marshal(root)
	if err != nil {
		return none, nil
	}
	return out, keys
}

// decoded returns a schema that is an object, or nil.
func decoded(schema json.RawMessage) (root map[string]any) {
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	if d.Decode(&root) != nil {
		return nil
	}
	return root
}

// withoutAlternatives replaces a reference and alternatives at the top of a schema by their properties together, of which those are required
// that all of them require; of allOf, those that any requires. Other words that say nothing of properties are left out. It reports whether it
// has changed the schema.
func withoutAlternatives(root map[string]any) (changed bool) {
	if _, ok := root["$ref"].(string); ok {
		all, _ := root["allOf"].([]any)
		root["allOf"] = append(slices.Clone(all), map[string]any{"$ref": root["$ref"]})
		delete(root, "$ref")
	}
	for _, word := range []string{"enum", "not"} {
		if _, ok := root[word]; ok {
			delete(root, word)
			changed = true
		}
	}
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
			if ref, ok := one["$ref"].(string); ok {
				one, _ = referred(root, ref).(map[string]any)
			}
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

const maxKey = 64

// notInKey matches what Anthropic takes in no name of a property.
var notInKey = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

// withKeys gives the properties of the arguments names that all providers take, and returns those that have changed, by the new ones.
func withKeys(root map[string]any) (keys map[string]string) {
	properties, _ := root["properties"].(map[string]any)
	there := map[any]any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if name != "" && len(name) <= maxKey && !notInKey.MatchString(name) {
			continue
		}
		plain := cmp.Or(notInKey.ReplaceAllString(name, "_"), "_")
		key := unused(plain, maxKey, func(key string) bool { _, taken := properties[key]; return taken })
		if keys == nil {
			keys = map[string]string{}
		}
		keys[key], there[name] = name, key
		properties[key] = properties[name]
		delete(properties, name)
	}
	if required, _ := root["required"].([]any); len(keys) > 0 {
		for i, name := range required {
			if text, ok := name.(string); ok && there[text] != nil {
				required[i] = there[text]
			}
		}
	}
	return keys
}

// restoredKeys returns the arguments of a call with the names of properties that the tool knows. Arguments that nobody can read stay as they are.
func restoredKeys(arguments string, keys map[string]string) string {
	var in map[string]json.RawMessage
	if len(keys) == 0 || strictjson.Check([]byte(arguments)) != nil || json.Unmarshal([]byte(arguments), &in) != nil {
		return arguments
	}
	for key, name := range keys {
		_, taken := in[name]
		if value, ok := in[key]; ok && !taken {
			in[name] = value
			delete(in, key)
		}
	}
	out, err := strictjson.Encode(in)
	if err != nil {
		return arguments
	}
	return string(out)
}

// withItems gives the lists of a schema items of any kind where it says nothing of them, and reports whether there are such lists. The first
// items of lists are in prefixItems, as in the draft 2020-12, which Anthropic demands.
func withItems(schema any, depth int) (changed bool) {
	if depth > maxDepth {
		return false
	}
	switch s := schema.(type) {
	case map[string]any:
		if first, ok := s["items"].([]any); ok {
			s["prefixItems"], changed = first, true
			delete(s, "items")
			if rest, ok := s["additionalItems"]; ok {
				s["items"] = rest
				delete(s, "additionalItems")
			}
		}
		if _, ok := s["items"]; !ok && (isList(s["type"]) || s["prefixItems"] != nil) {
			s["items"], changed = map[string]any{}, true
		}
		for name, part := range s {
			switch named, _ := part.(map[string]any); {
			case values[name]:
			case containers[name]:
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
