package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// shape is what package json knows of a type's names. A nil shape takes any.
type shape struct {
	// fields are those of a struct, by their exact names. Nil = no struct.
	fields map[string]reflect.Type

	// elem is the type of the items of a list, or of the values of a map.
	elem reflect.Type
}

var shapes sync.Map // reflect.Type → *shape

func shapeOf(v any) *shape { return shapeOfType(reflect.TypeOf(v)) }

func shapeOfType(t reflect.Type) *shape {
	// v itself is a pointer: its own UnmarshalJSON is called for the whole value.
	for t != nil && t.Kind() == reflect.Pointer && !readsItself(t) {
		t = t.Elem()
	}
	if t == nil || readsItself(t) || readsItself(reflect.PointerTo(t)) {
		return nil
	}
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := newShape(t)
	shapes.Store(t, s)
	return s
}

var (
	jsonReader = reflect.TypeFor[json.Unmarshaler]()
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func readsItself(t reflect.Type) bool { return t.Implements(jsonReader) || t.Implements(textReader) }

func newShape(t reflect.Type) *shape {
	switch t.Kind() {
	case reflect.Struct:
		s := &shape{fields: map[string]reflect.Type{}}
		s.add(t, map[reflect.Type]bool{})
		return s
	case reflect.Slice, reflect.Array, reflect.Map:
		return &shape{elem: t.Elem()}
	default:
		return nil
	}
}

// add adds the fields of a struct: its own before those of the structs embedded in it.
func (s *shape) add(t reflect.Type, within map[reflect.Type]bool) {
	if within[t] {
		return
	}
	within[t] = true
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			embedded = append(embedded, inner)
		case !f.IsExported():
		default:
			if name == "" {
				name = f.Name
			}
			if _, ok := s.fields[name]; !ok {
				s.fields[name] = f.Type
			}
		}
	}
	for _, t := range embedded {
		s.add(t, within)
	}
}

// field returns the shape of a field's value, or what is wrong with its name.
func (s *shape) field(name string, known bool) (*shape, string) {
	if s == nil {
		return nil, ""
	}
	if s.fields == nil {
		return shapeOfElem(s.elem), ""
	}
	if t, ok := s.fields[name]; ok {
		return shapeOfType(t), ""
	}
	names := slices.Sorted(maps.Keys(s.fields))
	for _, exact := range names {
		// Package json takes them for the same.
		if strings.EqualFold(exact, name) {
			return nil, fmt.Sprintf("is not %s: upper and lower case matter", exact)
		}
	}
	if known {
		return nil, "is not known; known are " + strings.Join(names, ", ")
	}
	return nil, ""
}

func (s *shape) item() *shape {
	if s == nil || s.fields != nil {
		return nil
	}
	return shapeOfElem(s.elem)
}

func shapeOfElem(t reflect.Type) *shape {
	if t == nil {
		return nil
	}
	return shapeOfType(t)
}
