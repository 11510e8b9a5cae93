package redact

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Config configures a [Redactor]. At least one field is required.
type Config struct {
	// Patterns are what to replace.
	Patterns []Pattern

	// Func replaces what patterns cannot describe. It receives each text after the patterns, and each string of a
	// JSON document by itself. It must be fast, safe for concurrent use and idempotent, and depend on nothing but its
	// argument. If it panics, the whole text becomes [redacted]. With Func, viewers receive each reply as a whole,
	// since its pieces mean nothing to Func.
	Func func(text string) string
}

// Pattern describes text to replace.
type Pattern struct {
	// Name stands in brackets in place of a match: 1 to 40 lower-case letters, digits, "_" and "-", beginning with a
	// letter.
	Name string

	// Expression is a regular expression in Go's syntax. It must match neither the empty string nor a replacement.
	Expression string

	// builtin replaces Expression.
	builtin matcher
}

// matcher finds a pattern in a text.
type matcher interface {
	// find returns the start and the end of each match, in any order. Matches begin at from or later: what is before is context.
	find(text string, from int) [][]int

	// open returns the first position, from on, at which a match may begin that further text completes or extends. Without
	// one, it is the length of the text.
	open(text string, from int) int
}

// PatternError names an invalid field of a pattern.
type PatternError struct {
	// Pattern is its index in [Config].Patterns, and Field "Name" or "Expression".
	Pattern int
	Field   string
	Problem string
}

func (e *PatternError) Error() string {
	return fmt.Sprintf("redact: Config.Patterns[%d].%s: %s", e.Pattern, e.Field, e.Problem)
}

// Redactor replaces text. It is safe for concurrent use.
type Redactor struct {
	cfg      Config
	patterns []namedMatcher
	fn       func(string) string
}

type namedMatcher struct {
	matcher
	replacement string
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)

// New returns a redactor, or an error that names the invalid field.
func New(cfg Config) (*Redactor, error) {
	if len(cfg.Patterns) == 0 && cfg.Func == nil {
		return nil, errors.New("redact: Config.Patterns or Config.Func is required: without one, nothing is redacted")
	}
	r := &Redactor{cfg: cfg, fn: cfg.Func}
	for i, p := range cfg.Patterns {
		one, err := p.compile()
		if err != nil {
			err.Pattern = i
			return nil, err
		}
		r.patterns = append(r.patterns, one)
	}
	for _, p := range r.patterns {
		for i, other := range r.patterns {
			if len(other.find(p.replacement, 0)) > 0 {
				return nil, &PatternError{i, "Expression", fmt.Sprintf("matches the replacement %s: redacted text would change again", p.replacement)}
			}
		}
	}
	return r, nil
}

// Config returns the configuration of the redactor, such as to compare it with another one's.
func (r *Redactor) Config() Config {
	if r == nil {
		return Config{}
	}
	return r.cfg
}

func (p Pattern) compile() (namedMatcher, *PatternError) {
	if !nameForm.MatchString(p.Name) {
		return namedMatcher{}, &PatternError{Field: "Name", Problem: fmt.Sprintf("%q must be 1 to 40 lower-case letters, digits, _ and -, beginning with a letter", p.Name)}
	}
	out := namedMatcher{p.builtin, "[" + p.Name + "]"}
	if p.builtin != nil {
		return out, nil
	}
	var err error
	out.matcher, err = compile(p.Expression)
	if err != nil {
		return out, &PatternError{Field: "Expression", Problem: err.Error()}
	}
	return out, nil
}

// Equal reports whether two redactors have the same patterns, and either both have a function or neither has: functions cannot be compared.
func (r *Redactor) Equal(other *Redactor) bool {
	if r == nil || other == nil {
		return r == other
	}
	return (r.fn == nil) == (other.fn == nil) && reflect.DeepEqual(r.patterns, other.patterns)
}

// Text returns a text without what must not be kept. If the text is a JSON object or array, it remains one: see
// [Redactor.JSON].
func (r *Redactor) Text(text string) string {
	if r == nil || text == "" {
		return text
	}
	if document, ok := isDocument(text); ok {
		return string(r.JSON(document))
	}
	return r.plain(text)
}

// plain redacts a text that is not JSON.
func (r *Redactor) plain(text string) string {
	out, _ := r.replace(text, r.matches(text, 0), len(text))
	if r.fn != nil {
		out = r.call(out)
	}
	return out
}

// call calls the function, and fails closed.
func (r *Redactor) call(text string) (out string) {
	defer func() {
		if recover() != nil {
			out = "[redacted]"
		}
	}()
	return r.fn(text)
}

// span is a part of a text with its replacement.
type span struct {
	start, end  int
	replacement string
}

// matches returns the matches of all patterns from a position on, in order. Matches that overlap are one.
func (r *Redactor) matches(text string, from int) []span {
	var all []span
	for _, p := range r.patterns {
		for _, at := range p.find(text, from) {
			all = append(all, span{at[0], at[1], p.replacement})
		}
	}
	slices.SortStableFunc(all, func(a, b span) int { return cmp.Or(a.start-b.start, b.end-a.end) })
	var out []span
	for _, s := range all {
		if last := len(out) - 1; last >= 0 && s.start < out[last].end {
			out[last].end = max(out[last].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

// replace returns the text up to limit, or up to the match that limit would cut, and the length of that part of the original.
func (r *Redactor) replace(text string, matches []span, limit int) (string, int) {
	var out strings.Builder
	at := 0
	for _, m := range matches {
		if m.end > limit {
			limit = min(limit, m.start)
			break
		}
		out.WriteString(text[at:m.start])
		out.WriteString(m.replacement)
		at = m.end
	}
	out.WriteString(text[at:max(at, limit)])
	return out.String(), max(at, limit)
}
