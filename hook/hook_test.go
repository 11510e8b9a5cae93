package hook_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

func pass(context.Context, event.Event) (hook.Result, error) { return hook.Pass(), nil }

func passInline(hook.Context, event.Event) (hook.Result, error) { return hook.Pass(), nil }

func TestHookValidate(t *testing.T) {
	for _, tc := range []struct {
		problem string // "" = none
		hook    hook.Hook
	}{
		{"", hook.OnEvent("a", pass)},
		{"", hook.Inline("a-b_C9", passInline)},
		{"", hook.InWorkflow("a", hook.Workflow{Type: "approval"})},
		{"", hook.Hook{Name: "a", Func: pass, OnFailure: hook.FailOpen, Timeout: 24 * time.Hour, MaxAttempts: 100}},
		{"", hook.Hook{Name: "a", Workflow: &hook.Workflow{Type: "approval"}, OnFailure: hook.FailClosed, Timeout: 30 * 24 * time.Hour}},
		{"", hook.Hook{Name: "a", Func: pass, Filter: hook.Filter{Types: []string{"tool_call", "llm_call", "order.*", "*"}, CreatedBy: []event.CreatedBy{event.CreatedByUser}}}},
		{`name ""`, hook.OnEvent("", pass)},
		{`name "a b": use 1 to 64 letters, digits, - and _`, hook.OnEvent("a b", pass)},
		{`name "a/b"`, hook.OnEvent("a/b", pass)},
		{`name "-a"`, hook.OnEvent("-a", pass)},
		{"exactly one of Func, Inline and Workflow is required", hook.Hook{Name: "a"}},
		{"exactly one of Func, Inline and Workflow is required", hook.Hook{Name: "a", Func: pass, Inline: passInline}},
		{"exactly one of Func, Inline and Workflow is required", hook.OnMessage("a", nil)},
		{"Workflow.Type is required", hook.InWorkflow("a", hook.Workflow{TaskQueue: "queue"})},
		{"an inline hook has neither Timeout nor MaxAttempts", hook.Hook{Name: "a", Inline: passInline, Timeout: 1}},
		{"an inline hook has neither Timeout nor MaxAttempts", hook.Hook{Name: "a", Inline: passInline, MaxAttempts: 1}},
		{`Filter.CreatedBy: "robot" is not one of user, agent, tool, system`, hook.Hook{Name: "a", Func: pass, Filter: hook.Filter{CreatedBy: []event.CreatedBy{"robot"}}}},
		{"Filter.Types: a type must not be empty", hook.Hook{Name: "a", Func: pass, Filter: hook.Filter{Types: []string{""}}}},
		{`Filter.Types: "token" events are created by the thread itself and never seen by hooks`, hook.OnCustom("a", event.TypeToken, nothing)},
		{`OnFailure is "ignore", must be closed or open`, hook.Hook{Name: "a", Func: pass, OnFailure: "ignore"}},
		{"Timeout is -1ns, must be positive and at most 24h0m0s", hook.Hook{Name: "a", Func: pass, Timeout: -1}},
		{"Timeout is 24h0m1s", hook.Hook{Name: "a", Func: pass, Timeout: 24*time.Hour + time.Second}},
		{"Timeout is 8761h0m0s", hook.Hook{Name: "a", Workflow: &hook.Workflow{Type: "w"}, Timeout: 8761 * time.Hour}},
		{"MaxAttempts is -1, must be 1 to 100 (or 0 for the default)", hook.Hook{Name: "a", Func: pass, MaxAttempts: -1}},
		{"MaxAttempts is 101", hook.Hook{Name: "a", Func: pass, MaxAttempts: 101}},
	} {
		err := tc.hook.Validate()
		if tc.problem == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, tc.problem)
		if tc.hook.Name != "" {
			require.ErrorContains(t, err, tc.hook.Name)
		}
	}
}

func nothing(context.Context, event.CustomEvent) (hook.Result, error) { return hook.Pass(), nil }

var (
	aMessage  = event.MessageEvent{CreatedBy: event.CreatedByUser, ThreadID: "t1", Message: event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Content: "hello"}}
	aToolCall = event.ToolCallEvent{ThreadID: "t1", AgentName: "bot", ToolCalls: []event.ToolCall{
		{ID: "c1", Function: event.Function{Name: "sh", Arguments: `{"command":"ls"}`}}, {ID: "c2", Function: event.Function{Name: "add", Arguments: "{}"}},
	}}
	aModelCall = event.LLMCallEvent{ThreadID: "t1", AgentName: "bot", Step: 1}
	aCustom    = event.CustomEvent{Type: "order.created", ThreadID: "t1", Payload: []byte(`{"n":1}`)}
	all        = []event.Event{aMessage, aToolCall, aModelCall, aCustom}
)

func TestTypedHooks(t *testing.T) {
	for name, tc := range map[string]struct {
		hook hook.Hook
		of   event.Event
	}{
		"message": {hook.OnMessage("h", func(_ context.Context, e event.MessageEvent) (hook.Result, error) {
			e.Message.Content += "!"
			return hook.Replace(e), nil
		}), aMessage},
		"tool_call": {hook.OnToolCall("h", func(_ context.Context, e event.ToolCallEvent) (hook.Result, error) {
			e.ToolCalls = e.ToolCalls[:1]
			return hook.Replace(e), nil
		}), aToolCall},
		"llm_call": {hook.OnLLMCall("h", func(_ context.Context, e event.LLMCallEvent) (hook.Result, error) {
			e.Model = "openai/small"
			return hook.Replace(e), nil
		}), aModelCall},
		"order.created": {hook.OnCustom("h", "order.created", func(_ context.Context, e event.CustomEvent) (hook.Result, error) {
			e.Payload = nil
			return hook.Replace(e), nil
		}), aCustom},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{name}, tc.hook.Filter.Types)
			require.NoError(t, tc.hook.Validate())
			for _, e := range all {
				got, err := tc.hook.Run(t.Context(), e, hook.Deps{})
				require.NoError(t, err)
				if e.EventType() != tc.of.EventType() {
					require.Equal(t, hook.Answer{Outcome: event.OutcomePassed}, got, "S0-14 an event of another type, which a hook before it has made, passes untouched")
					continue
				}
				require.NotEqual(t, e, got.Event)
				require.IsType(t, e, got.Event)
			}
		})
	}
	many := hook.OnCustom("h", "order.*", nothing)
	require.True(t, many.Filter.Matches(hook.Subject{Type: "order.paid"}))
}

func TestKey(t *testing.T) {
	one := hook.Context{Hook: "h", Namespace: "n", ThreadID: "t", EventID: "e", Attempt: 1}
	again := one
	again.Attempt, again.TraceID = 2, "x"
	require.Equal(t, one.Key(), again.Key(), "the same in every run")
	for _, change := range []func(*hook.Context){
		func(c *hook.Context) { c.Hook = "h2" }, func(c *hook.Context) { c.Namespace = "n2" },
		func(c *hook.Context) { c.ThreadID = "t2" }, func(c *hook.Context) { c.EventID = "e2" },
	} {
		other := one
		change(&other)
		require.NotEqual(t, one.Key(), other.Key())
	}
}

func TestDepsOf(t *testing.T) {
	require.Equal(t, hook.Deps{}, hook.DepsOf(t.Context()))
	deps := hook.Deps{Thread: hook.Thread{ID: "t1"}, Context: hook.Context{Hook: "h"}}
	require.Equal(t, deps, hook.DepsOf(hook.WithDeps(t.Context(), deps)), "S2-27")
}
