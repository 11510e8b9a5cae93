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
	size, err := w.size("#", root)
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
}

// size returns the number of parts of the value at a path.
func (w *walk) size(path string, value any) (int, error) {
	if size, known := w.sizes[path]; known {
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
			switch name {
			case "enum", "const", "default", "examples":
			case "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor", "$id":
				if _, keyword := v[name].(string); keyword {
					err = fmt.Errorf("uses %s, which is not supported", name)
				}
			case "$ref":
				err = add(w.reference(v))
			default:
				err = add(w.size(path+"/"+name, v[name]))
			}
			if err != nil {
				return 0, err
			}
		}
	case []any:
		for i, item := range v {
			if err := add(w.size(path+"/"+strconv.Itoa(i), item)); err != nil {
				return 0, err
			}
		}
	}
	w.sizes[path] = total
	return total, nil
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
	return w.size(path, target)
}

// resolve finds what a reference refers to, and its path.
func (w *walk) resolve(ref string) (string, any, error) {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return "", nil, errors.New("refers to another document")
	}
	pointer, err := url.PathUnescape(fragment)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return "", nil, errors.New("has a reference that is not a path")
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
			return "", nil, errors.New("has a reference that leads nowhere")
		}
		path += "/" + name
	}
	return path, value, nil
}
