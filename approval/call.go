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

// Call is a tool call as policies and grants see it.
type Call struct {
	Namespace string
	ThreadID  string
	Agent     string
	Tool      string

	// Arguments are the raw JSON.
	Arguments string

	// WorkingDirectory is where it works, with links resolved. Empty if there is none.
	WorkingDirectory string

	// Unclear says why it is not known where the call works, if it is not. No rule can be
	// evaluated then.
	Unclear string

	// Paths are the arguments that name files, with links resolved, by the arguments'
	// names.
	Paths map[string]string

	// Definition is the digest of the tool's definition.
	Definition string
}

// Digest identifies what is approved: the tool, its arguments and where it works.
func (c Call) Digest() (string, error) { return c.digest(nil) }

// Rest is the digest of the call without the arguments that a pattern has globs for.
func (c Call) Rest(pattern map[string]string) (string, error) {
	return c.digest(slices.Sorted(maps.Keys(pattern)))
}

// identity is what a digest is of, with its names sorted: canonical JSON that others can
// make as well. It must not change: grants are kept by it.
type identity struct {
	Arguments map[string]any    `json:"arguments"`
	Paths     map[string]string `json:"paths"`
	Tool      string            `json:"tool"`

	// Without are the arguments that are left out, so that the digest of a whole call is
	// never that of a part.
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
			id.Paths[name] = "" // wherever it leads to; but it stays a path
		}
	}
	raw, err := strictjson.Encode(id)
	if err != nil {
		return "", unreadable(err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// checkText refuses what has no JSON form of its own: bytes that are no text would all
// become the same character.
func (c Call) checkText() error {
	texts := map[string]string{"tool": c.Tool, "workingDirectory": c.WorkingDirectory}
	for name, path := range c.Paths {
		texts["paths."+name] = path
	}
	for _, field := range slices.Sorted(maps.Keys(texts)) {
		if !utf8.ValidString(texts[field]) {
			return &event.FieldError{Field: field, Problem: "is not UTF-8 text"}
		}
	}
	return nil
}

// Canonical is the one form of arguments that mean the same: the names of objects are
// sorted and nothing stands between values, while numbers and texts are as they were
// written. Empty arguments are the empty object. Arguments that are no object, that name
// a field twice or that go on behind the object are refused, as a [*event.FieldError].
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
	return &event.FieldError{Field: "arguments", Problem: "cannot be read, or not in one way only: " + err.Error()}
}

// Matches reports, as a [*event.FieldError], which glob of a pattern the call does not fit.
// A glob is compared with the argument of its name, which must be text; of an argument
// that names a file, with the path that it leads to.
func (c Call) Matches(pattern map[string]string) error {
	if len(pattern) == 0 {
		return &event.FieldError{Field: "pattern", Problem: "is empty: name at least one argument, with its glob"}
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
		return &event.FieldError{Field: field, Problem: "the call has no argument of that name"}
	case !isText:
		return &event.FieldError{Field: field, Problem: "globs are for text, and the argument is none: leave it out of the pattern, it then has to be the same"}
	}
	if err := match(glob, text); err != nil {
		return &event.FieldError{Field: field, Problem: fmt.Sprintf("%q does not cover %s, %s: %v", glob, what, shown(text), err)}
	}
	return nil
}

// shown is a text for an error, cut if it is long.
func shown(text string) string {
	const most = 200
	if len(text) > most {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:most], ""))
	}
	return fmt.Sprintf("%q", text)
}

// lower folds ASCII letters only: names consist of those, and other letters that Unicode
// folds to them make another name.
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// sameName reports whether names of tools or agents are the same.
func sameName(a, b string) bool { return lower(a) == lower(b) }
