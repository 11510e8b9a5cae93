package forget

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals"
)

// Limits on the terms of a person.
const (
	MaxTerms    = 50
	MinTerm     = 3
	maxTermSize = 200
)

// reserved are names that are nobody's.
var reserved = []string{"user", "api", "system", "agent", "tool", "temporal", "threadmill", signals.ScheduleSender, signals.Eraser}

// Erased replaces what is forgotten.
const Erased = "[erased]"

// Person is a person to forget. It is safe for concurrent use.
type Person struct {
	// Name is the name under which the person wrote and decided. Pseudonym replaces it: what came of the person's messages is found by it
	// when the name is gone.
	Name, Pseudonym string

	// Terms are further words by which the person is known.
	Terms []string

	// turns are events of the person in a thread, and titles those of its titles that came of what the person said. Of a thread that is
	// inherited, all did.
	turns, titles map[string]bool
	inherited     bool

	// terms replaces the terms, nil without any.
	terms *redact.Redactor
}

// New returns a person to forget, with further words by which the person is known, such as a full name or an address. The error is an
// [*event.FieldError].
func New(name, pseudonym string, terms []string) (*Person, error) {
	if err := event.ValidateName("person", name); err != nil {
		return nil, err
	}
	if slices.Contains(reserved, strings.ToLower(name)) {
		return nil, event.FieldErrorf("person", "%q is a name that programs use for whoever gives none: it is nobody's", name)
	}
	if len(terms) > MaxTerms {
		return nil, event.FieldErrorf("terms", "has %d terms, at most %d", len(terms), MaxTerms)
	}
	p := &Person{Name: name, Pseudonym: pseudonym, Terms: terms}
	if len(terms) == 0 {
		return p, nil
	}
	expressions := make([]string, len(terms))
	for i, term := range terms {
		field := fmt.Sprintf("terms[%d]", i)
		switch n := utf8.RuneCountInString(term); {
		case !utf8.ValidString(term) || strings.TrimSpace(term) != term:
			return nil, event.FieldErrorf(field, "must be text without spaces around it")
		case n < MinTerm || len(term) > maxTermSize:
			return nil, event.FieldErrorf(field, "must have at least %d characters, since it is replaced wherever it is a word, and at most %d bytes", MinTerm, maxTermSize)
		}
		expressions[i] = expression(term)
	}
	// One expression, so that a text is searched once.
	all := redact.Pattern{Name: strings.Trim(Erased, "[]"), Expression: `(?i)(?:` + strings.Join(expressions, "|") + `)`}
	var err error
	if p.terms, err = redact.New(redact.Config{Patterns: []redact.Pattern{all}}); err != nil {
		return nil, event.FieldErrorf("terms", "one of them is in the text %s, which replaces it", Erased)
	}
	return p, nil
}

// In returns the person in a thread, with events of theirs: what has one of them as its eventId came of what the person said. So did
// these titles and, if the thread is that of a sub-agent which worked for the person, all titles in it.
func (p *Person) In(turns, titles []string, inherited bool) *Person {
	out := *p
	out.turns, out.titles, out.inherited = set(turns), set(titles), inherited
	return &out
}

// titled reports whether the value of a field is a title that came of what the person said. The values of a memo have no field.
func (p *Person) titled(field, value string) bool {
	return (field == "title" || field == "") && p.titles[value] || field == "title" && p.inherited && value != "" && value != Erased
}

func set(all []string) map[string]bool {
	out := make(map[string]bool, len(all))
	for _, one := range all {
		out[one] = true
	}
	return out
}

// expression returns the regular expression of a term as a whole word, in upper or lower case, with any white space between its words.
func expression(term string) string {
	words := strings.Fields(term)
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	out := strings.Join(words, `\s+`)
	// \b knows ASCII only: elsewhere, a term is found within words too.
	if isWord(term[0]) {
		out = `\b` + out
	}
	if isWord(term[len(term)-1]) {
		out += `\b`
	}
	return out
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// Is reports whether a name is that of the person, before or after it was replaced, as threads compare the names of people.
func (p *Person) Is(name string) bool { return p.named(name) || name == p.Pseudonym }

func (p *Person) named(name string) bool { return strings.EqualFold(strings.TrimSpace(name), p.Name) }

// Known reports whether a text, such as the name of an entity, has a term.
func (p *Person) Known(text string) bool { return p.terms.Text(text) != text }

// Text returns a text without the terms.
func (p *Person) Text(text string) string { return p.terms.Text(text) }
