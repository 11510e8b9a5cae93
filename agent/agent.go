package agent

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
)

// Agent is a named role in a thread.
type Agent struct {
	// Name is what people and other agents call it: letters, digits, - and _.
	Name        string
	Description string

	// Instructions are the system prompt.
	Instructions string

	// Model is "provider/model", such as "openai/gpt-4.1-mini" or "demo/demo".
	Model string

	// Temperature nil, MaxOutputTokens 0 and ReasoningEffort "" leave it to the provider.
	Temperature     *float64
	MaxOutputTokens int
	ReasoningEffort string

	// Tools are the names of the tools that the agent may call.
	Tools []string

	// Approvals maps a tool's name to the policy for it; "*" is for all others. A tool
	// that is not named here asks if it declares so itself.
	Approvals map[string]Policy

	// ApprovalRules look at the arguments of calls, before Approvals do, and after those
	// of the runtime. One that denies always wins.
	ApprovalRules []approval.Rule

	// ApprovalTerms are how people are asked, where a rule does not say it.
	ApprovalTerms approval.Terms

	// OnWaiting says what becomes of a person's message while a call of the agent waits for
	// people. Default [event.OnWaitingAnswer]. A post can say otherwise.
	OnWaiting event.OnWaiting

	// WorkingDirectory is where the agent's tools work. The thread's metadata
	// ("workingDirectory") comes before it.
	WorkingDirectory string

	// NoAutoMention leaves the agent's answers to other agents as they are. Otherwise one
	// that addresses nobody begins with a mention of the agent that it answers.
	NoAutoMention bool

	Limits Limits
}

// Policy says whether a person is asked before a tool runs.
type Policy string

// The policies.
const (
	// Never runs the tool without asking.
	Never Policy = "never"
	// Always asks a person before each run, unless an approval before it covers the call.
	Always Policy = "always"
	// Forbidden never runs the tool.
	Forbidden Policy = "deny"
)

// Limits bound one turn of an agent.
type Limits struct {
	// MaxSteps is how many times the model may be called in one turn. Default 25.
	MaxSteps int

	// ModelTimeout bounds one model call. Default 10 minutes.
	ModelTimeout time.Duration

	// ContextMessages is how many of the newest messages the model is shown. Default 200.
	ContextMessages int
}

// Defaults of [Limits].
const (
	DefaultMaxSteps        = 25
	DefaultModelTimeout    = 10 * time.Minute
	DefaultContextMessages = 200
)

// WithDefaults returns l with every zero field replaced by its default.
func (l Limits) WithDefaults() Limits {
	if l.MaxSteps == 0 {
		l.MaxSteps = DefaultMaxSteps
	}
	if l.ModelTimeout == 0 {
		l.ModelTimeout = DefaultModelTimeout
	}
	if l.ContextMessages == 0 {
		l.ContextMessages = DefaultContextMessages
	}
	return l
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Validate reports the first field that is missing or out of bounds.
func (a Agent) Validate() error {
	switch {
	case !nameForm.MatchString(a.Name):
		return fmt.Errorf("agent name %q: use 1 to 64 letters, digits, - and _, beginning with a letter or digit", a.Name)
	case a.Model == "":
		return fmt.Errorf(`agent %q: model is required, as "provider/model"`, a.Name)
	case a.Limits.MaxSteps < 0 || a.Limits.MaxSteps > 1000:
		return fmt.Errorf("agent %q: limits.maxSteps is %d, must be 1 to 1000 (or 0 for the default, %d)", a.Name, a.Limits.MaxSteps, DefaultMaxSteps)
	case a.Limits.ModelTimeout < 0 || a.Limits.ModelTimeout > time.Hour:
		return fmt.Errorf("agent %q: limits.modelTimeout is %s, must be positive and at most 1h", a.Name, a.Limits.ModelTimeout)
	case a.Limits.ContextMessages < 0:
		return fmt.Errorf("agent %q: limits.contextMessages is %d, must be positive", a.Name, a.Limits.ContextMessages)
	case a.OnWaiting != "" && !a.OnWaiting.Valid():
		return fmt.Errorf("agent %q: onWaiting is %q, must be answer, hold or cancel", a.Name, a.OnWaiting)
	}
	for tool, p := range a.Approvals {
		if p != Never && p != Always && p != Forbidden {
			return fmt.Errorf("agent %q: approvals.%s is %q, must be never, always or deny", a.Name, tool, p)
		}
	}
	if err := errors.Join(approval.Check(a.ApprovalRules), approval.CheckTerms(a.ApprovalTerms)); err != nil {
		return fmt.Errorf("agent %q: %w", a.Name, err)
	}
	return nil
}

// Approval returns the policy for a tool, given what the tool declares itself.
func (a Agent) Approval(toolName string, toolAsks bool) Policy {
	if p, ok := a.Approvals[toolName]; ok {
		return p
	}
	if p, ok := a.Approvals["*"]; ok {
		return p
	}
	if toolAsks {
		return Always
	}
	return Never
}

// ErrUnknown is returned for an agent that the registry does not have.
var ErrUnknown = errors.New("unknown agent")

// Registry finds agents by name. Implementations are safe for concurrent use.
type Registry interface {
	// Agent returns the agent of that name; "" names the default agent. An unknown
	// name gives an error that wraps [ErrUnknown].
	Agent(ctx context.Context, namespace, name string) (Agent, error)
}

// Fixed is a [Registry] over a list; the first is the default agent.
type Fixed []Agent

// Agent implements [Registry]. Names are compared without regard to case.
func (f Fixed) Agent(_ context.Context, _, name string) (Agent, error) {
	if name == "" && len(f) > 0 {
		return f[0], nil
	}
	for _, a := range f {
		if strings.EqualFold(a.Name, name) {
			return a, nil
		}
	}
	known := make([]string, 0, len(f))
	for _, a := range f {
		known = append(known, a.Name)
	}
	sort.Strings(known)
	return Agent{}, fmt.Errorf("%w: %q; known are %v", ErrUnknown, name, known)
}
