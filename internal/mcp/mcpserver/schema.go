package mcpserver

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/threadmill/threadmill/event"
)

// inputSchema returns the schema of arguments. Besides the description in jsonschema, fields have the
// tags enum, minimum, maximum, minLength and maxLength.
func inputSchema[T any]() *jsonschema.Schema { return schemaOf(reflect.TypeFor[T](), true) }

// outputSchema returns the schema of a result, which may gain fields.
func outputSchema[T any]() *jsonschema.Schema { return schemaOf(reflect.TypeFor[T](), false) }

func schemaOf(t reflect.Type, closed bool) *jsonschema.Schema {
	s, err := jsonschema.ForType(t, nil)
	if err != nil {
		panic(fmt.Sprintf("mcpserver: the schema of %v: %v", t, err))
	}
	refine(s, t, closed)
	return s
}

// refine adds what the tags say to the schema of a type.
func refine(s *jsonschema.Schema, t reflect.Type, closed bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && s.Items != nil {
		s.Type, s.Types = "array", nil // an empty list is [], never null
		refine(s.Items, t.Elem(), closed)
	}
	if t.Kind() != reflect.Struct || s.Properties == nil {
		return
	}
	if !closed {
		s.AdditionalProperties = nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if p == nil {
			continue
		}
		refine(p, f.Type, closed)
		if values := f.Tag.Get("enum"); values != "" {
			for _, v := range strings.Split(values, ",") {
				p.Enum = append(p.Enum, v)
			}
		}
		p.Minimum, p.Maximum = number(f, "minimum"), number(f, "maximum")
		p.MinLength, p.MaxLength = length(f, "minLength"), length(f, "maxLength")
	}
}

func number(f reflect.StructField, tag string) *float64 {
	n, err := strconv.ParseFloat(f.Tag.Get(tag), 64)
	if err != nil {
		return nil
	}
	return &n
}

func length(f reflect.StructField, tag string) *int {
	n, err := strconv.Atoi(f.Tag.Get(tag))
	if err != nil {
		return nil
	}
	return &n
}

// check validates arguments, which have the types of the schema.
func check(s *jsonschema.Schema, fields map[string]any) error {
	for _, name := range s.Required {
		if v, ok := fields[name]; !ok || v == nil || v == "" {
			return event.FieldErrorf(name, "is required")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if problem := checkValue(s.Properties[name], fields[name]); problem != "" {
			return event.FieldErrorf(name, "%s", problem)
		}
	}
	return nil
}

func checkValue(p *jsonschema.Schema, v any) string {
	switch v := v.(type) {
	case string:
		n := utf8.RuneCountInString(v)
		switch {
		case len(p.Enum) > 0 && v != "" && !slices.Contains(p.Enum, any(v)):
			return fmt.Sprintf("%.32q is not one of %s", v, joined(p.Enum))
		case p.MaxLength != nil && n > *p.MaxLength:
			return fmt.Sprintf("is %d characters long, must be at most %d", n, *p.MaxLength)
		case p.MinLength != nil && n < *p.MinLength:
			return fmt.Sprintf("is %d characters long, must be at least %d", n, *p.MinLength)
		}
	case float64:
		if p.Minimum != nil && v < *p.Minimum || p.Maximum != nil && v > *p.Maximum {
			return fmt.Sprintf("%v must be from %v to %v", v, *p.Minimum, *p.Maximum)
		}
	}
	return ""
}

func joined(values []any) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, ", ")
}
