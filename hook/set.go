package hook

import (
	"fmt"
	"strings"
)

// Set contains the hooks and processors of an application. A nil set is empty.
type Set struct {
	specs      []Spec
	hooks      map[string]Hook
	processors map[string]Processor
}

// Config configures a [Set].
type Config struct {
	Hooks      []Hook
	Processors []Processor

	// Redact redacts what they return. Default: nothing is redacted.
	Redact func(Answer, error) (Answer, error)
}

// NewSet validates hooks and processors, and returns the set with hooks before processors.
func NewSet(cfg Config) (*Set, error) {
	s := &Set{hooks: map[string]Hook{}, processors: map[string]Processor{}}
	for i, h := range cfg.Hooks {
		if err := h.Validate(); err != nil {
			return nil, fmt.Errorf("hooks[%d]: %w", i, err)
		}
		if s.has(h.Name) {
			return nil, fmt.Errorf("hooks[%d]: the name %q is already used", i, h.Name)
		}
		h.redact = cfg.Redact
		s.hooks[h.Name] = h
		s.specs = append(s.specs, h.spec())
	}
	for i, p := range cfg.Processors {
		if p.Name == "" {
			p.Name = strings.ReplaceAll(p.EventType, ".", "-") + "-processor"
		}
		if err := p.Validate(); err != nil {
			return nil, fmt.Errorf("processors[%d]: %w", i, err)
		}
		if s.has(p.Name) {
			return nil, fmt.Errorf("processors[%d]: the name %q is already used; set Name", i, p.Name)
		}
		p.redact = cfg.Redact
		s.processors[p.Name] = p
		s.specs = append(s.specs, p.spec())
	}
	return s, nil
}

func (s *Set) has(name string) bool {
	_, hook := s.hooks[name]
	_, processor := s.processors[name]
	return hook || processor
}

// Specs returns the specs of hooks and processors, in the order in which they run.
func (s *Set) Specs() []Spec {
	if s == nil {
		return nil
	}
	return append([]Spec(nil), s.specs...)
}

// Hook returns a hook by name.
func (s *Set) Hook(name string) (Hook, bool) {
	if s == nil {
		return Hook{}, false
	}
	h, ok := s.hooks[name]
	return h, ok
}

// Processor returns a processor by name.
func (s *Set) Processor(name string) (Processor, bool) {
	if s == nil {
		return Processor{}, false
	}
	p, ok := s.processors[name]
	return p, ok
}

func (h Hook) spec() Spec {
	out := Spec{
		Name: h.Name, Kind: KindFunc, Filter: h.Filter, Workflow: h.Workflow, OnFailure: h.OnFailure,
		Timeout: h.Timeout, MaxAttempts: h.MaxAttempts, HoldOutput: h.HoldOutput,
	}
	if out.OnFailure == "" {
		out.OnFailure = FailClosed
	}
	switch {
	case h.Inline != nil:
		out.Kind = KindInline
	case h.Workflow != nil:
		out.Kind = KindWorkflow
		if out.MaxAttempts == 0 {
			out.MaxAttempts = 1
		}
	}
	if out.Kind == KindFunc {
		out.setDefaults()
	}
	return out
}

func (p Processor) spec() Spec {
	out := Spec{
		Name: p.Name, Kind: KindProcessor, Filter: Filter{Types: []string{p.EventType}}, OnFailure: p.OnFailure,
		Timeout: p.Timeout, MaxAttempts: p.MaxAttempts, ReplaceDefault: p.ReplaceDefault,
	}
	if out.OnFailure == "" {
		out.OnFailure = FailOpen
	}
	out.setDefaults()
	return out
}

func (s *Spec) setDefaults() {
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.MaxAttempts == 0 {
		s.MaxAttempts = DefaultMaxAttempts
	}
}

// Processors returns the names of the processors, in the order in which they run.
func (s *Set) Processors() []string {
	out := []string{}
	for _, spec := range s.Specs() {
		if spec.Kind == KindProcessor {
			out = append(out, spec.Name)
		}
	}
	return out
}
