package hook_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

func produceNothing(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
	return nil, nil
}

func processor(name, typ string) hook.Processor {
	return hook.Processor{Name: name, EventType: typ, Process: produceNothing}
}

func TestSetIsOptional(t *testing.T) {
	var none *hook.Set
	empty, err := hook.NewSet(hook.Config{})
	require.NoError(t, err)
	for _, s := range []*hook.Set{none, empty} {
		require.Empty(t, s.Specs(), "S0-08 no hook: the default for all events")
		_, ok := s.Hook("a")
		require.False(t, ok)
		_, ok = s.Processor("a")
		require.False(t, ok)
	}
}

func TestSetOrderAndDefaults(t *testing.T) {
	set, err := hook.NewSet(hook.Config{Hooks: []hook.Hook{
		hook.OnEvent("z", pass),
		hook.Inline("a", passInline),
		hook.InWorkflow("m", hook.Workflow{Type: "approval", TaskQueue: "people"}),
		{Name: "whole", Func: pass, Filter: hook.Filter{Agents: []string{"bot"}}, OnFailure: hook.FailOpen, Timeout: time.Second, MaxAttempts: 7, HoldOutput: true},
		{Name: "long", Workflow: &hook.Workflow{Type: "w"}, Timeout: 48 * time.Hour, MaxAttempts: 2},
	}, Processors: []hook.Processor{
		processor("z2", "order.created"),
		processor("", "order.created"),
		{EventType: event.TypeMessage, Process: produceNothing, ReplaceDefault: true, OnFailure: hook.FailClosed, Timeout: time.Minute, MaxAttempts: 1},
	}})
	require.NoError(t, err)
	require.Equal(t, []hook.Spec{
		{Name: "z", Kind: hook.KindFunc, OnFailure: hook.FailClosed, Timeout: 30 * time.Second, MaxAttempts: 3},
		{Name: "a", Kind: hook.KindInline, OnFailure: hook.FailClosed},
		{Name: "m", Kind: hook.KindWorkflow, Workflow: &hook.Workflow{Type: "approval", TaskQueue: "people"}, OnFailure: hook.FailClosed, MaxAttempts: 1},
		{Name: "whole", Kind: hook.KindFunc, Filter: hook.Filter{Agents: []string{"bot"}}, OnFailure: hook.FailOpen, Timeout: time.Second, MaxAttempts: 7, HoldOutput: true},
		{Name: "long", Kind: hook.KindWorkflow, Workflow: &hook.Workflow{Type: "w"}, OnFailure: hook.FailClosed, Timeout: 48 * time.Hour, MaxAttempts: 2},
		{Name: "z2", Kind: hook.KindProcessor, Filter: hook.Filter{Types: []string{"order.created"}}, OnFailure: hook.FailOpen, Timeout: 30 * time.Second, MaxAttempts: 3},
		{Name: "order-created-processor", Kind: hook.KindProcessor, Filter: hook.Filter{Types: []string{"order.created"}}, OnFailure: hook.FailOpen, Timeout: 30 * time.Second, MaxAttempts: 3},
		{Name: "message-processor", Kind: hook.KindProcessor, Filter: hook.Filter{Types: []string{"message"}}, OnFailure: hook.FailClosed, Timeout: time.Minute, MaxAttempts: 1, ReplaceDefault: true},
	}, set.Specs(), "S2-33 hooks before processors, each in the order declared; S2-34 a processor may replace the built-in or be for a new type")

	set.Specs()[0].Name = "changed"
	require.Equal(t, "z", set.Specs()[0].Name, "a set does not change")
	h, ok := set.Hook("m")
	require.True(t, ok)
	require.Equal(t, "approval", h.Workflow.Type)
	p, ok := set.Processor("order-created-processor")
	require.True(t, ok)
	require.Equal(t, "order-created-processor", p.Name, "S2-26")
	_, ok = set.Processor("m")
	require.False(t, ok)
	_, ok = set.Hook("z2")
	require.False(t, ok)

	raw, err := json.Marshal(set.Specs())
	require.NoError(t, err)
	var back []hook.Spec
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, set.Specs(), back, "what a thread knows of a hook is plain data")
}

func TestSetRefuses(t *testing.T) {
	for _, tc := range []struct {
		problem    string
		hooks      []hook.Hook
		processors []hook.Processor
	}{
		{`hooks[1]: hook name "a b"`, []hook.Hook{hook.OnEvent("a", pass), hook.OnEvent("a b", pass)}, nil},
		{`hooks[1]: the name "a" is already used`, []hook.Hook{hook.OnEvent("a", pass), hook.Inline("a", passInline)}, nil},
		{`processors[0]: the name "a" is already used; set Name`, []hook.Hook{hook.OnEvent("a", pass)}, []hook.Processor{processor("a", "order.created")}},
		{`processors[1]: the name "tick-processor" is already used; set Name`, nil, []hook.Processor{processor("", "tick"), processor("", "tick")}},
		{"EventType is required", nil, []hook.Processor{processor("", "")}},
		{`processor "p": EventType is required`, nil, []hook.Processor{processor("p", "")}},
		{`"token" events are created by the thread itself and never processed`, nil, []hook.Processor{processor("p", event.TypeToken)}},
		{`"hook" events are created by the thread itself and never processed`, nil, []hook.Processor{processor("p", event.TypeHook)}},
		{`processor name "p!"`, nil, []hook.Processor{processor("p!", "tick")}},
		{"Process is required", nil, []hook.Processor{{Name: "p", EventType: "tick"}}},
		{"Process is required", nil, []hook.Processor{hook.Process[int]("tick", nil)}},
		{`OnFailure is "never"`, nil, []hook.Processor{{EventType: "tick", Process: produceNothing, OnFailure: "never"}}},
		{"Timeout is 25h0m0s", nil, []hook.Processor{{EventType: "tick", Process: produceNothing, Timeout: 25 * time.Hour}}},
		{"MaxAttempts is 101", nil, []hook.Processor{{EventType: "tick", Process: produceNothing, MaxAttempts: 101}}},
	} {
		_, err := hook.NewSet(hook.Config{Hooks: tc.hooks, Processors: tc.processors})
		require.ErrorContains(t, err, tc.problem)
	}
	_, err := hook.NewSet(hook.Config{Processors: []hook.Processor{processor("", event.TypeToolCall), processor("", event.TypeLLMCall), processor("", event.TypeMessage)}})
	require.NoError(t, err, "S2-34 built-in types can be processed")
}
