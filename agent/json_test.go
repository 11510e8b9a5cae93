package agent_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
)

// full has something in every field.
func full() agent.Agent {
	temperature := 0.0
	return agent.Agent{
		Name: "clerk", Description: "keeps the books", Instructions: "Be brief.\n<b> & \U0001F9F5", Model: "openai/gpt-4.1/mini",
		Temperature: &temperature, MaxOutputTokens: 1000, ReasoningEffort: "low",
		Tools:     []string{"shell_cmd", "current_time"},
		Approvals: map[string]agent.Policy{"*": agent.PolicyAlways, "current_time": agent.PolicyNever, "rm": agent.PolicyDeny},
		ApprovalRules: []approval.Rule{{
			Name: "no root", Tools: []string{"shell_cmd"}, Agents: []string{"*"}, When: `args.command == "sudo"`, Effect: approval.EffectAsk,
			Reason: "it is root's", Terms: approval.Terms{
				Approvers: []string{"ann", "bob"}, Groups: []string{"finance"}, Quorum: 2, Expires: 90 * time.Minute, Remind: 1500 * time.Millisecond, OnExpiry: approval.OnExpiryInterrupt,
			},
		}, {Effect: approval.EffectAllow}},
		ApprovalTerms:    approval.Terms{Expires: 24 * time.Hour},
		OnWaiting:        event.OnWaitingHold,
		WorkingDirectory: "/desk", NoAutoMention: true,
		Knowledge: agent.Knowledge{Passages: 3, Collections: []string{"guides"}, Entities: true},
		Limits:    agent.Limits{MaxSteps: 7, ModelTimeout: 10 * time.Minute, ContextMessages: 50, MaxToolCalls: 8, MaxReplyBytes: 4096, MaxResult: 2048},
	}
}

func TestAgentJSON(t *testing.T) {
	raw, err := json.Marshal(full())
	require.NoError(t, err)
	require.JSONEq(t, `{
		"name": "clerk", "description": "keeps the books", "instructions": "Be brief.\n<b> & 🧵", "model": "openai/gpt-4.1/mini",
		"temperature": 0, "maxOutputTokens": 1000, "reasoningEffort": "low",
		"tools": ["shell_cmd", "current_time"],
		"approvals": {"*": "always", "current_time": "never", "rm": "deny"},
		"approvalRules": [
			{"name": "no root", "tools": ["shell_cmd"], "agents": ["*"], "when": "args.command == \"sudo\"", "effect": "ask", "reason": "it is root's",
				"terms": {"approvers": ["ann", "bob"], "groups": ["finance"], "quorum": 2, "expires": "1h30m", "remind": "1.5s", "onExpiry": "interrupt"}},
			{"effect": "allow"}
		],
		"approvalTerms": {"expires": "24h"}, "onWaiting": "hold",
		"workingDirectory": "/desk", "autoMention": false,
		"knowledge": {"passages": 3, "collections": ["guides"], "entities": true},
		"limits": {"maxSteps": 7, "modelTimeout": "10m", "contextMessages": 50, "maxToolCalls": 8, "maxReplyBytes": 4096, "maxResult": 2048}
	}`, string(raw))
	var back agent.Agent
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, full(), back)

	raw, err = json.Marshal(agent.Agent{Name: "clerk", Model: "demo/demo"})
	require.NoError(t, err)
	require.Equal(t, `{"name":"clerk","model":"demo/demo"}`, string(raw), "what has its default is left out")
}

// TestAgentJSONIsWhole: a field that is new has to get a form.
func TestAgentJSONIsWhole(t *testing.T) {
	of := full()
	of.ApprovalTerms = of.ApprovalRules[0].Terms
	for name, value := range map[string]reflect.Value{
		"agent": reflect.ValueOf(of), "rule": reflect.ValueOf(of.ApprovalRules[0]), "terms": reflect.ValueOf(of.ApprovalTerms), "limits": reflect.ValueOf(of.Limits), "knowledge": reflect.ValueOf(of.Knowledge),
	} {
		for i := range value.NumField() {
			require.False(t, value.Field(i).IsZero(), "the test leaves out %s of %s", value.Type().Field(i).Name, name)
		}
	}
	raw, err := json.Marshal(of)
	require.NoError(t, err)
	var back agent.Agent
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, of, back)
}

func TestAgentJSONDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"left out": `{"name": "clerk", "model": "demo/demo"}`,
		"null": `{"name": "clerk", "model": "demo/demo", "description": null, "temperature": null, "maxOutputTokens": null, "tools": null,
			"approvals": null, "approvalRules": null, "approvalTerms": null, "limits": null, "autoMention": null}`,
		"null in terms": `{"name": "clerk", "model": "demo/demo", "approvalTerms": {"approvers": null}}`,
		"empty": `{"name": "clerk", "model": "demo/demo", "description": "", "approvalRules": [], "approvalTerms": {}, "autoMention": true,
			"limits": {"modelTimeout": null, "maxSteps": 0}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var a agent.Agent
			require.NoError(t, json.Unmarshal([]byte(text), &a))
			require.Equal(t, agent.Agent{Name: "clerk", Model: "demo/demo"}, a)
		})
	}
}

func TestAgentJSONMistakes(t *testing.T) {
	for text, want := range map[string]event.FieldError{
		`[]`:                                                   {Field: "input", Problem: "cannot be of type array"},
		`{"prompt": "x"}`:                                      {Field: "prompt", Problem: "is not known; known are approvalRules, approvalTerms, approvals, autoMention, description, instructions, knowledge, limits, maxOutputTokens, model, name, onWaiting, reasoningEffort, temperature, tools, workingDirectory"},
		`{"Model": "x"}`:                                       {Field: "Model", Problem: "is not model: upper and lower case matter"},
		`{"name": 7}`:                                          {Field: "name", Problem: "cannot be of type number"},
		`{"tools": "x"}`:                                       {Field: "tools", Problem: "cannot be of type string"},
		`{"limits": 3}`:                                        {Field: "limits", Problem: "cannot be of type number"},
		`{"autoMention": "no"}`:                                {Field: "autoMention", Problem: "cannot be of type string"},
		`{"maxOutputTokens": 1.5}`:                             {Field: "maxOutputTokens", Problem: "cannot be of type number"},
		`{"approvals": {"rm": 1}}`:                             {Field: "approvals", Problem: "cannot be of type number"},
		`{"limits": {"steps": 3}}`:                             {Field: "limits.steps", Problem: "is not known; known are contextMessages, maxReplyBytes, maxResult, maxSteps, maxToolCalls, modelTimeout"},
		`{"limits": {"modelTimeout": 600}}`:                    {Field: "limits.modelTimeout", Problem: "cannot be of type number"},
		`{"limits": {"modelTimeout": "soon"}}`:                 {Field: "limits.modelTimeout", Problem: `"soon" is not a duration such as 30s, 10m or 1h30m`},
		`{"approvalRules": {}}`:                                {Field: "approvalRules", Problem: "cannot be of type object"},
		`{"approvalRules": [{}, 3]}`:                           {Field: "approvalRules", Problem: "cannot be of type number"},
		`{"approvalRules": [{}, {"then": "ask"}]}`:             {Field: "approvalRules[1].then", Problem: "is not known; known are agents, effect, name, reason, terms, tools, when"},
		`{"approvalRules": [{"terms": {"expires": 5}}]}`:       {Field: "approvalRules.terms.expires", Problem: "cannot be of type number"},
		`{"approvalRules": [{"tools": []}]}`:                   {Field: "approvalRules[0].tools", Problem: "is empty: name at least one, or omit it for all"},
		`{"approvalRules": [{}, {"agents": []}]}`:              {Field: "approvalRules[1].agents", Problem: "is empty: name at least one, or omit it for all"},
		`{"approvalRules": [{"terms": {"approvers": []}}]}`:    {Field: "approvalRules[0].terms.approvers", Problem: "is empty: name at least one, or omit it if anybody may decide"},
		`{"approvalTerms": {"approvers": []}}`:                 {Field: "approvalTerms.approvers", Problem: "is empty: name at least one, or omit it if anybody may decide"},
		`{"approvalTerms": {"groups": []}}`:                    {Field: "approvalTerms.groups", Problem: "is empty: name at least one, or omit it if there are none"},
		`{"approvalTerms": {"approvers": "ann"}}`:              {Field: "approvalTerms.approvers", Problem: "cannot be of type string"},
		`{"approvalTerms": {"onExpiry": "run", "quorum": []}}`: {Field: "approvalTerms.quorum", Problem: "cannot be of type array"},
	} {
		t.Run(text, func(t *testing.T) {
			a := agent.Agent{Name: "before"}
			err := json.Unmarshal([]byte(text), &a)
			var field *event.FieldError
			require.ErrorAs(t, err, &field)
			require.Equal(t, want, *field)
			require.Equal(t, agent.Agent{Name: "before"}, a, "a mistake changes nothing")
		})
	}
}

func TestValidate(t *testing.T) {
	good := agent.Agent{Name: "clerk", Model: "demo/any"}
	require.NoError(t, good.Validate())
	for field, change := range map[string]func(*agent.Agent){
		"name":                   func(a *agent.Agent) { a.Name = "two words" },
		"model":                  func(a *agent.Agent) { a.Model = "gpt/" },
		"temperature":            func(a *agent.Agent) { hot := 2.5; a.Temperature = &hot },
		"maxOutputTokens":        func(a *agent.Agent) { a.MaxOutputTokens = -1 },
		"tools":                  func(a *agent.Agent) { a.Tools = make([]string, 501) },
		"tools[1]":               func(a *agent.Agent) { a.Tools = []string{"a", "", "c"} },
		"tools[2]":               func(a *agent.Agent) { a.Tools = []string{"a", "b", "a"} },
		"limits.maxSteps":        func(a *agent.Agent) { a.Limits.MaxSteps = 1001 },
		"limits.modelTimeout":    func(a *agent.Agent) { a.Limits.ModelTimeout = 2 * time.Hour },
		"limits.contextMessages": func(a *agent.Agent) { a.Limits.ContextMessages = -1 },
		"limits.maxToolCalls":    func(a *agent.Agent) { a.Limits.MaxToolCalls = 257 },
		"limits.maxReplyBytes":   func(a *agent.Agent) { a.Limits.MaxReplyBytes = 1 },
		"limits.maxResult":       func(a *agent.Agent) { a.Limits.MaxResult = 1 },
		"approvalRules[1].when": func(a *agent.Agent) {
			a.ApprovalRules = []approval.Rule{{Name: "a", Effect: approval.EffectDeny}, {Name: "b", Effect: approval.EffectDeny, When: "args.("}}
		},
		"approvalRules[0].terms.quorum": func(a *agent.Agent) {
			a.ApprovalRules = []approval.Rule{{Name: "a", Effect: approval.EffectAsk, Terms: approval.Terms{Quorum: -1}}}
		},
		"approvalTerms.remind": func(a *agent.Agent) { a.ApprovalTerms.Remind = time.Millisecond },
		"approvals.shell_cmd": func(a *agent.Agent) {
			a.Approvals = map[string]agent.Policy{"a": agent.PolicyNever, "shell_cmd": "sometimes"}
		},
	} {
		t.Run(field, func(t *testing.T) {
			bad := good
			change(&bad)
			var wrong *event.FieldError
			require.ErrorAs(t, bad.Validate(), &wrong)
			require.Equal(t, field, wrong.Field)
			require.NotContains(t, wrong.Problem, "agent", "the agent is known: %s", wrong.Problem)
		})
	}
	for field, bad := range map[string]agent.Agent{
		"name":                   {Model: "demo/any"},
		"model":                  {Name: "clerk"},
		"limits.contextMessages": {Name: "clerk", Model: "demo/any", Limits: agent.Limits{ContextMessages: 100_001}},
	} {
		require.ErrorContains(t, bad.Validate(), field+": ")
	}
	var limit *event.FieldError
	require.ErrorAs(t, agent.Agent{Name: "clerk", Model: "demo/any", Limits: agent.Limits{MaxSteps: 1001}}.Validate(), &limit)
	require.Equal(t, "is 1001, must be 1 to 1000 (or 0 for the default, 25)", limit.Problem)
}

func TestFixedLists(t *testing.T) {
	f := agent.Fixed{{Name: "first"}, {Name: "second"}}
	all, err := f.Agents(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, []agent.Agent(f), all)
	all[0].Name = "changed"
	require.Equal(t, "first", f[0].Name, "the list is the caller's")
}
