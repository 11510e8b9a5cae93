package rule

import (
	"slices"
	"time"
)

// Defaults of functions.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultMaxAttempts = 3
)

// Spec returns the spec of the rule with its defaults. It is unchanged by marshalling to JSON and
// back.
func (r Rule) Spec() Spec {
	r = r.complete()
	return Spec{
		Name: r.Name, Events: r.Events, Where: r.Where, Priority: r.Priority, Debounce: r.Debounce, Throttle: r.Throttle,
		Log: r.Log, Function: r.Function != nil, Timeout: r.Timeout, MaxAttempts: r.MaxAttempts, Processor: r.Processor,
		Agent: r.Agent, Message: r.message,
	}
}

// complete returns a copy of the rule with its defaults.
func (r Rule) complete() Rule {
	r.Name = r.name()
	r.Events = slices.Clone(r.Events)
	var where []Condition
	for _, c := range r.Where {
		where = append(where, c.plain())
	}
	r.Where = where
	if r.Agent != nil {
		agent := *r.Agent
		r.Agent = &agent
	}
	if r.Function != nil && r.Timeout == 0 {
		r.Timeout = DefaultTimeout
	}
	if r.Function != nil && r.MaxAttempts == 0 {
		r.MaxAttempts = DefaultMaxAttempts
	}
	return r
}

func (r Rule) name() string {
	if r.Name == "" && len(r.Events) > 0 {
		return r.Events[0]
	}
	return r.Name
}

// plain returns a copy of the condition whose values are as decoded from JSON. Values that cannot
// be marshalled, which Validate rejects, are omitted.
func (c Condition) plain() Condition {
	c.Equals, _ = plain(c.Equals)
	c.Not, _ = plain(c.Not)
	c.Contains, _ = plain(c.Contains)
	var in []any
	for _, v := range c.In {
		v, _ := plain(v)
		in = append(in, v)
	}
	c.In = in
	c.Above, c.Below, c.Exists = clone(c.Above), clone(c.Below), clone(c.Exists)
	return c
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
