package mcp

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxExpanded is the maximum number of parts of a schema after its references are replaced by what they
// refer to: an upper bound of the work of validating a value against it.
const maxExpanded = 10_000

// acyclic makes the validation against a schema end, and end soon. It removes references that lead back
// to a schema that contains them: below them, arguments are not validated here, but by the server.
func acyclic(root map[string]any) error {
	w := &walk{root: root, open: map[string]bool{}, sizes: map[string]int{}}
	size, err := w.size("#", root, false)
	if err == nil && size > maxExpanded {
		err = errTooComplex
	}
	return err
}

var errTooComplex = fmt.Errorf("is too complex: it has more than %d parts", maxExpanded)

type walk struct {
	root map[string]any

	// open are the paths that contain the current one, also by reference.
	open  map[string]bool
	sizes map[string]int

	// anchors are the paths of named schemas, once they are needed.
	anchors map[string]string
}

// containers are the keywords whose values map names to schemas.
var containers = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}

// size returns the number of parts of the value at a path. Names are not keywords in a container.
func (w *walk) size(path string, value any, container bool) (int, error) {
	memo := path
	if container {
		memo = " " + path
	}
	if size, known := w.sizes[memo]; known {
		return size, nil
	}
	w.open[path] = true
	defer delete(w.open, path)
	total := 1
	add := func(size int, err error) error {
		if total += size; err == nil && total > maxExpanded {
			err = errTooComplex
		}
		return err
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			var err error
			keyword := name
			if container {
				keyword = ""
			}
			switch keyword {
			case "enum", "const", "default", "examples":
			case "type":
				err = checkType(v[name])
				if err == nil {
					err = add(w.size(path+"/"+name, v[name], slices.Contains(containers, keyword)))
				}
			case "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor", "$id":
				if _, text := v[name].(string); text {
					err = fmt.Errorf("uses %s, which is not supported", name)
				}
			case "$ref":
				err = add(w.reference(v))
			default:
				err = add(w.size(path+"/"+name, v[name], slices.Contains(containers, keyword)))
			}
			if err != nil {
				return 0, err
			}
		}
	case []any:
		for i, item := range v {
			if err := add(w.size(path+"/"+strconv.Itoa(i), item, false)); err != nil {
				return 0, err
			}
		}
	}
	w.sizes[memo] = total
	return total, nil
}

var types = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// checkType fails for types that do not exist: providers of models reject all tools because of one.
func checkType(value any) error {
	named := []any{value}
	if list, ok := value.([]any); ok {
		named = list
	}
	for _, one := range named {
		if text, ok := one.(string); ok && !slices.Contains(types, text) {
			return fmt.Errorf("has the unknown type %.40q", text)
		}
	}
	return nil
}

func (w *walk) reference(schema map[string]any) (int, error) {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return 0, nil // a property of that name
	}
	path, target, err := w.resolve(ref)
	if err != nil {
		return 0, err
	}
	if w.open[path] {
		delete(schema, "$ref")
		return 0, nil
	}
	return w.size(path, target, false)
}

// resolve finds what a reference refers to, and its path.
func (w *walk) resolve(ref string) (string, any, error) {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return "", nil, errors.New("refers to another document")
	}
	pointer, err := url.PathUnescape(fragment)
	if err == nil && pointer != "" && pointer[0] != '/' {
		if w.anchors == nil {
			w.anchors = map[string]string{}
			w.findAnchors("", w.root)
		}
		var found bool
		if pointer, found = w.anchors[pointer]; !found || pointer == twice {
			return "", nil, errLost
		}
	}
	if err != nil {
		return "", nil, errLost
	}
	path, value := "#", any(w.root)
	if pointer == "" {
		return path, value, nil
	}
	for _, name := range strings.Split(pointer[1:], "/") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		var found bool
		switch v := value.(type) {
		case map[string]any:
			value, found = v[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v) {
				value, found = v[i], true
			}
		}
		if !found {
			return "", nil, errLost
		}
		path += "/" + name
	}
	return path, value, nil
}

// twice marks an anchor that is ambiguous: the validator may find another schema than the one that was
// checked here.
const twice = "twice"

var errLost = errors.New("has a reference that leads nowhere")

// findAnchors finds the schemas below a pointer that have names.
func (w *walk) findAnchors(pointer string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if name, ok := v["$anchor"].(string); ok {
			pointer := pointer
			if _, known := w.anchors[name]; known {
				pointer = twice
			}
			w.anchors[name] = pointer
		}
		for name, field := range v {
			w.findAnchors(pointer+"/"+strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1"), field)
		}
	case []any:
		for i, item := range v {
			w.findAnchors(pointer+"/"+strconv.Itoa(i), item)
		}
	}
}
