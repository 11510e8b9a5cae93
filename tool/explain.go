package tool

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// explain converts an error of the schema library to a text that a model can act on: it lists all
// mistakes with the names of the fields, but not their values, which may be long. It falls back to
// the library's text.
func explain(schema *jsonschema.Schema, value any, refusal error) string {
	problems := mistakes(schema, value, "")
	if len(problems) == 0 {
		return libraryReason(refusal)
	}
	const most = 10
	if n := len(problems); n > most {
		problems = append(problems[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(problems, "; ")
}

func mistakes(s *jsonschema.Schema, value any, path string) []string {
	if want := types(s); len(want) > 0 && !fits(want, value) {
		return []string{fmt.Sprintf("%s: must be %s, but is %s", name(path), alternatives(want), kind(value))}
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(value) }) {
		return []string{fmt.Sprintf("%s: must be one of %s", name(path), quoteAll(s.Enum))}
	}
	switch v := value.(type) {
	case map[string]any:
		return objectMistakes(s, v, path)
	case []any:
		return arrayMistakes(s, v, path)
	case int64:
		return boundMistakes(s, float64(v), path)
	case uint64:
		return boundMistakes(s, float64(v), path)
	case float64:
		return boundMistakes(s, v, path)
	}
	return nil
}

func objectMistakes(s *jsonschema.Schema, value map[string]any, path string) []string {
	var problems []string
	for _, field := range s.Required {
		if _, ok := value[field]; !ok {
			problems = append(problems, join(path, field)+": is required")
		}
	}
	for _, field := range slices.Sorted(maps.Keys(value)) {
		sub, known := s.Properties[field]
		switch {
		case known:
			problems = append(problems, mistakes(sub, value[field], join(path, field))...)
		case len(s.PatternProperties) > 0 || s.AdditionalProperties == nil:
		case refusesAll(s.AdditionalProperties):
			problems = append(problems, join(path, field)+": is not a parameter"+knownFields(s))
		default:
			problems = append(problems, mistakes(s.AdditionalProperties, value[field], join(path, field))...)
		}
	}
	return problems
}

func arrayMistakes(s *jsonschema.Schema, value []any, path string) []string {
	if s.MinItems != nil && len(value) < *s.MinItems || s.MaxItems != nil && len(value) > *s.MaxItems {
		return []string{fmt.Sprintf("%s: has %d items, must have %s", name(path), len(value), itemBounds(s))}
	}
	if s.Items == nil || len(s.PrefixItems) > 0 {
		return nil
	}
	var problems []string
	for i, item := range value {
		problems = append(problems, mistakes(s.Items, item, index(path, i))...)
	}
	return problems
}

func itemBounds(s *jsonschema.Schema) string {
	switch {
	case s.MaxItems == nil:
		return fmt.Sprintf("at least %d", *s.MinItems)
	case s.MinItems == nil:
		return fmt.Sprintf("at most %d", *s.MaxItems)
	case *s.MinItems == *s.MaxItems:
		return fmt.Sprint(*s.MinItems)
	}
	return fmt.Sprintf("%d to %d", *s.MinItems, *s.MaxItems)
}

func boundMistakes(s *jsonschema.Schema, value float64, path string) []string {
	if s.Minimum != nil && value < *s.Minimum {
		return []string{fmt.Sprintf("%s: must be at least %v", name(path), *s.Minimum)}
	}
	if s.Maximum != nil && value > *s.Maximum {
		return []string{fmt.Sprintf("%s: must be at most %v", name(path), *s.Maximum)}
	}
	return nil
}

func types(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

func fits(want []string, value any) bool {
	is := kind(value)
	for _, w := range want {
		if article(w) == is || w == "number" && is == "an integer" {
			return true
		}
	}
	return false
}

func kind(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	case int64, uint64:
		return "an integer"
	case float64:
		if v == math.Trunc(v) {
			return "an integer"
		}
	}
	return "a number"
}

func article(typ string) string {
	switch typ {
	case "null":
		return "null"
	case "array", "object", "integer":
		return "an " + typ
	}
	return "a " + typ
}

// alternatives lists null last.
func alternatives(want []string) string {
	var words []string
	for _, w := range want {
		if w != "null" {
			words = append(words, article(w))
		}
	}
	if slices.Contains(want, "null") {
		words = append(words, "null")
	}
	return strings.Join(words, " or ")
}

func refusesAll(s *jsonschema.Schema) bool {
	return s.Not != nil && s.Not.Type == "" && s.Not.Types == nil && s.Not.Properties == nil
}

func knownFields(s *jsonschema.Schema) string {
	if len(s.Properties) == 0 {
		return " (there are none)"
	}
	return " (known: " + strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ") + ")"
}

func quoteAll(values []any) string {
	words := make([]string, 0, len(values))
	for _, v := range values {
		words = append(words, fmt.Sprintf("%q", fmt.Sprint(v)))
	}
	return strings.Join(words, ", ")
}

// libraryReason removes the library's chain of "validating …" except for its last step, which names
// the field.
func libraryReason(err error) string {
	field, text := "", err.Error()
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		text = inner.Error()
		step, ok := strings.CutPrefix(text, "validating ")
		if !ok {
			break
		}
		step, _, _ = strings.Cut(step, ": ")
		if i := strings.LastIndex(step, "/properties/"); i >= 0 {
			path := strings.NewReplacer("/properties/", ".", "/items", "[]").Replace(step)
			field = strings.TrimPrefix(path, ".") + ": "
		}
	}
	return field + text
}

func name(path string) string {
	if path == "" {
		return "arguments"
	}
	return path
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
