package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

var add = tool.MustFunc("add", "Adds.", func(_ context.Context, _ tool.Call, in struct {
	A int `json:"a"`
	B int `json:"b"`
},
) (int, error) {
	return in.A + in.B, nil
})

// raw is a tool without tool.Func.
type raw struct {
	def  tool.Definition
	runs atomic.Int32
	do   func(context.Context, tool.Call) (tool.Result, error)
}

func (r *raw) Definition() tool.Definition { return r.def }

func (r *raw) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	r.runs.Add(1)
	return r.do(ctx, c)
}

func TestToolRun(t *testing.T) {
	w := newFixture(t, nil, add)
	in := w.asked(call("c1", "add", `{ "a":1, "b":2 }`))
	in.Flush = says("e2", "meanwhile")
	out, err := w.runTool(in)
	require.NoError(t, err)
	require.Equal(t, step.ToolReply{ToolCallID: "c1", Status: "succeeded", Arguments: `{ "a":1, "b":2 }`, Result: "3"}, out, "history has what ran and what it returned")
	require.Equal(t, []string{"e1.0.1", "e2", "c1.result"}, w.ids())
	require.Equal(t, event.Message{
		ID: "c1.result", ThreadID: "t1", SenderID: "add", SenderType: event.CreatedByTool, Role: "tool", Content: "3",
		ToolCallID: "c1", ToolName: "add", AgentID: "assistant", ReplyToMessageID: "e1.0.1",
	}, stored[event.Message](w, "c1.result"), "S0-32 S4-22")
	log := w.toolLog("c1")
	require.Equal(t, `{ "a":1, "b":2 }`, string(log.Input), "S0-31 raw input")
	require.Equal(t, `3`, string(log.Output), "S0-31 raw output")
	require.Equal(t, store.ToolSucceeded, log.Status)
	require.NotNil(t, log.FinishedAt)
}

func TestToolIsNotRunAgain(t *testing.T) {
	echo := &raw{def: tool.Definition{Name: "echo"}, do: func(_ context.Context, c tool.Call) (tool.Result, error) {
		return tool.Result{Output: c.Arguments, IsError: true}, nil
	}}
	w := newFixture(t, nil, echo)
	in := w.asked(call("c1", "echo", `{"a": 1}`))
	first, err := w.runTool(in)
	require.NoError(t, err)
	in.Flush = says("e2", "meanwhile")
	again, err := w.runTool(in)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.EqualValues(t, 1, echo.runs.Load(), "S2-51")
	require.Equal(t, []string{"e1.0.1", "c1.result", "e2"}, w.ids(), "what was handed over is stored all the same")
	require.Equal(t, `{"a": 1}`, string(w.toolLog("c1").Input), "S0-31")
}

func TestToolLostWithItsWorker(t *testing.T) {
	for _, tc := range []struct {
		name   string
		def    tool.Definition
		status store.ToolStatus
		runs   int32
	}{
		{"is not run again", tool.Definition{Name: "pay"}, store.ToolUnknown, 0},
		{"is run again when that does no harm", tool.Definition{Name: "pay", Idempotent: true}, store.ToolSucceeded, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pay := &raw{def: tc.def, do: func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Output: "paid"}, nil }}
			w := newFixture(t, nil, pay)
			in := w.asked(call("c1", "pay", "{}"))
			w.append(store.Batch{ToolStart: &store.ToolLog{ToolCallID: "c1", ToolName: "pay", StartedAt: time.Now(), Attempt: 1}})
			out, err := w.runTool(in)
			require.NoError(t, err)
			require.Equal(t, string(tc.status), out.Status)
			require.Equal(t, tc.runs, pay.runs.Load())
			require.Equal(t, tc.status, w.toolLog("c1").Status)
			m := stored[event.Message](w, "c1.result")
			require.Equal(t, tc.status == store.ToolUnknown, m.IsError)
			if m.IsError {
				require.Contains(t, m.Content, "outcome is unknown")
			}
		})
	}
}

func TestToolErrorsAreResults(t *testing.T) {
	panics := &raw{def: tool.Definition{Name: "panics", Quick: true}, do: func(context.Context, tool.Call) (tool.Result, error) { panic("nil map") }}
	fails := &raw{def: tool.Definition{Name: "fails"}, do: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{}, errors.New("disk full")
	}}
	for _, tc := range []struct {
		name string
		call event.ToolCall
		want string
	}{
		{"unknown tool", call("c1", "nothing", "{}"), `unknown tool "nothing"`},
		{"unknown tool of a strange name", call("c1", "a\x00b", "{}"), "unknown tool"},
		{"bad JSON", call("c1", "add", `{"a":`), "Error: Tool parameter validation failed for add"},
		{"S4-73 arguments that do not fit", call("c1", "add", `{"a":"x","b":1}`), "Error: Tool parameter validation failed for add"},
		{"an error", call("c1", "fails", "{}"), "Error: disk full"},
		{"a panic", call("c1", "panics", "{}"), "Error: the tool panicked: nil map"},
	} {
		t.Run("S4-72 "+tc.name, func(t *testing.T) {
			w := newFixture(t, nil, add, panics, fails)
			out, err := w.runTool(w.asked(tc.call))
			require.NoError(t, err, "S1-25 the run goes on")
			require.Equal(t, "failed", out.Status)
			m := stored[event.Message](w, "c1.result")
			require.True(t, m.IsError)
			require.Contains(t, m.Content, tc.want)
			require.Equal(t, store.ToolFailed, w.toolLog("c1").Status)
		})
	}
}

func TestStoredCallRuns(t *testing.T) {
	w := newFixture(t, nil, add)
	in := w.asked(call("c1", "add", `{"a":1,"b":2}`))
	in.ToolCallID = "c9"
	_, err := w.runTool(in)
	require.Equal(t, step.ErrTypeConfig, appError(t, err).Type(), "S4-91 a call that is not stored does not run")
	require.Equal(t, []string{"e1.0.1"}, w.ids())
}

func TestRetryableToolError(t *testing.T) {
	do := func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{}, tool.Retryable(errors.New("timeout"))
	}
	w := newFixture(t, nil, &raw{def: tool.Definition{Name: "get", Idempotent: true}, do: do}, &raw{def: tool.Definition{Name: "pay"}, do: do},
		&raw{def: tool.Definition{Name: "once", Idempotent: true, MaxAttempts: 1}, do: do})
	_, err := w.runTool(w.asked(call("c1", "get", "{}"), call("c2", "pay", "{}"), call("c3", "once", "{}")))
	require.Equal(t, step.ErrTypeRetry, appError(t, err).Type())
	require.False(t, appError(t, err).NonRetryable())
	for id, name := range map[string]string{"c2": "pay", "c3": "once"} {
		out, err := w.runTool(step.Tool{Run: step.Run{Thread: ref, Agent: "assistant", MessageID: "e1.0.1"}, ToolCallID: id, ToolName: name})
		require.NoError(t, err)
		require.Equal(t, "failed", out.Status, name)
	}
}

func TestAttemptsOfIdempotentTool(t *testing.T) {
	fails := &raw{def: tool.Definition{Name: "get", Idempotent: true, MaxAttempts: 2}, do: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{}, tool.Retryable(errors.New("timeout"))
	}}
	w := newFixture(t, nil, fails)
	require.NoError(t, w.retried(step.ActivityRunTool, w.asked(call("c1", "get", "{}"))))
	require.EqualValues(t, 2, fails.runs.Load())
	require.Equal(t, "Error: timeout", stored[event.Message](w, "c1.result").Content)
}

func TestInterruptedTool(t *testing.T) {
	var w *fixture
	slow := &raw{def: tool.Definition{Name: "slow"}, do: func(ctx context.Context, c tool.Call) (tool.Result, error) {
		w.interrupt(ctx)
		<-c.Exec.Signal()
		return tool.Result{Output: "so far"}, ctx.Err()
	}}
	w = newFixture(t, nil, slow)
	out, err := w.runTool(w.asked(call("c1", "slow", "{}")))
	require.NoError(t, err)
	require.Equal(t, "interrupted", out.Status)
	require.Equal(t, step.InterruptedText+"\nso far", stored[event.Message](w, "c1.result").Content)
	require.Equal(t, store.ToolInterrupted, w.toolLog("c1").Status)
}

func TestToolTakesTooLong(t *testing.T) {
	slow := &raw{def: tool.Definition{Name: "slow", Timeout: time.Millisecond}, do: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	w := newFixture(t, nil, slow)
	out, err := w.runTool(w.asked(call("c1", "slow", "{}")))
	require.NoError(t, err)
	require.Equal(t, "failed", out.Status)
	require.Contains(t, stored[event.Message](w, "c1.result").Content, "limit of 1ms")
}

func TestToolProgress(t *testing.T) {
	var late func(any)
	steps := &raw{def: tool.Definition{Name: "steps"}, do: func(_ context.Context, c tool.Call) (tool.Result, error) {
		late = c.Progress
		c.Progress("half")
		c.Progress(make(chan int))
		c.Progress(map[string]any{"percent": 100})
		return tool.Result{Output: "done", Details: map[string]any{"exitCode": 0}}, nil
	}}
	w := newFixture(t, nil, steps)
	in := w.asked(call("c1", "steps", "{}"))
	_, err := w.runTool(in)
	require.NoError(t, err)
	late("too late")
	entries := w.live()
	var shown []string
	for i, e := range entries {
		if e.Event == nil {
			continue
		}
		require.Less(t, i, len(entries)-1, "S1-26 the result comes last")
		require.Equal(t, event.EventToolProgress, e.Event.Type)
		require.Equal(t, "c1", e.Event.ToolCallID)
		require.Equal(t, "assistant", e.Event.Agent)
		require.EqualValues(t, 1, e.After, "S1-26 viewers have the call before its progress")
		shown = append(shown, string(e.Event.Data))
	}
	require.Equal(t, []string{`"half"`, `{"percent":100}`}, shown, "S1-18")
	require.EqualValues(t, 2, entries[len(entries)-1].Stored)
	require.Equal(t, event.Metadata{"exitCode": json.Number("0")}, stored[event.Message](w, "c1.result").Metadata)
}

func TestDetailsWithoutJSONForm(t *testing.T) {
	odd := &raw{def: tool.Definition{Name: "odd", Quick: true}, do: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "done", Details: map[string]any{"mean": math.NaN()}}, nil
	}}
	w := newFixture(t, nil, odd)
	out, err := w.runTool(w.asked(call("c1", "odd", "{}")))
	require.NoError(t, err)
	require.Equal(t, "succeeded", out.Status)
	require.True(t, json.Valid(w.records()[1].Payload))
}

func TestToolWaitsForItsRegistry(t *testing.T) {
	w := newFixture(t, func(c *activities.Config) { c.Agents = brokenRegistry{} }, add)
	_, err := w.runTool(w.asked(call("c1", "add", `{"a":1,"b":2}`)))
	require.Equal(t, step.ErrTypeRetry, appError(t, err).Type(), "an outage is no result")
	require.Equal(t, []string{"e1.0.1"}, w.ids())
}
