package llmtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// schemaRules are what a provider wants of the schema of a tool's arguments, beyond that it is one of an object.
type schemaRules struct {
	// properties: the schema has properties.
	properties bool

	// plain are the words that it does not have at the top.
	plain []string

	// items: each list says what its items are.
	items bool

	// keys matches the names of its properties.
	keys *regexp.Regexp

	// definitions: references are to $defs, and have nothing beside them but a description and a default.
	definitions bool
}

var (
	openAISchemas = schemaRules{properties: true, plain: []string{"oneOf", "anyOf", "allOf", "enum", "not"}, items: true}

	anthropicSchemas = schemaRules{plain: []string{"oneOf", "anyOf", "allOf"}, keys: regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)}

	googleSchemas = schemaRules{items: true, definitions: true}
)

// problem returns why the provider rejects a schema, or "".
func (r schemaRules) problem(raw json.RawMessage) string {
	if !isObjectSchema(raw) {
		return "schema must be of type object"
	}
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil {
		return err.Error()
	}
	properties, given := root["properties"].(map[string]any)
	if r.properties && !given {
		return "In context=(), object schema missing properties."
	}
	for _, word := range r.plain {
		if _, has := root[word]; has {
			return fmt.Sprintf("schema must have type 'object' and not have %q at the top level", r.plain)
		}
	}
	for name := range properties {
		if r.keys != nil && !r.keys.MatchString(name) {
			return fmt.Sprintf("properties: Property keys should match pattern '%s'", r.keys)
		}
	}
	return r.part(root, root, "")
}

var schemaTypes = []any{"null", "boolean", "object", "array", "number", "string", "integer"}

// part validates a part of a schema, at a path.
func (r schemaRules) part(root, part any, at string) string {
	s, ok := part.(map[string]any)
	if _, boolean := part.(bool); boolean {
		return ""
	}
	if !ok {
		return fmt.Sprintf("In context=(%s), %v is not of type 'object', 'boolean'", at, part)
	}
	types, list := s["type"].([]any)
	if !list && s["type"] != nil {
		types = []any{s["type"]}
	}
	for _, typ := range types {
		if !slices.Contains(schemaTypes, typ) {
			return fmt.Sprintf("In context=(%s), %v is not valid under any of the given schemas", at, typ)
		}
	}
	if _, has := s["items"]; r.items && slices.Contains(types, any("array")) && !has {
		return fmt.Sprintf("In context=(%s), array schema missing items.", at)
	}
	if problem := r.reference(root, s, at); problem != "" {
		return problem
	}
	for word, value := range s {
		switch word {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			named, ok := value.(map[string]any)
			if !ok {
				return fmt.Sprintf("In context=(%s), %s is not of type 'object'", at, word)
			}
			for name, one := range named {
				if problem := r.part(root, one, at+"/"+word+"/"+name); problem != "" {
					return problem
				}
			}
		case "items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else":
			if problem := r.part(root, value, at+"/"+word); problem != "" {
				return problem
			}
		case "allOf", "anyOf", "oneOf", "prefixItems":
			parts, _ := value.([]any)
			if len(parts) == 0 {
				return fmt.Sprintf("In context=(%s), %s should be non-empty", at, word)
			}
			for i, one := range parts {
				if problem := r.part(root, one, at+"/"+word+"/"+strconv.Itoa(i)); problem != "" {
					return problem
				}
			}
		case "required":
			names, ok := value.([]any)
			for _, name := range names {
				_, text := name.(string)
				ok = ok && text
			}
			if !ok {
				return fmt.Sprintf("In context=(%s), %v is not a list of names", at, value)
			}
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
			if _, ok := value.(float64); !ok {
				return fmt.Sprintf("In context=(%s), %v is not of type 'number'", at, value)
			}
		}
	}
	return ""
}

// reference validates the reference of a schema.
func (r schemaRules) reference(root any, s map[string]any, at string) string {
	ref, ok := s["$ref"].(string)
	if !ok {
		return ""
	}
	if r.definitions {
		for word := range s {
			if !slices.Contains([]string{"$ref", "description", "default"}, word) {
				return fmt.Sprintf("$ref '%s' was set alongside unsupported fields. If a schema node has $ref set, then only description and default can be set alongside it", ref)
			}
		}
		if !strings.HasPrefix(ref, "#/$defs/") {
			return "reference to undefined schema at " + at
		}
	}
	names := strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:]
	for _, name := range names {
		m, ok := root.(map[string]any)
		if root = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]; !ok || root == nil {
			return fmt.Sprintf("reference to component '%s' which was not found in the schema, at %s", ref, at)
		}
	}
	return ""
}

// Limits of OpenAI.
const (
	maxTools       = 128
	maxDescription = 1024
)

// openAIToolProblem returns why OpenAI rejects a tool, or "".
func openAIToolProblem(name, description string, parameters json.RawMessage) string {
	switch {
	case !toolName.MatchString(name):
		return fmt.Sprintf(".name: %q must be 1 to 64 letters, digits, _ and -", name)
	case len(description) > maxDescription:
		return fmt.Sprintf(".description: string too long. Expected a string with maximum length %d, but got a string with length %d instead.", maxDescription, len(description))
	}
	if problem := openAISchemas.problem(parameters); problem != "" {
		return fmt.Sprintf(".parameters: Invalid schema for function '%s': %s", name, problem)
	}
	return ""
}
