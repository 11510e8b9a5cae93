package rule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/threadmill/threadmill/event"
)

// MaxBytes is the maximum total size of an application's rules, in bytes of JSON: each thread
// stores them in its history.
const MaxBytes = 256 << 10

// Source provides rules that may change at run time, such as those of a file. A set ignores rules
// of a source that are invalid or whose name is already taken.
type Source interface {
	// Rules returns the current rules. It must not change a list that it has returned: changed
	// rules are a new list.
	Rules() []Rule
}

// Set contains the rules of an application: its own, then those of a source, then the default rules
// that none of them replaces. It is safe for concurrent use. A nil set contains the default rules.
type Set struct {
	source Source
	bare   bool

	mu   sync.Mutex
	own  []Rule
	seen []Rule    // the last list of the source
	now  *snapshot // nil if own or seen have changed since it was built
}

// snapshot contains the rules of a set at one time.
type snapshot struct {
	specs  []Spec
	byName map[string]Rule
}

// Config configures a [Set]. The zero value contains the default rules.
type Config struct {
	// Rules are the application's own.
	Rules []Rule

	// Source provides further rules. Default: none.
	Source Source

	// WithoutDefaults removes the default rules, except the one that ignores stream.* events.
	// Events that no rule matches are then stored with a warning.
	WithoutDefaults bool
}

// NewSet validates the rules. An error is an [*event.FieldError] whose field begins with the index
// of the rule, such as "rules[2].priority".
func NewSet(cfg Config) (*Set, error) {
	s := &Set{source: cfg.Source, bare: cfg.WithoutDefaults}
	s.refresh()
	for i, r := range cfg.Rules {
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

// Register adds a rule for the next events. Its name must be new or that of a default rule.
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

// Specs returns the rules that are not disabled, by descending priority and, for equals, those of
// the application before those of the source and the default rules. The list is shared and must not
// be changed.
func (s *Set) Specs() []Spec { return s.current().specs }

// Rule returns the current rule with a name, with its defaults. It may be disabled.
func (s *Set) Rule(name string) (Rule, bool) {
	r, ok := s.current().byName[name]
	return r, ok
}

// standard contains the rules of a nil set.
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

// refresh reads the rules of the source.
func (s *Set) refresh() {
	if s.source == nil {
		return
	}
	if list := s.source.Rules(); !sameList(list, s.seen) {
		s.seen, s.now = list, nil
	}
}

// sameList reports whether two lists are the same slice.
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

// declared returns the rules of the application and those of the source whose names are not taken.
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

// defaults returns the default rules that the declared rules do not replace.
func (s *Set) defaults(declared []Rule) []Rule { return defaults(s.bare, names(declared)) }

// at returns the field name of the rule at an index.
func at(i int) string { return fmt.Sprintf("rules[%d]", i) }

func taken(name string) error {
	return event.FieldErrorf("name", "%q is already used by another rule: choose another name", name)
}

// fits reports rules that are too large in total.
func fits(all []Rule) error {
	specs := make([]Spec, len(all))
	for i, r := range all {
		specs[i] = r.Spec()
	}
	raw, err := json.Marshal(specs)
	if err != nil {
		return event.FieldErrorf("rules", "have no JSON form: %s", err)
	}
	if len(raw) > MaxBytes {
		return event.FieldErrorf("rules", "is %d bytes as JSON, must be at most %d: shorten prompts and lists", len(raw), MaxBytes)
	}
	return nil
}
