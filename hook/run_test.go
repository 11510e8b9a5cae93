package hook_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// asked runs the function as a Func and as an InlineFunc, and requires the same answer.
func asked(t *testing.T, e event.Event, f func(e event.Event) (hook.Result, error)) (hook.Answer, error) {
	t.Helper()
	deps := hook.Deps{Context: hook.Context{Hook: "h", EventID: "e1"}}
	inline := hook.Inline("h", func(c hook.Context, e event.Event) (hook.Result, error) {
		require.Equal(t, deps.Context, c)
		return f(e)
	})
	of := hook.OnEvent("h", func(ctx context.Context, e event.Event) (hook.Result, error) {
		require.Equal(t, deps, hook.DepsOf(ctx))
		return f(e)
	})
	got, err := of.Run(t.Context(), e, deps)
	again, errAgain := inline.Run(t.Context(), e, deps)
	require.Equal(t, got, again)
	require.Equal(t, err == nil, errAgain == nil)
	return got, err
}

// decides is a function that returns the same result for each event.
func decides(r hook.Result) func(event.Event) (hook.Result, error) {
	return func(event.Event) (hook.Result, error) { return r, nil }
}

func TestRunPasses(t *testing.T) {
	for _, e := range all {
		got, err := asked(t, e, func(seen event.Event) (hook.Result, error) {
			require.Equal(t, e, seen)
			return hook.Pass(), nil
		})
		require.NoError(t, err)
		require.Equal(t, hook.Answer{Outcome: event.OutcomePassed}, got, "S0-11")
		got, err = asked(t, e, func(seen event.Event) (hook.Result, error) { return hook.Replace(seen), nil })
		require.NoError(t, err)
		require.Equal(t, hook.Answer{Outcome: event.OutcomePassed}, got, "the same event is no other")
		got, err = asked(t, e, decides(hook.Result{}))
		require.NoError(t, err)
		require.Equal(t, hook.Answer{Outcome: event.OutcomePassed}, got)
	}
}

func TestRunReplaces(t *testing.T) {
	for _, tc := range []struct {
		name   string
		seen   event.Event
		change func(event.Event) event.Event
	}{
		{"S0-12 a message", aMessage, func(e event.Event) event.Event {
			m := e.(event.MessageEvent)
			m.Message.Content = "changed"
			return m
		}},
		{"S0-13 edited arguments", aToolCall, func(e event.Event) event.Event {
			c := e.(event.ToolCallEvent)
			c.ToolCalls[0].Function.Arguments = `{"command":"pwd"}` // the hook may change its copy
			return c
		}},
		{"S0-13 fewer calls", aToolCall, func(e event.Event) event.Event {
			c := e.(event.ToolCallEvent)
			c.ToolCalls = c.ToolCalls[1:]
			return c
		}},
		{"a model call", aModelCall, func(e event.Event) event.Event {
			c := e.(event.LLMCallEvent)
			c.Instructions = "Be brief."
			return c
		}},
		{"S0-14 a message becomes an event of one's own", aMessage, func(event.Event) event.Event { return aCustom }},
		{"S0-14 a message becomes a tool call", aMessage, func(event.Event) event.Event { return aToolCall }},
		{"S0-14 an event of one's own becomes a message", aCustom, func(event.Event) event.Event { return aMessage }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := asked(t, tc.seen, func(e event.Event) (hook.Result, error) { return hook.Replace(tc.change(e)), nil })
			require.NoError(t, err)
			require.Equal(t, event.OutcomeReplaced, got.Outcome)
			require.NotEqual(t, tc.seen, got.Event)
		})
	}
	got, err := asked(t, aToolCall, func(e event.Event) (hook.Result, error) {
		e.(event.ToolCallEvent).ToolCalls[0].Function.Arguments = `{"command":"pwd"}`
		return hook.Pass(), nil
	})
	require.NoError(t, err)
	require.Equal(t, hook.Answer{Outcome: event.OutcomePassed}, got, "a change that is not returned has no effect")
	require.Equal(t, `{"command":"ls"}`, aToolCall.ToolCalls[0].Function.Arguments, "the event that was seen stays as it is")
}

func TestRunRefuses(t *testing.T) {
	calls := func(change func(*event.ToolCallEvent)) event.Event {
		c := aToolCall
		c.ToolCalls = append([]event.ToolCall(nil), c.ToolCalls...)
		change(&c)
		return c
	}
	ofAgent := aMessage
	ofAgent.CreatedBy = event.CreatedByAgent
	empty, elsewhere := aMessage, aMessage
	empty.Message.Content = ""
	elsewhere.ThreadID = "t2"
	for _, tc := range []struct {
		problem   string
		seen, got event.Event
	}{
		{`threadId: is "t2", but the event's is "t1"`, aMessage, elsewhere},
		{"content: is required", aMessage, empty},
		{"type: a message cannot become an llm_call", aMessage, aModelCall},
		{"type: an llm_call cannot become a message; respond instead", aModelCall, aMessage},
		{"type: an llm_call cannot become a tool_call; respond instead", aModelCall, aToolCall},
		{"type: an llm_call cannot become a order.created; respond instead", aModelCall, aCustom},
		{`type: "final" is not a custom type`, aMessage, event.CustomEvent{Type: "final", ThreadID: "t1"}},
		{`type: "message" is not a custom type`, aMessage, event.CustomEvent{Type: "message", ThreadID: "t1"}},
		{"type: a message of an agent or a tool cannot become a tool_call", ofAgent, aToolCall},
		{"agentName: is required", aMessage, calls(func(c *event.ToolCallEvent) { c.AgentName = "" })},
		{"toolCalls: are required", aCustom, calls(func(c *event.ToolCallEvent) { c.ToolCalls = nil })},
		{`toolCalls[1].id: "c9" is not one of the event's calls`, aToolCall, calls(func(c *event.ToolCallEvent) { c.ToolCalls[1].ID = "c9" })},
		{`toolCalls[1].id: "c1" is not one of the event's calls, or is duplicated`, aToolCall, calls(func(c *event.ToolCallEvent) { c.ToolCalls[1] = c.ToolCalls[0] })},
		{"toolCalls[0].function.name: of a call cannot be changed", aToolCall, calls(func(c *event.ToolCallEvent) { c.ToolCalls[0].Function.Name = "rm" })},
		{"agentName: of an agent's calls cannot be changed", aToolCall, calls(func(c *event.ToolCallEvent) { c.AgentName = "other" })},
		{"event: is ", aCustom, event.CustomEvent{Type: "order.created", ThreadID: "t1", Payload: []byte(`"` + strings.Repeat("x", hook.MaxEvent) + `"`)}},
	} {
		_, err := asked(t, tc.seen, decides(hook.Replace(tc.got)))
		require.ErrorContains(t, err, tc.problem)
		require.ErrorIs(t, err, event.ErrInvalid)
	}
}

func TestRunResponds(t *testing.T) {
	first, second := hook.Response{Content: "one"}, hook.Response{Content: "two", SenderType: event.CreatedBySystem}
	given := []hook.Response{first, second}
	result := hook.Respond(given...)
	given[0].Content = "too late"
	got, err := asked(t, aMessage, decides(result))
	require.NoError(t, err)
	require.Equal(t, hook.Answer{Outcome: event.OutcomeResponded, Responses: []hook.Response{first, second}}, got,
		"S0-20 in the order in which they were given")

	_, err = asked(t, aMessage, decides(hook.Respond(first, hook.Response{})))
	require.ErrorContains(t, err, "responses[1].content: is required")
	_, err = asked(t, aMessage, decides(hook.Respond(hook.Response{Content: strings.Repeat("x", hook.MaxEvent)})))
	require.ErrorContains(t, err, "must be at most 262144")
}

func TestRunFails(t *testing.T) {
	problem := errors.New("no connection")
	_, err := asked(t, aMessage, func(event.Event) (hook.Result, error) {
		return hook.Respond(hook.Response{Content: "no"}), problem
	})
	require.ErrorIs(t, err, problem, "S0-23 a failure is no decision")

	_, err = asked(t, aMessage, func(event.Event) (hook.Result, error) { panic(problem) })
	var panicked *hook.PanicError
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, problem, panicked.Value)
	require.Contains(t, panicked.Stack, "run_test.go")
	require.EqualError(t, panicked, "it panicked: no connection")
}
