package server

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed descriptions.json
var descriptionsJSON []byte

// descriptions are the first paragraphs of the comments on fields of public packages, by names such as event.Message.ID.
// TestDescriptions with -update writes them.
var descriptions = sync.OnceValue(func() map[string]string {
	var all map[string]string
	if err := json.Unmarshal(descriptionsJSON, &all); err != nil {
		panic("server: descriptions.json: " + err.Error())
	}
	return all
})

// describeFields describes the properties of a struct's schema that have no doc tag: the fields of t, then, as huma does,
// those of the structs embedded in it.
func describeFields(s *huma.Schema, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	owner := strings.TrimPrefix(t.PkgPath(), "github.com/threadmill/threadmill/") + "." + t.Name() + "."
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if f.Anonymous && f.IsExported() && tag == "" {
			embedded = append(embedded, f.Type)
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		if p := s.Properties[name]; p != nil && p.Description == "" {
			p.Description = descriptions()[owner+f.Name]
		}
	}
	for _, inner := range embedded {
		describeFields(s, inner)
	}
}
