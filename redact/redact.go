package redact

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
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

	// builtin replaces Expression. A match of any of them is one of the pattern.
	builtin []matcher
}

// matcher finds a pattern in a text.
type matcher interface {
	// find returns the start and the end of each match, in the order of the starts. Matches begin at from or later: what is before is
	// context.
	find(text string, from int) [][]int

	// open returns the first position, from on, at which a match may begin that further text completes or extends. Without
	// one, it is the length of the text.
	open(text string, from int) int

	// behind returns the first position at which the next match behind one may begin.
	behind(match []int) int
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
	pattern     int // its index in Config.Patterns
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
		matchers, err := p.compile()
		if err != nil {
			err.Pattern = i
			return nil, err
		}
		for _, m := range matchers {
			r.patterns = append(r.patterns, namedMatcher{m, i, "[" + p.Name + "]"})
		}
	}
	for _, p := range r.patterns {
		for _, other := range r.patterns {
			if len(other.find(p.replacement, 0)) > 0 {
				return nil, &PatternError{other.pattern, "Expression", fmt.Sprintf("matches the replacement %s: redacted text would change again", p.replacement)}
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

func (p Pattern) compile() ([]matcher, *PatternError) {
	if !nameForm.MatchString(p.Name) {
		return nil, &PatternError{Field: "Name", Problem: fmt.Sprintf("%q must be 1 to 40 lower-case letters, digits, _ and -, beginning with a letter", p.Name)}
	}
	if p.builtin != nil {
		return p.builtin, nil
	}
	m, err := compile(p.Expression)
	if err != nil {
		return nil, &PatternError{Field: "Expression", Problem: err.Error()}
	}
	return []matcher{m}, nil
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
func (r *Redactor) Text(text string) string { return r.text(text, 0) }

// text redacts a text that is within a number of documents.
func (r *Redactor) text(text string, within int) string {
	if r == nil || text == "" {
		return text
	}
	if within <= maxWithin && isDocument(text) {
		return string(r.document(json.RawMessage(text), within))
	}
	return r.plain(text)
}

// plain redacts a text that is not JSON.
func (r *Redactor) plain(text string) string {
	out := r.Stream().take(text, len(text))
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
