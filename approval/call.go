package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
)

// Call is a tool call for policies and grants.
type Call struct {
	Namespace string
	ThreadID  string
	Agent     string
	Tool      string

	// Arguments are the raw JSON arguments.
	Arguments string

	// WorkingDirectory is the directory in which the call runs, with links resolved. Empty = none.
	WorkingDirectory string

	// Unclear is the reason why the working directory is unknown, or "". If it is set, no rule can
	// be evaluated.
	Unclear string

	// Paths maps the names of arguments that are file paths to the paths with links resolved.
	Paths map[string]string

	// Definition is the digest of the tool's definition.
	Definition string
}

// Digest identifies the tool, its arguments and its working directory.
func (c Call) Digest() (string, error) { return c.digest(nil) }

// Rest returns the digest of the call without the arguments that a pattern has globs for.
func (c Call) Rest(pattern map[string]string) (string, error) {
	return c.digest(slices.Sorted(maps.Keys(pattern)))
}

// identity is the input of a digest, with sorted names: canonical JSON that others can produce too.
// It must not change, since grants are stored with digests.
type identity struct {
	Arguments map[string]any    `json:"arguments"`
	Paths     map[string]string `json:"paths"`
	Tool      string            `json:"tool"`

	// Without are the names of the omitted arguments, so that the digest of a whole call never
	// equals that of a part.
	Without          []string `json:"without,omitempty"`
	WorkingDirectory string   `json:"workingDirectory"`
}

func (c Call) digest(without []string) (string, error) {
	arguments, err := object(c.Arguments)
	if err != nil {
		return "", err
	}
	if err := c.checkText(); err != nil {
		return "", err
	}
	id := identity{
		Tool: lower(c.Tool), Arguments: arguments, WorkingDirectory: c.WorkingDirectory,
		Paths: map[string]string{}, Without: without,
	}
	maps.Copy(id.Paths, c.Paths)
	for _, name := range without {
		delete(id.Arguments, name)
		if _, isPath := c.Paths[name]; isPath {
			id.Paths[name] = "" // the path may vary, but must remain a path
		}
	}
	raw, err := strictjson.Encode(id)
	if err != nil {
		return "", unreadable(err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// checkText rejects text that is not valid UTF-8, since all invalid bytes would become the same
// character in JSON.
func (c Call) checkText() error {
	texts := map[string]string{"tool": c.Tool, "workingDirectory": c.WorkingDirectory}
	for name, path := range c.Paths {
		texts["paths."+name] = path
	}
	for _, field := range slices.Sorted(maps.Keys(texts)) {
		if !utf8.ValidString(texts[field]) {
			return event.FieldErrorf(field, "is not UTF-8 text")
		}
	}
	return nil
}

// Canonical returns the canonical form of arguments: names are sorted, there is no white space, and
// numbers and strings are unchanged. Empty arguments are the empty object. It rejects, with a
// [*event.FieldError], arguments that are not an object, have duplicate names, or have trailing
// data.
func Canonical(arguments string) ([]byte, error) {
	raw, err := strictjson.Canonical(arguments)
	return raw, unreadable(err)
}

func object(arguments string) (map[string]any, error) {
	values, err := strictjson.Object(arguments)
	return values, unreadable(err)
}

func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return event.FieldErrorf("arguments", "%s", "are not JSON, or are ambiguous: "+err.Error())
}

// Matches reports, as a [*event.FieldError], which glob of a pattern the call does not match. A
// glob is compared with the argument of its name, which must be a string; for a file path, with the
// resolved path.
func (c Call) Matches(pattern map[string]string) error {
	if len(pattern) == 0 {
		return event.FieldErrorf("pattern", "is empty: name at least one argument, with its glob")
	}
	arguments, err := object(c.Arguments)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(pattern)) {
		if err := c.matches(name, pattern[name], arguments); err != nil {
			return err
		}
	}
	return nil
}

func (c Call) matches(name, glob string, arguments map[string]any) error {
	field := "pattern." + name
	argument, given := arguments[name]
	text, isText := argument.(string)
	what := "the argument"
	if path, isPath := c.Paths[name]; isPath {
		text, isText, what = path, true, "the path that the argument leads to"
	}
	switch {
	case !given:
		return event.FieldErrorf(field, "the call has no argument of that name")
	case !isText:
		return event.FieldErrorf(field, "the argument is not text, and globs match text only: omit it from the pattern to require the same value")
	}
	if err := match(glob, text); err != nil {
		return event.FieldErrorf(field, "%q does not cover %s, %s: %v", glob, what, shown(text), err)
	}
	return nil
}

// shown returns a text for an error, cut if it is long.
func shown(text string) string {
	const most = 200
	if len(text) > most {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:most], ""))
	}
	return fmt.Sprintf("%q", text)
}

// lower converts ASCII letters to lower case only: names consist of those, and other letters that
// Unicode folds to them belong to other names.
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// sameName reports whether two names of tools or agents are equal, ignoring case.
func sameName(a, b string) bool { return lower(a) == lower(b) }
