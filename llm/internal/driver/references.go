package driver

import (
	"encoding/json"
	"maps"
	"net/url"
	"strconv"
	"strings"
)

// maxInlined bounds the parts of a schema after its references are replaced.
const maxInlined = 10_000

// Inlined returns a schema with what its references refer to in their place, for providers that know few references. A reference that leads
// nowhere or back to a schema that contains it is left out: what is there may be anything. A schema without references stays as it is.
func Inlined(schema json.RawMessage) json.RawMessage {
	root := decoded(schema)
	if root == nil || !strings.Contains(string(schema), `"$ref"`) {
		return schema
	}
	in := &inliner{root: root, open: map[string]bool{}}
	flat, _ := in.schema(root).(map[string]any)
	delete(flat, "$defs")
	delete(flat, "definitions")
	out, err := json.Marshal(flat)
	if err != nil {
		return schema
	}
	return out
}

type inliner struct {
	root map[string]any
	open map[string]bool // the references that contain the current part
	size int
}

// schema returns a part of a schema that is no map of names.
func (in *inliner) schema(part any) any {
	if in.size++; in.size > maxInlined {
		return map[string]any{}
	}
	switch s := part.(type) {
	case map[string]any:
		ref, ok := s["$ref"].(string)
		if !ok {
			return in.words(s)
		}
		own := in.words(s)
		delete(own, "$ref")
		if in.open[ref] {
			return own
		}
		in.open[ref] = true
		defer delete(in.open, ref)
		target, _ := in.schema(referred(in.root, ref)).(map[string]any)
		out := maps.Clone(target)
		if out == nil {
			out = map[string]any{}
		}
		maps.Copy(out, own)
		return out
	case []any:
		out := make([]any, len(s))
		for i, one := range s {
			out[i] = in.schema(one)
		}
		return out
	}
	return part
}

func (in *inliner) words(s map[string]any) map[string]any {
	out := make(map[string]any, len(s))
	for word, part := range s {
		named, isMap := part.(map[string]any)
		switch {
		case values[word]:
			out[word] = part
		case word == "$defs" || word == "definitions": // they are where they are used
		case containers[word] && isMap:
			all := make(map[string]any, len(named))
			for name, one := range named {
				all[name] = in.schema(one)
			}
			out[word] = all
		default:
			out[word] = in.schema(part)
		}
	}
	return out
}

// values are the words whose values are no schemas, and containers those with schemas by name.
var (
	values     = map[string]bool{"default": true, "enum": true, "const": true, "examples": true}
	containers = map[string]bool{"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true}
)

// referred returns what a reference within a schema refers to, or nil.
func referred(root any, ref string) any {
	fragment, local := strings.CutPrefix(ref, "#")
	pointer, err := url.PathUnescape(fragment)
	if !local || err != nil || pointer != "" && pointer[0] != '/' {
		return nil
	}
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch v := root.(type) {
		case map[string]any:
			root = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			root = v[i]
		default:
			return nil
		}
	}
	return root
}
