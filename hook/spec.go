package hook

import (
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Kind is the way in which a hook runs.
type Kind string

// The kinds.
const (
	KindFunc      Kind = "func"
	KindInline    Kind = "inline"
	KindWorkflow  Kind = "workflow"
	KindProcessor Kind = "processor"
)

// Spec is the serializable description of a hook or processor that a thread uses.
type Spec struct {
	Name        string        `json:"name"`
	Kind        Kind          `json:"kind"`
	Filter      Filter        `json:"filter"`
	Workflow    *Workflow     `json:"workflow,omitempty"`
	OnFailure   FailureMode   `json:"onFailure"`
	Timeout     time.Duration `json:"timeout,omitempty"`
	MaxAttempts int           `json:"maxAttempts,omitempty"`
	HoldOutput  bool          `json:"holdOutput,omitempty"`

	// ReplaceDefault is [Processor].ReplaceDefault.
	ReplaceDefault bool `json:"replaceDefault,omitempty"`
}

// Subject contains the properties of an event that a [Filter] matches.
type Subject struct {
	Namespace string
	Type      string
	CreatedBy event.CreatedBy
	Agent     string
	Tools     []string
}

// SubjectOf returns the properties of an event in a namespace. Those of a tool's result, which an event
// does not contain, are missing: the agent and the tool.
func SubjectOf(namespace string, e event.Event) Subject {
	s := Subject{Namespace: namespace, Type: e.EventType()}
	switch e := e.(type) {
	case event.MessageEvent:
		s.CreatedBy = e.CreatedBy
		if e.CreatedBy == event.CreatedByAgent {
			s.Agent = e.Message.SenderID
		}
	case event.ToolCallEvent:
		s.CreatedBy, s.Agent = event.CreatedByAgent, e.AgentName
		for _, c := range e.ToolCalls {
			s.Tools = append(s.Tools, c.Function.Name)
		}
	case event.LLMCallEvent:
		s.CreatedBy, s.Agent = event.CreatedByAgent, e.AgentName
	}
	return s
}

// Matches reports whether the filter selects an event.
func (f Filter) Matches(s Subject) bool {
	return f.matchesType(s.Type) &&
		(len(f.CreatedBy) == 0 || slices.Contains(f.CreatedBy, s.CreatedBy)) &&
		(len(f.Agents) == 0 || containsFold(f.Agents, s.Agent)) &&
		(len(f.Tools) == 0 || slices.ContainsFunc(s.Tools, func(t string) bool { return event.MatchTools(f.Tools, t) })) &&
		(len(f.Namespaces) == 0 || slices.Contains(f.Namespaces, s.Namespace))
}

// Takes reports whether the hook handles an event after earlier hooks changed it: a processor
// handles only its type, other hooks any.
func (s Spec) Takes(e event.Event) bool {
	return s.Kind != KindProcessor || s.Filter.matchesType(e.EventType())
}

func (f Filter) matchesType(typ string) bool {
	if len(f.Types) == 0 {
		return typ != event.TypeLLMCall
	}
	return slices.ContainsFunc(f.Types, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return pattern == typ || wild && typ != event.TypeLLMCall && strings.HasPrefix(typ, prefix)
	})
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, s) })
}

// Matching returns the specs whose filters select an event, in order.
func Matching(specs []Spec, s Subject) []Spec {
	var out []Spec
	for _, spec := range specs {
		if spec.Filter.Matches(s) {
			out = append(out, spec)
		}
	}
	return out
}
