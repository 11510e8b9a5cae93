package agent

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// Agent is a named role in a thread.
type Agent struct {
	// Name is unique among agents. It consists of letters, digits, - and _.
	Name        string
	Description string

	// Instructions are the system prompt.
	Instructions string

	// Model is "provider/model", such as "openai/gpt-5.6-luna" or "demo/demo".
	Model string

	// Temperature, MaxOutputTokens and ReasoningEffort are the provider's defaults if nil, 0 or "".
	Temperature     *float64
	MaxOutputTokens int
	ReasoningEffort string

	// Tools are the names of the tools that the agent may call. "server__*" stands for all tools of an
	// MCP server.
	Tools []string

	// Approvals maps the names of tools to their approval policies; "server__*" applies to all other
	// tools of an MCP server, and "*" to all others. A tool without a policy here follows its own
	// NeedsApproval.
	Approvals map[string]Policy

	// ApprovalRules are evaluated before Approvals, and after the rules of the runtime. A rule that
	// denies always wins.
	ApprovalRules []approval.Rule

	// ApprovalTerms are the terms of approval requests for which no rule sets any.
	ApprovalTerms approval.Terms

	// OnWaiting says how the thread handles a user's message while a call of the agent waits for
	// people. Default [event.OnWaitingAnswer]. A post can override it.
	OnWaiting event.OnWaiting

	// WorkingDirectory is the directory of the agent's tools. The thread's metadata
	// ("workingDirectory") overrides it.
	WorkingDirectory string

	// NoAutoMention disables automatic mentions: by default, an answer to another agent that
	// mentions nobody begins with a mention of that agent.
	NoAutoMention bool

	// Knowledge is what the agent is given with a message, without asking for it.
	Knowledge Knowledge

	Limits Limits
}

// Knowledge says what an agent is given from documents.
type Knowledge struct {
	// Passages is the number of passages that are searched for each message of a person that the agent answers. 0 = none.
	Passages int

	// Collections are searched, also by the agent's tool search_knowledge. Empty = all of the namespace.
	Collections []string

	// Entities finds the people and things that the messages of people mention, after the agent has answered them, and tells it
	// what is known about those that a message names.
	Entities bool
}

// MaxPassages is the maximum of [Knowledge].Passages.
const MaxPassages = 50

// Policy says whether a tool needs approval.
type Policy string

// The policies.
const (
	// PolicyNever runs the tool without approval.
	PolicyNever Policy = "never"
	// PolicyAlways requires approval of each call, unless an earlier approval covers it.
	PolicyAlways Policy = "always"
	// PolicyDeny never runs the tool.
	PolicyDeny Policy = "deny"
)

// Limits are limits of one turn of an agent.
type Limits struct {
	// MaxSteps is the maximum number of model calls. Default 25.
	MaxSteps int

	// ModelTimeout is the limit of one model call. Default 10 minutes.
	ModelTimeout time.Duration

	// ContextMessages is the number of the thread's newest messages in a model's context. The messages,
	// calls and results of the running turn are always in it, as far as 8 MiB hold them. Default 200.
	ContextMessages int

	// MaxToolCalls is the maximum number of tool calls in one reply. Further calls of the reply do not
	// run, and have errors as their results. Default 64.
	MaxToolCalls int

	// MaxReplyBytes is the maximum size of one reply: its text, thoughts and tool calls. A model call
	// with a larger reply fails. Default 2 MiB.
	MaxReplyBytes int

	// MaxResult is the maximum size, in bytes, of the result of a tool or a sub-agent in a model's context, and at most a quarter of what
	// is known to fit into it. Of a larger one, the model sees the beginning and the end, and reads the rest with the tool
	// read_result. Default 128 KiB.
	MaxResult int
}

// Defaults of [Limits].
const (
	DefaultMaxSteps        = 25
	DefaultModelTimeout    = 10 * time.Minute
	DefaultContextMessages = 200
	DefaultMaxToolCalls    = 64
	DefaultMaxReplyBytes   = llm.DefaultMaxReplyBytes
	DefaultMaxResult       = 128 << 10
)

// WithDefaults returns l with the defaults of zero fields.
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
	if l.MaxToolCalls == 0 {
		l.MaxToolCalls = DefaultMaxToolCalls
	}
	if l.MaxReplyBytes == 0 {
		l.MaxReplyBytes = DefaultMaxReplyBytes
	}
	if l.MaxResult == 0 {
		l.MaxResult = DefaultMaxResult
	}
	return l
}

// Approval returns the policy for a tool. toolAsks says whether the tool's definition requires
// approval.
func (a Agent) Approval(toolName string, toolAsks bool) Policy {
	if p, ok := a.Approvals[toolName]; ok {
		return p
	}
	if server, ok := event.ToolServer(toolName); ok {
		if p, ok := a.Approvals[event.ToolPattern(server)]; ok {
			return p
		}
	}
	if p, ok := a.Approvals["*"]; ok {
		return p
	}
	if toolAsks {
		return PolicyAlways
	}
	return PolicyNever
}

// ErrUnknown means that the registry does not have the agent.
var ErrUnknown = errors.New("unknown agent")

// Source finds agents by name. Implementations are safe for concurrent use.
type Source interface {
	// Agent returns the agent with a name; "" is the default agent. For an unknown name, the error
	// wraps [ErrUnknown].
	Agent(ctx context.Context, namespace, name string) (Agent, error)
}

// Fixed is a [Source] of a list of agents. The first is the default agent.
type Fixed []Agent

// Agent implements [Source]. Names are case-insensitive.
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
