package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// These readers report the place of a mistake and the expected value, which errors of package json
// omit.

// reader reads the value at a path. It fails with a [*event.FieldError].
type reader func(path string, raw json.RawMessage) error

// members are the readers of an object, by the names of its members.
type members map[string]reader

// object reads an object. null is an empty one.
func object(known members) reader {
	return func(path string, raw json.RawMessage) error { return readObject(path, raw, known) }
}

func readObject(path string, raw json.RawMessage, known members) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return mistake(cmp.Or(path, "definition"), "must be an object")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		read, ok := known[name]
		if !ok {
			return mistake(join(path, name), "is not known; known are "+strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if err := read(join(path, name), given[name]); err != nil {
			return err
		}
	}
	return nil
}

// each reads a list item by item.
func each[T any](list *[]T, item func(*T) reader) reader {
	return func(path string, raw json.RawMessage) error {
		var given []json.RawMessage
		if err := json.Unmarshal(raw, &given); err != nil {
			return mistake(path, "must be a list")
		}
		out := make([]T, len(given))
		for i := range given {
			if err := item(&out[i])(fmt.Sprintf("%s[%d]", path, i), given[i]); err != nil {
				return err
			}
		}
		if len(out) > 0 {
			*list = out
		}
		return nil
	}
}

// into reads a value of a basic type. what describes the type.
func into[T any](value *T, what string) reader {
	return func(path string, raw json.RawMessage) error {
		if err := json.Unmarshal(raw, value); err != nil {
			return mistake(path, "must be "+what)
		}
		return nil
	}
}

// namesOr reads a list of names that means all if omitted. It rejects an empty list, which would
// mean all too.
func namesOr(names *[]string, leaveOut string) reader {
	read := into(names, "a list of names")
	return func(path string, raw json.RawMessage) error {
		if err := read(path, raw); err != nil {
			return err
		}
		if *names != nil && len(*names) == 0 {
			return mistake(path, "is empty: name at least one, or leave it out "+leaveOut)
		}
		return nil
	}
}

// readDuration reads a string such as 10m.
func readDuration(d *time.Duration) reader {
	return func(path string, raw json.RawMessage) error {
		var text *string
		if err := json.Unmarshal(raw, &text); err != nil {
			return mistake(path, "must be text with a unit, such as 30s, 10m or 1h30m")
		}
		if text == nil {
			return nil
		}
		parsed, err := time.ParseDuration(*text)
		if err != nil {
			return mistake(path, fmt.Sprintf("%.64q is not a duration such as 30s, 10m or 1h30m", *text))
		}
		*d = parsed
		return nil
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func mistake(field, problem string) error { return &event.FieldError{Field: field, Problem: problem} }
