package activities_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/tool"
)

// limited sets the limits of the agent.
func limited(l agent.Limits, tools ...string) func(*activities.Config) {
	return func(c *activities.Config) {
		c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", Tools: tools, Limits: l}}
	}
}

// TestExcessCalls: calls beyond the limit have their results when the reply is stored, and no plans,
// also when the reply is read again under another limit.
func TestExcessCalls(t *testing.T) {
	limits := agent.Limits{MaxToolCalls: 2}
	w := newFixture(t, func(c *activities.Config) {
		c.Agents = changing(func() agent.Agent {
			return agent.Agent{Name: "assistant", Model: "fake/small", Tools: []string{"add"}, Limits: limits}
		})
	}, add)
	var calls []event.ToolCall
	for i := range 700 {
		calls = append(calls, call(fmt.Sprint(i), "add", `{"a":1,"b":2}`))
	}
	w.replies("", calls...)
	reply, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Len(t, reply.Calls, 2)
	stored1 := stored[event.Message](w, "e1.0.1").ToolCalls
	require.Len(t, stored1, 512)
	require.Equal(t, 510, stored[event.LLMCall](w, "e1.0.1.llm").RejectedCalls)
	for _, c := range stored1[2:] {
		m := stored[event.Message](w, recordid.Result(c.ID))
		require.True(t, m.IsError)
		require.Contains(t, m.Content, "at most 2 tool calls (limits.maxToolCalls), and this one has 700")
	}

	limits.MaxToolCalls = 100
	again, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, reply.Calls, again.Calls)
}

// changing is a source of one agent that may change.
type changing func() agent.Agent

func (f changing) Agent(context.Context, string, string) (agent.Agent, error) { return f(), nil }

// TestLongNames: what a model writes as the name of a tool is stored up to a length.
func TestLongNames(t *testing.T) {
	w := newFixture(t, nil, add)
	w.replies("", call("x", strings.Repeat("é", 5000), "{}"))
	reply, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.True(t, reply.Calls[0].Invalid)
	require.Less(t, len(stored[event.Message](w, "e1.0.1").ToolCalls[0].Function.Name), 200)
}

// TestLargeArguments: plans are part of the history, so their arguments are bounded together.
func TestLargeArguments(t *testing.T) {
	open := tool.ClientSide(tool.Definition{Name: "open", Description: "Opens."})
	w := newFixture(t, limited(agent.Limits{}, "open"), open)
	var calls []event.ToolCall
	for range 20 {
		calls = append(calls, call("x", "open", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 90<<10))))
	}
	w.replies("", calls...)
	reply, err := w.callModel(modelStep())
	require.NoError(t, err)
	size, ready := 0, 0
	for _, p := range reply.Calls {
		size += len(p.Arguments)
		if p.By == step.ByClient {
			ready++
		}
	}
	require.Equal(t, 5, ready)
	require.LessOrEqual(t, size, 512<<10)
}

// TestReplyOfAnyProviderIsBounded: the limit holds for providers of an application too, and the length of
// their errors.
func TestReplyOfAnyProviderIsBounded(t *testing.T) {
	kib := strings.Repeat("x", 1<<10)
	for name, answer := range map[string]func(context.Context, func(llm.Delta)) (llm.Response, error){
		"streamed for ever": func(ctx context.Context, onDelta func(llm.Delta)) (llm.Response, error) {
			for ctx.Err() == nil {
				onDelta(llm.Delta{Text: kib})
			}
			return llm.Response{}, ctx.Err()
		},
		"thoughts": func(ctx context.Context, onDelta func(llm.Delta)) (llm.Response, error) {
			for ctx.Err() == nil {
				onDelta(llm.Delta{Thought: kib})
			}
			return llm.Response{}, ctx.Err()
		},
		"whole": func(context.Context, func(llm.Delta)) (llm.Response, error) {
			return llm.Response{Content: strings.Repeat(kib, 10)}, nil
		},
		"arguments": func(context.Context, func(llm.Delta)) (llm.Response, error) {
			return llm.Response{ToolCalls: []event.ToolCall{call("x", "add", strings.Repeat(kib, 10))}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, limited(agent.Limits{MaxReplyBytes: 8 << 10}))
			w.model.answer = func(ctx context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
				return answer(ctx, onDelta)
			}
			_, err := w.callModel(modelStep())
			app := appError(t, err)
			require.Equal(t, "model.reply_too_large", app.Type())
			require.True(t, app.NonRetryable())
			require.Contains(t, app.Message(), "8192 bytes (limits.maxReplyBytes")
			require.Equal(t, []string{"e1"}, w.ids())
		})
	}
	t.Run("an error", func(t *testing.T) {
		w := newFixture(t, nil)
		w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
			return llm.Response{}, errors.New(strings.Repeat(kib, 10))
		}
		_, err := w.callModel(modelStep())
		app := appError(t, err)
		require.Less(t, len(app.Message()), 5<<10)
		require.NoError(t, errors.Unwrap(app))
	})
}
