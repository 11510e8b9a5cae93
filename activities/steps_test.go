package activities_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/llm"
)

// replies makes the model reply with a text and tool calls.
func (w *fixture) replies(content string, calls ...event.ToolCall) {
	w.model.answer = func(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
		onDelta(llm.Delta{Thought: "hm"})
		onDelta(llm.Delta{Text: content})
		return llm.Response{Content: content, ToolCalls: append([]event.ToolCall(nil), calls...)}, nil
	}
}

// shown are the pieces of replies that viewers have received. It leaves out announcements of replies.
func (w *fixture) shown() []string {
	var out []string
	for _, e := range w.live() {
		if e.Event != nil && !e.Begins {
			out = append(out, string(e.Event.Type))
		}
	}
	return out
}

// TestHeldStep: a reply that hooks may see has neither its end nor its requests yet.
func TestHeldStep(t *testing.T) {
	w := newFixture(t, cautious, add)
	in := modelStep()
	in.Gated = true
	w.replies("all said")
	_, err := w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, []string{"e1", "e1.0.1.llm", "e1.0.1"}, w.ids(), "S0-35 the thread writes the end, after the hooks")
	require.Equal(t, []string{"thought", "stream"}, w.shown())

	in.MessageID = "e1.0.2"
	w.replies("", call("x", "add", `{"a":1,"b":2}`))
	reply, err := w.callModel(in)
	require.NoError(t, err)
	require.True(t, reply.Calls[0].NeedsApproval)
	require.NotContains(t, strings.Join(w.ids(), " "), ".request", "nobody is asked before hooks have seen the call")
}

func TestQuietStep(t *testing.T) {
	w := newFixture(t, nil)
	in := modelStep()
	in.Gated, in.Quiet = true, true
	long := strings.Repeat("x", step.MaxCarriedContent+1)
	w.replies(long)
	for range 2 {
		reply, err := w.callModel(in)
		require.NoError(t, err)
		require.Equal(t, long, reply.Message.Content, "the thread lets it out, and needs all of it for that")
		require.True(t, stored[event.Message](w, "e1.0.1").Held)
	}
	require.Empty(t, w.shown(), "nobody sees a piece of it")

	w.replies("", call("x", "add", `{}`))
	in.MessageID = "e1.0.2"
	_, err := w.callModel(in)
	require.NoError(t, err)
	require.False(t, stored[event.Message](w, "e1.0.2").Held, "what says nothing need not be held")
}

func TestQuietStepIsInterrupted(t *testing.T) {
	w := newFixture(t, nil)
	in := modelStep()
	in.Gated, in.Quiet = true, true
	w.model.answer = func(ctx context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
		onDelta(llm.Delta{Text: "half"})
		w.interrupt(ctx)
		return llm.Response{Content: "half"}, ctx.Err()
	}
	reply, err := w.callModel(in)
	require.NoError(t, err)
	require.True(t, reply.Message.Interrupted)
	require.True(t, stored[event.Message](w, "e1.0.1").Held, "nobody has let it out")
	require.Empty(t, w.shown())
}

func TestTunedStep(t *testing.T) {
	w := newFixture(t, func(c *activities.Config) { c.Models["other"] = c.Models["fake"] })
	in := modelStep()
	in.Instructions, in.Model = "Be brief.", "other/large"
	reply, err := w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, llm.Message{Role: "system", Content: "You help.\n\nBe brief."}, w.model.requests[0].Messages[0], "S2-18")
	require.Equal(t, "large", w.model.requests[0].Model)
	require.Equal(t, "other/large", reply.Model)

	in.MessageID, in.Instructions, in.Model = "e1.0.2", "", ""
	_, err = w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, "You help.", w.model.requests[1].Messages[0].Content, "it held for one call")

	in.MessageID, in.Model = "e1.0.3", "unheard/of"
	_, err = w.callModel(in)
	require.Equal(t, step.ErrTypeConfig, appError(t, err).Type())
}

// inlineWorld is a world with one inline hook, and another for messages of people.
func inlineWorld(t *testing.T, f hook.InlineFunc) (*fixture, []hook.Spec) {
	t.Helper()
	guard := hook.Inline("guard", f)
	guard.Filter.Agents = []string{"Assistant"}
	bob := hook.Inline("bobs", func(hook.Context, event.Event) (hook.Result, error) { return hook.Result{}, errors.New("it broke") })
	bob.Filter.Agents = []string{"bob"}
	set, err := hook.NewSet(hook.Config{Hooks: []hook.Hook{guard, bob}})
	require.NoError(t, err)
	return newFixture(t, func(c *activities.Config) { cautious(c); c.Hooks = set }, add), set.Specs()
}

// TestInlineHooksOfAReply: they run in the activity that creates the reply.
func TestInlineHooksOfAReply(t *testing.T) {
	var contexts []hook.Context
	w, specs := inlineWorld(t, func(c hook.Context, e event.Event) (hook.Result, error) {
		contexts = append(contexts, c)
		switch e := e.(type) {
		case event.MessageEvent:
			if strings.HasPrefix(e.Message.Content, "a secret") {
				e.Message.Content = "[gone]"
				return hook.Replace(e), nil
			}
		case event.ToolCallEvent:
			e.ToolCalls = e.ToolCalls[:1]
			return hook.Replace(e), nil
		}
		return hook.Pass(), nil
	})
	in := modelStep()
	in.Inline = specs
	w.replies("fine")
	reply, err := w.callModel(in)
	require.NoError(t, err)
	require.True(t, reply.MessageDecision.Silent, "S0-11")
	require.True(t, reply.CallsDecision.Silent)
	require.False(t, reply.Gated)
	require.Contains(t, w.ids(), "e1.0.1.final", "a pass costs nothing: the step writes the end")
	require.Equal(t, hook.Context{
		Hook: "guard", Namespace: "ns", ThreadID: "t1", EventID: "e1.0.1", TraceID: "e1", ParentEventID: "e1", Agent: "assistant", Attempt: 1,
	}, contexts[0])

	in.MessageID = "e1.0.2"
	w.replies("a secret "+strings.Repeat("x", 100<<10), call("x", "add", `{"a":1,"b":2}`), call("y", "add", `{"a":1,"b":2}`))
	for range 2 {
		reply, err = w.callModel(in)
		require.NoError(t, err)
		require.Equal(t, event.OutcomeReplaced, reply.MessageDecision.Outcome, "they see all of it, however long")
		require.Equal(t, "[gone]", contentOf(t, reply.MessageDecision.Event))
		require.Equal(t, event.OutcomeReplaced, reply.CallsDecision.Outcome)
		require.Len(t, reply.MessageDecision.Hooks, 1, "the other hook is for another agent")
		require.True(t, reply.Gated)
	}
	require.Equal(t, "e1.0.2.calls", contexts[len(contexts)-1].EventID)
	require.NotContains(t, strings.Join(w.ids(), " "), ".request", "what they change is the thread's to write")
	require.LessOrEqual(t, len(reply.Message.Content), step.MaxCarriedContent)
	require.Len(t, w.model.requests, 2)
}

func TestInlineHooksOfAResult(t *testing.T) {
	w, specs := inlineWorld(t, func(c hook.Context, e event.Event) (hook.Result, error) {
		assert.Equal(t, "c1.result", c.EventID)
		assert.Equal(t, event.CreatedByTool, e.(event.MessageEvent).CreatedBy)
		return hook.Respond(hook.Response{Content: "it is " + e.(event.MessageEvent).Message.Content}), nil
	})
	in := w.asked(call("c1", "add", `{"a":1,"b":2}`))
	in.Inline = specs[:1]
	unasked, err := w.runTool(in)
	require.NoError(t, err)
	require.NotNil(t, unasked.Approval, "a call that nobody has approved does not run, whatever was planned")
	in.Flush = approve(w, "c1")
	in.DecisionID = "c1.decision"
	for range 2 {
		out, err := w.runTool(in)
		require.NoError(t, err)
		require.Equal(t, event.OutcomeResponded, out.Decision.Outcome)
		require.Equal(t, []hook.Response{{Content: "it is 3"}}, out.Decision.Responses, "S0-36 the same when the step is run again")
	}
	in.ToolCallID = "c1"
	in.Inline = nil
	out, err := w.runTool(in)
	require.NoError(t, err)
	require.Nil(t, out.Decision)
}
