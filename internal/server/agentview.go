package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/registry"
	"github.com/threadmill/threadmill/store"
)

// AgentDefinition is the JSON form of an [agent.Agent], with the words that describe it in
// the API.
type AgentDefinition struct {
	Name             string                `json:"name,omitempty" maxLength:"64" doc:"1 to 64 letters, digits, - and _, beginning with a letter or digit. Default: that of the path"`
	Description      string                `json:"description,omitempty" doc:"What the agent is for"`
	Instructions     string                `json:"instructions,omitempty" doc:"The system prompt"`
	Model            string                `json:"model" doc:"provider/model, such as openai/gpt-4.1-mini"`
	Temperature      *float64              `json:"temperature,omitempty" minimum:"0" maximum:"2" doc:"Default: the provider's"`
	MaxOutputTokens  int                   `json:"maxOutputTokens,omitempty" minimum:"0" doc:"Of one reply. Default, and 0: the provider's"`
	ReasoningEffort  string                `json:"reasoningEffort,omitempty" doc:"low, medium, high or the provider's own word. Default: the provider's"`
	Tools            []string              `json:"tools,omitempty" doc:"The names of the tools that it may call. Default: none"`
	Approvals        map[string]string     `json:"approvals,omitempty" doc:"never, always or deny, by the names of tools; * is for all others. Default: as the tool declares"`
	ApprovalRules    []AgentApprovalRule   `json:"approvalRules,omitempty" doc:"Look at the arguments of calls before approvals do. One that denies always wins"`
	ApprovalTerms    *AgentApprovalTerms   `json:"approvalTerms,omitempty" doc:"How people are asked, where a rule does not say it"`
	OnWaiting        string                `json:"onWaiting,omitempty" enum:"answer,hold,cancel" doc:"What becomes of a person's message while a call of the agent waits for people. Default: answer"`
	WorkingDirectory string                `json:"workingDirectory,omitempty" doc:"Where its tools work; workingDirectory of a thread's metadata comes before it"`
	AutoMention      *bool                 `json:"autoMention,omitempty" doc:"Whether an answer to another agent that addresses nobody begins with a mention of that agent. Default: true"`
	Limits           *AgentDefinitionLimit `json:"limits,omitempty"`
}

// AgentApprovalRule describes an [approval.Rule]. A list that is given and empty stays, so
// that package agent refuses it.
type AgentApprovalRule struct {
	Name   string              `json:"name" doc:"Shown to people, and kept with what the rule decides; unique"`
	Tools  []string            `json:"tools,omitzero" doc:"Those whose calls it looks at. Default: all"`
	Agents []string            `json:"agents,omitzero" doc:"The same of agents. Default: all"`
	When   string              `json:"when,omitempty" doc:"An expression in CEL that is true of the calls that it is for. Default: all"`
	Effect string              `json:"effect" enum:"allow,ask,deny"`
	Reason string              `json:"reason,omitempty" doc:"For the person who is asked, or the model whose call is denied"`
	Terms  *AgentApprovalTerms `json:"terms,omitempty"`
}

// AgentApprovalTerms describes [approval.Terms], with lists as in a rule.
type AgentApprovalTerms struct {
	Approvers []string `json:"approvers,omitzero" doc:"The only ones who may decide. Default: anybody"`
	Quorum    int      `json:"quorum,omitempty" minimum:"0" doc:"How many have to approve. Default: 1"`
	Expires   string   `json:"expires,omitempty" doc:"After how long a request ends without a decision, such as 30m. Default: never"`
	Remind    string   `json:"remind,omitempty" doc:"How often people are reminded until then, such as 10m. Default: never"`
	OnExpiry  string   `json:"onExpiry,omitempty" enum:"deny,interrupt" doc:"What the end of a request means: the call does not run, or the turn ends. Default: deny"`
}

// AgentDefinitionLimit describes [agent.Limits].
type AgentDefinitionLimit struct {
	MaxSteps        int    `json:"maxSteps,omitempty" minimum:"0" maximum:"1000" doc:"Calls of the model in one turn. Default, and 0: 25"`
	ModelTimeout    string `json:"modelTimeout,omitempty" doc:"For one call of the model, such as 90s, at most 1h. Default: 10m"`
	ContextMessages int    `json:"contextMessages,omitempty" minimum:"0" maximum:"100000" doc:"How many of the newest messages the model is shown. Default, and 0: 200"`
}

// agent reads the definition. The error is a [*event.FieldError].
func (d AgentDefinition) agent() (agent.Agent, error) {
	var a agent.Agent
	raw, err := json.Marshal(d)
	if err != nil {
		return a, err
	}
	err = json.Unmarshal(raw, &a)
	return a, err
}

func agentDefinition(a agent.Agent) (*AgentDefinition, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	var out AgentDefinition
	err = json.Unmarshal(raw, &out)
	return &out, err
}

// AgentSummary is an agent in a list.
type AgentSummary struct {
	Name        string     `json:"name"`
	Model       string     `json:"model,omitempty"`
	Description string     `json:"description,omitempty"`
	Source      string     `json:"source" enum:"configured,stored" doc:"Where its definition is from: code or file, or this API"`
	Version     int        `json:"version,omitempty" doc:"Of a stored definition, from 1"`
	By          string     `json:"by,omitempty" doc:"Who has stored the version"`
	At          *time.Time `json:"at,omitempty" doc:"When"`
	Default     bool       `json:"default,omitempty" doc:"In a list: threads that name no agents have this one"`
	Problem     string     `json:"problem,omitempty" doc:"Why the stored definition cannot be used. The agent fails until it is replaced or deleted"`
}

// AgentDetail is an agent with its definition.
type AgentDetail struct {
	AgentSummary
	Definition *AgentDefinition `json:"definition,omitempty" doc:"As it can be stored. Left out if it cannot be read"`
	Warnings   []string         `json:"warnings,omitempty" doc:"What the definition names and the workers do not have, as far as that is known here"`
}

func agentSummary(e registry.Entry) AgentSummary {
	out := AgentSummary{
		Name: e.Name, Model: e.Model, Description: e.Description, Source: string(e.Source),
		Version: e.Version, By: e.By, At: whenIfSet(e.At),
	}
	if e.Problem != nil {
		out.Problem = e.Problem.Error()
	}
	return out
}

// whenIfSet is nil for what is configured, and so has no time.
func whenIfSet(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (s *server) agentDetail(e registry.Entry) (AgentDetail, error) {
	out := AgentDetail{AgentSummary: agentSummary(e)}
	if e.Problem != nil {
		return out, nil
	}
	var err error
	out.Definition, err = agentDefinition(e.Agent)
	out.Warnings = s.agentWarnings(e.Agent)
	return out, err
}

// agentWarnings says what an agent names that there is not. It may come with the next
// release of the workers, so it is no mistake.
func (s *server) agentWarnings(a agent.Agent) []string {
	var out []string
	provider, _, _ := strings.Cut(a.Model, "/")
	if s.Models != nil && !slices.Contains(s.Models, provider) {
		out = append(out, fmt.Sprintf("model: there is no provider %q, so that the agent cannot answer; there are %s", provider, strings.Join(s.Models, ", ")))
	}
	if s.Tools == nil {
		return out
	}
	for i, name := range a.Tools {
		if !slices.Contains(s.Tools, name) {
			out = append(out, fmt.Sprintf("tools[%d]: there is no tool %q; the agent does without", i, name))
		}
	}
	return append(out, policyWarnings(a, slices.Concat(s.Tools, a.Tools))...)
}

// policyWarnings says which policies and rules of an agent are for none of these tools, and
// so guard nothing.
func policyWarnings(a agent.Agent, tools []string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.Approvals)) {
		if name == "*" || slices.Contains(tools, name) {
			continue
		}
		warning := fmt.Sprintf("approvals.%s: there is no tool %q; the policy is for no call", name, name)
		if at := slices.IndexFunc(tools, func(tool string) bool { return strings.EqualFold(tool, name) }); at >= 0 {
			warning += fmt.Sprintf(". Upper and lower case differ here, and the tool is called %q", tools[at])
		}
		out = append(out, warning)
	}
	for i, r := range a.ApprovalRules {
		for j, name := range r.Tools {
			// Rules do not tell names apart by their case.
			if name != "*" && !slices.ContainsFunc(tools, func(tool string) bool { return strings.EqualFold(tool, name) }) {
				out = append(out, fmt.Sprintf("approvalRules[%d].tools[%d]: there is no tool %q; the rule sees no call of it", i, j, name))
			}
		}
	}
	return out
}

// AgentVersion is one version of a stored agent.
type AgentVersion struct {
	Name       string           `json:"name" doc:"As this version writes it"`
	Version    int              `json:"version"`
	Deleted    bool             `json:"deleted,omitempty" doc:"With this version the agent was deleted"`
	By         string           `json:"by,omitempty"`
	At         time.Time        `json:"at"`
	Seq        int64            `json:"seq" doc:"Of the change, among those of all agents"`
	Definition *AgentDefinition `json:"definition,omitempty"`
	Problem    string           `json:"problem,omitempty" doc:"Why the definition cannot be read"`
}

func agentVersion(v store.AgentVersion) AgentVersion {
	out := AgentVersion{Name: v.Name, Version: v.Version, Deleted: v.Deleted, By: v.By, At: v.At, Seq: v.Seq}
	if v.Deleted {
		return out
	}
	a, err := registry.Read(v)
	if err == nil {
		out.Definition, err = agentDefinition(a)
	}
	if err != nil {
		out.Problem = err.Error()
	}
	return out
}
