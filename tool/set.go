package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Set is an ordered collection of tools with unique names. It is immutable, and the zero value is
// empty.
type Set struct {
	tools  []Tool
	names  []string
	byName map[string]Tool
}

// NewSet returns a set of tools in the given order. The error names every tool that is nil, that
// has an invalid definition, or whose name is already used.
func NewSet(tools ...Tool) (*Set, error) {
	s := &Set{byName: make(map[string]Tool, len(tools))}
	var problems []error
	first := map[string]int{}
	for i, t := range tools {
		if t == nil {
			problems = append(problems, fmt.Errorf("tool %d is nil", i+1))
			continue
		}
		d := t.Definition()
		if err := d.Validate(); err != nil {
			problems = append(problems, err)
			continue
		}
		// Approvals compare names without regard to case.
		name := strings.ToLower(d.Name)
		if at, taken := first[name]; taken {
			problems = append(problems, fmt.Errorf("tool %q: the name is used twice, by tools %d and %d (names are told apart without regard to case)", d.Name, at, i+1))
			continue
		}
		first[name] = i + 1
		s.tools, s.names, s.byName[d.Name] = append(s.tools, t), append(s.names, d.Name), t
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("tool set: %w", err)
	}
	return s, nil
}

// Lookup returns the tool with exactly this name.
func (s *Set) Lookup(name string) (Tool, bool) {
	if s == nil {
		return nil, false
	}
	t, ok := s.byName[name]
	return t, ok
}

// Names returns the names of the tools, in order.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return slices.Clone(s.names)
}

// Tools returns the tools, in order.
func (s *Set) Tools() []Tool {
	if s == nil {
		return nil
	}
	return slices.Clone(s.tools)
}
