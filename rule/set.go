package rule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// MaxRules bounds the rules of an application together, in bytes of JSON: each thread
// keeps them in its history.
const MaxRules = 256 << 10

// Source has rules that may change while the program runs, such as those of a file. They
// have been checked: what does not validate is left out, and so is a rule whose name is
// taken by one before it.
type Source interface {
	// Rules returns the rules as they are now. The list is never changed: where there
	// are other rules, there is another list.
	Rules() []Rule
}

// Set is the rules of an application: its own, then those of a source, then the default
// rules that none of them replaces. It is safe for concurrent use. A nil set has the
// default rules.
type Set struct {
	source Source
	bare   bool

	mu   sync.Mutex
	own  []Rule
	seen []Rule    // what the source returned last
	now  *snapshot // nil when own or seen have changed since
}

// snapshot is the rules of a set at one time.
type snapshot struct {
	specs  []Spec
	byName map[string]Rule
}

// Option sets what few need.
type Option func(*Set)

// WithoutDefaults leaves the default rules out, but for the one that lets stream.* pass.
// Events that no rule matches are stored then, with a warning.
func WithoutDefaults() Option { return func(s *Set) { s.bare = true } }

// NewSet checks the rules. An error is an [*event.FieldError] that begins with the rule's
// place, such as "rules[2].priority". A nil source has no rules.
func NewSet(own []Rule, source Source, opts ...Option) (*Set, error) {
	s := &Set{source: source}
	for _, opt := range opts {
		opt(s)
	}
	s.refresh()
	for i, r := range own {
		if err := r.Validate(); err != nil {
			return nil, within(at(i), err)
		}
		if slices.ContainsFunc(s.own, func(o Rule) bool { return o.Name == r.name() }) {
			return nil, within(at(i), taken(r.name()))
		}
		s.own = append(s.own, r.complete())
	}
	inPlace := s.defaults(s.declared(s.own))
	for i, r := range s.own {
		if err := reachable(r, inPlace); err != nil {
			return nil, within(at(i), err)
		}
	}
	if err := fits(s.own); err != nil {
		return nil, err
	}
	return s, nil
}

// Register adds a rule, which holds for the next event. Its name must be new, or that of a
// default rule.
func (s *Set) Register(r Rule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if err := r.Validate(); err != nil {
		return err
	}
	r = r.complete()
	all := append(slices.Clip(s.own), r)
	if names(s.declared(s.own))[r.Name] {
		return taken(r.Name)
	}
	if err := reachable(r, s.defaults(s.declared(all))); err != nil {
		return err
	}
	if err := fits(all); err != nil {
		return err
	}
	s.own, s.now = all, nil
	return nil
}

// Specs describes the rules that are not disabled, the highest priority first, and of
// equals those of the application before those of the source and the default rules. The
// list is shared and must not be changed.
func (s *Set) Specs() []Spec { return s.current().specs }

// Rule returns a rule by its name, as it is now and with its defaults. It may be disabled.
func (s *Set) Rule(name string) (Rule, bool) {
	r, ok := s.current().byName[name]
	return r, ok
}

// standard is what a nil set has.
var standard = sync.OnceValue(func() *snapshot { return (&Set{}).build() })

func (s *Set) current() *snapshot {
	if s == nil {
		return standard()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if s.now == nil {
		s.now = s.build()
	}
	return s.now
}

// refresh asks the source for its rules.
func (s *Set) refresh() {
	if s.source == nil {
		return
	}
	if list := s.source.Rules(); !sameList(list, s.seen) {
		s.seen, s.now = list, nil
	}
}

// sameList reports whether two lists are one.
func sameList(a, b []Rule) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (s *Set) build() *snapshot {
	all := s.declared(s.own)
	standard := len(all)
	all = append(all, s.defaults(all)...)
	out := &snapshot{byName: map[string]Rule{}}
	for i, r := range all {
		out.byName[r.Name] = r
		if !r.Disabled {
			spec := r.Spec()
			spec.Default = i >= standard
			out.specs = append(out.specs, spec)
		}
	}
	slices.SortStableFunc(out.specs, func(a, b Spec) int { return cmp.Compare(b.Priority, a.Priority) })
	out.specs = slices.Clip(out.specs)
	return out
}

// declared are rules of the application, and those of the source that stand beside them.
func (s *Set) declared(own []Rule) []Rule {
	all := slices.Clone(own)
	known := names(own)
	for _, r := range s.seen {
		if r.Validate() == nil && !known[r.name()] {
			known[r.name()] = true
			all = append(all, r.complete())
		}
	}
	return all
}

// defaults are the default rules that the declared ones leave in place.
func (s *Set) defaults(declared []Rule) []Rule { return defaults(s.bare, names(declared)) }

// at is the place of a rule in the list.
func at(i int) string { return fmt.Sprintf("rules[%d]", i) }

func taken(name string) error {
	return fieldErrorf("name", "%q is taken by another rule: choose another", name)
}

// fits reports rules that are too large together.
func fits(all []Rule) error {
	specs := make([]Spec, len(all))
	for i, r := range all {
		specs[i] = r.Spec()
	}
	raw, err := json.Marshal(specs)
	if err != nil {
		return fieldErrorf("rules", "have no JSON form: %s", err)
	}
	if len(raw) > MaxRules {
		return fieldErrorf("rules", "are %d bytes as JSON, at most %d are taken: shorten prompts and lists", len(raw), MaxRules)
	}
	return nil
}
