package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind classifies an [Error].
type Kind string

// The kinds of errors.
const (
	KindSyntax     Kind = "syntax"         // the file is not UTF-8, not YAML, or uses what is not supported of it
	KindLimit      Kind = "limit"          // too large, too deep or too many
	KindUnknown    Kind = "unknown field"  // no field has the name
	KindType       Kind = "wrong type"     // such as a list instead of text
	KindMissing    Kind = "missing"        // a required field
	KindEmpty      Kind = "empty"          // a field without a value
	KindDuplicate  Kind = "duplicate"      // a field, a name or an item of a list
	KindReference  Kind = "unknown name"   // no agent, tool or provider has it
	KindInvalid    Kind = "invalid value"  // out of bounds, of another form, or excluded by another field
	KindUnreadable Kind = "unreadable"     // a file that the field names
	KindUnset      Kind = "unset variable" // an environment variable that the field names
	KindSecret     Kind = "secret in file" // which belongs into an environment variable
)

// Error is one mistake in a file.
type Error struct {
	// File, Line and Column (both from 1, in characters) are its position.
	File   string
	Line   int
	Column int

	// Path is the field, such as "agents[0].limits.maxSteps". Empty for an error of the whole file
	// or of its syntax.
	Path string

	Kind Kind

	// Problem states the problem and its solution in one line.
	Problem string

	// Excerpt is the line with the error, without keys. May be empty.
	Excerpt string
}

func (e *Error) Error() string {
	place := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Path == "" {
		return place + e.Problem
	}
	return place + e.Path + ": " + e.Problem
}

// Explain formats errors for people: each [*Error] on its own line, followed by the line of the
// file with a mark at the position. It returns other errors unchanged.
func Explain(err error) string {
	var b strings.Builder
	for _, e := range all(err) {
		mistake, ok := errors.AsType[*Error](e)
		if !ok {
			b.WriteString(e.Error() + "\n")
			continue
		}
		b.WriteString(mistake.Error() + "\n")
		if mistake.Excerpt != "" {
			number := fmt.Sprintf("%5d", mistake.Line)
			indent := strings.Repeat(" ", mistake.Column-1)
			fmt.Fprintf(&b, "%s | %s\n%s | %s^\n", number, mistake.Excerpt, strings.Repeat(" ", len(number)), indent)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func all(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// err joins the errors, in order of their positions.
func (d *document) err() error {
	slices.SortStableFunc(d.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	joined := make([]error, len(d.errs))
	for i, e := range d.errs {
		e.Excerpt = d.excerpt(e)
		joined[i] = e
	}
	return errors.Join(joined...)
}

// maxExcerpt is the maximum length of an excerpt, in characters.
const maxExcerpt = 160

// Text that looks like a key in a file with invalid syntax, and passwords in addresses. The last
// group is hidden.
var (
	secretField = regexp.MustCompile(`(?i)(?:key|token|secret|password)["']?\s*:\s*([^\s,}].*)`)
	userInfo    = regexp.MustCompile(`://([^/@\s]+)@`)
)

func (d *document) excerpt(e *Error) string {
	if e.Line < 1 || e.Line > len(d.lines) {
		return ""
	}
	line := d.lines[e.Line-1]
	for _, s := range d.secrets {
		line = strings.ReplaceAll(line, s, stars(s))
	}
	line = hide(line, secretField)
	line = hide(line, userInfo)
	line = strings.ReplaceAll(line, "\t", " ")
	runes := []rune(strings.TrimRight(line, " "))
	if e.Column > len(runes)+1 || e.Column > maxExcerpt {
		return ""
	}
	if len(runes) > maxExcerpt {
		return string(runes[:maxExcerpt]) + "…"
	}
	return string(runes)
}

func hide(line string, what *regexp.Regexp) string {
	at := what.FindStringSubmatchIndex(line)
	if at == nil {
		return line
	}
	return line[:at[2]] + stars(line[at[2]:at[3]]) + line[at[3]:]
}

// stars keeps the length, so that the mark remains at its position.
func stars(s string) string { return strings.Repeat("*", utf8.RuneCountInString(s)) }
