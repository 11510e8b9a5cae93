package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/strictjson"
)

// Definition is the JSON form of an [Agent]: that of the configuration file, with durations
// as text. What has its default is left out.
type Definition struct {
	// 1 to 64 letters, digits, - and _, beginning with a letter or digit. Default: the name in the path.
	Name string `json:"name,omitempty" maxLength:"64"`

	// What the agent is for.
	Description string `json:"description,omitempty"`

	// The system prompt.
	Instructions string `json:"instructions,omitempty"`

	// provider/model, such as openai/gpt-5.6-luna.
	Model string `json:"model,omitempty" required:"true"`

	// Default: the provider's.
	Temperature *float64 `json:"temperature,omitempty" minimum:"0" maximum:"2"`

	// Of one reply. Default, and 0: the provider's.
	MaxOutputTokens int `json:"maxOutputTokens,omitempty" minimum:"0"`

	// low, medium, high or a value of the provider. Default: the provider's.
	ReasoningEffort string `json:"reasoningEffort,omitempty"`

	// The names of the tools that it may call. Default: none.
	Tools []string `json:"tools,omitempty" maxItems:"500"`

	// never, always or deny by tool name; * is for all others. Default: as the tool declares.
	Approvals map[string]Policy `json:"approvals,omitempty"`

	// Look at the arguments of calls before approvals do. A rule that denies always wins.
	ApprovalRules []RuleDefinition `json:"approvalRules,omitempty" maxItems:"1000"`

	// How approvals are requested where a rule has no terms.
	ApprovalTerms *TermsDefinition `json:"approvalTerms,omitempty"`

	// What a person's message does while a call of the agent waits for a decision or a client. Default: answer.
	OnWaiting event.OnWaiting `json:"onWaiting,omitempty" enum:"answer,hold,cancel"`

	// Where its tools work; workingDirectory in a thread's metadata takes precedence.
	WorkingDirectory string `json:"workingDirectory,omitempty"`

	// Whether an answer to another agent that mentions no agent begins with a mention of that agent. Default: true.
	AutoMention *bool `json:"autoMention,omitempty"`

	// What it is given from documents. Default: nothing.
	Knowledge *KnowledgeDefinition `json:"knowledge,omitempty"`

	// Bounds of a turn and of a model call.
	Limits *LimitsDefinition `json:"limits,omitempty"`
}

// KnowledgeDefinition is the JSON form of [Knowledge].
type KnowledgeDefinition struct {
	// How many passages are searched for each message of a person that it answers. Default, and 0: none.
	Passages int `json:"passages,omitempty" minimum:"0" maximum:"50"`

	// The collections that are searched, also by the tool search_knowledge. Default: all.
	Collections []string `json:"collections,omitzero" maxItems:"50"`

	// Whether it learns and is told who and what people's messages mention. Default: no.
	Entities bool `json:"entities,omitempty"`
}

// RuleDefinition is the JSON form of an [approval.Rule].
type RuleDefinition struct {
	// Shown to people, and stored with the rule's decisions; unique.
	Name string `json:"name,omitempty" required:"true"`

	// The tools whose calls it looks at. Default: all.
	Tools []string `json:"tools,omitzero" maxItems:"1000"`

	// The agents whose calls it looks at. Default: all.
	Agents []string `json:"agents,omitzero" maxItems:"1000"`

	// A CEL expression that is true for the calls to match. Default: all.
	When string `json:"when,omitempty"`

	// What happens to a call that matches.
	Effect approval.Effect `json:"effect,omitempty" required:"true" enum:"allow,ask,deny"`

	// For the person who decides, or the model whose call is denied.
	Reason string `json:"reason,omitempty"`

	// Who may decide, and how long they have.
	Terms *TermsDefinition `json:"terms,omitempty"`
}

// TermsDefinition is the JSON form of [approval.Terms].
type TermsDefinition struct {
	// The only people who may decide. Default: anybody.
	Approvers []string `json:"approvers,omitzero" maxItems:"100"`

	// Groups of the configuration whose members may decide too. Default: none.
	Groups []string `json:"groups,omitzero" maxItems:"20"`

	// How many have to approve. Default: 1.
	Quorum int `json:"quorum,omitempty" minimum:"0"`

	// After how long a request ends without a decision, such as 30m. Default: never.
	Expires string `json:"expires,omitempty"`

	// How often people are reminded until then, such as 10m. Default: never.
	Remind string `json:"remind,omitempty"`

	// What an expired request means: the call does not run, or the turn ends. Default: deny.
	OnExpiry approval.OnExpiry `json:"onExpiry,omitempty" enum:"deny,interrupt"`
}

// LimitsDefinition is the JSON form of [Limits].
type LimitsDefinition struct {
	// Model calls in one turn. Default, and 0: 25.
	MaxSteps int `json:"maxSteps,omitempty" minimum:"0" maximum:"1000"`

	// For one model call, such as 90s, at most 1h. Default: 10m.
	ModelTimeout string `json:"modelTimeout,omitempty"`

	// How many of the newest messages the model is shown, besides all messages of the running turn. Default, and
	// 0: 200.
	ContextMessages int `json:"contextMessages,omitempty" minimum:"0" maximum:"100000"`

	// Tool calls of one reply; further ones get an error as their result. Default, and 0: 64.
	MaxToolCalls int `json:"maxToolCalls,omitempty" minimum:"0" maximum:"256"`

	// The size of one reply, at least 1024: text, thoughts and tool calls. A model call with a larger one fails.
	// Default, and 0: 2097152.
	MaxReplyBytes int `json:"maxReplyBytes,omitempty" minimum:"0" maximum:"8388608"`

	// How many bytes, at least 1024, the model is shown of the result of a tool or a sub-agent, and at most a quarter
	// of what is known to fit into its context. It reads the rest with the tool read_result. Default, and 0: 131072.
	MaxResult int `json:"maxResult,omitempty" minimum:"0" maximum:"8388608"`
}

// Definition returns the agent's JSON form.
func (a Agent) Definition() Definition {
	out := Definition{
		Name: a.Name, Description: a.Description, Instructions: a.Instructions, Model: a.Model,
		Temperature: a.Temperature, MaxOutputTokens: a.MaxOutputTokens, ReasoningEffort: a.ReasoningEffort,
		Tools: a.Tools, Approvals: a.Approvals, ApprovalTerms: termsOf(a.ApprovalTerms), OnWaiting: a.OnWaiting, WorkingDirectory: a.WorkingDirectory,
	}
	for _, r := range a.ApprovalRules {
		out.ApprovalRules = append(out.ApprovalRules, RuleDefinition{r.Name, r.Tools, r.Agents, r.When, r.Effect, r.Reason, termsOf(r.Terms)})
	}
	if a.NoAutoMention {
		out.AutoMention = new(bool)
	}
	if k := a.Knowledge; k.Passages > 0 || len(k.Collections) > 0 || k.Entities {
		out.Knowledge = &KnowledgeDefinition{k.Passages, k.Collections, k.Entities}
	}
	if a.Limits != (Limits{}) {
		out.Limits = &LimitsDefinition{a.Limits.MaxSteps, durationText(a.Limits.ModelTimeout), a.Limits.ContextMessages, a.Limits.MaxToolCalls, a.Limits.MaxReplyBytes, a.Limits.MaxResult}
	}
	return out
}

func termsOf(t approval.Terms) *TermsDefinition {
	if t.IsZero() {
		return nil
	}
	return &TermsDefinition{t.Approvers, t.Groups, t.Quorum, durationText(t.Expires), durationText(t.Remind), t.OnExpiry}
}

// Agent returns the agent that is defined. It rejects texts that are no durations, and empty
// lists that would stand for all, with a [*event.FieldError]. Whether the agent is possible is
// for [Agent.Validate] to say.
func (d Definition) Agent() (Agent, error) {
	out := Agent{
		Name: d.Name, Description: d.Description, Instructions: d.Instructions, Model: d.Model,
		Temperature: d.Temperature, MaxOutputTokens: d.MaxOutputTokens, ReasoningEffort: d.ReasoningEffort,
		Tools: d.Tools, Approvals: d.Approvals, OnWaiting: d.OnWaiting, WorkingDirectory: d.WorkingDirectory,
		NoAutoMention: d.AutoMention != nil && !*d.AutoMention,
	}
	var wrong firstMistake
	for i, r := range d.ApprovalRules {
		at := fmt.Sprintf("approvalRules[%d].", i)
		out.ApprovalRules = append(out.ApprovalRules, approval.Rule{
			Name: r.Name, Tools: wrong.names(at+"tools", r.Tools, "for all"), Agents: wrong.names(at+"agents", r.Agents, "for all"),
			When: r.When, Effect: r.Effect, Reason: r.Reason, Terms: wrong.terms(at+"terms.", r.Terms),
		})
	}
	out.ApprovalTerms = wrong.terms("approvalTerms.", d.ApprovalTerms)
	if k := d.Knowledge; k != nil {
		out.Knowledge = Knowledge{Passages: k.Passages, Entities: k.Entities, Collections: wrong.names("knowledge.collections", k.Collections, "for all")}
	}
	if l := d.Limits; l != nil {
		out.Limits = Limits{MaxSteps: l.MaxSteps, ModelTimeout: wrong.duration("limits.modelTimeout", l.ModelTimeout), ContextMessages: l.ContextMessages, MaxToolCalls: l.MaxToolCalls, MaxReplyBytes: l.MaxReplyBytes, MaxResult: l.MaxResult}
	}
	if wrong.err != nil {
		return Agent{}, wrong.err
	}
	return out, nil
}

// firstMistake converts fields, and keeps the first mistake in them.
type firstMistake struct{ err error }

func (m *firstMistake) add(field, problem string) {
	if m.err == nil {
		m.err = event.FieldErrorf(field, "%s", problem)
	}
}

func (m *firstMistake) terms(at string, t *TermsDefinition) approval.Terms {
	if t == nil {
		return approval.Terms{}
	}
	return approval.Terms{
		Approvers: m.names(at+"approvers", t.Approvers, "if anybody may decide"),
		Groups:    m.names(at+"groups", t.Groups, "if there are none"), Quorum: t.Quorum,
		Expires: m.duration(at+"expires", t.Expires), Remind: m.duration(at+"remind", t.Remind), OnExpiry: t.OnExpiry,
	}
}

// names is a list that stands for all if it is left out. An empty one would do so as well,
// which nobody means.
func (m *firstMistake) names(field string, names []string, omitIt string) []string {
	if names != nil && len(names) == 0 {
		m.add(field, "is empty: name at least one, or omit it "+omitIt)
	}
	return names
}

func (m *firstMistake) duration(field, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		m.add(field, fmt.Sprintf("%.64q is not a duration such as 30s, 10m or 1h30m", text))
	}
	return d
}

// durationText is the shortest form, and empty for 0.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON writes the agent's [Definition].
func (a Agent) MarshalJSON() ([]byte, error) { return strictjson.Encode(a.Definition()) }

// UnmarshalJSON reads a [Definition]. Fields that are not known are rejected with a
// [*event.FieldError], as are those that [Definition.Agent] rejects; null is as if left out.
func (a *Agent) UnmarshalJSON(data []byte) error {
	var d Definition
	if err := event.DecodeKnownJSON("", data, &d); err != nil {
		return err
	}
	out, err := d.Agent()
	if err != nil {
		return err
	}
	*a = out
	return nil
}
