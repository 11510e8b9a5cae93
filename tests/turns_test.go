package tests

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// walk reports its steps while it runs, each in another form, and once more after it has ended,
// like a careless tool.
type walk struct {
	tool.Tool
	late chan struct{}
	over chan struct{}
}

var steps = []any{"a step", 2.5, map[string]any{"subtype": "place", "at": []any{"x", nil, true}}, nil, json.RawMessage(`12345678901234567890`)}

func newWalk() *walk {
	wk := &walk{late: make(chan struct{}), over: make(chan struct{})}
	wk.Tool = tool.MustFunc("walk", "Walks.", func(_ context.Context, call tool.Call, _ struct{}) (string, error) {
		for _, data := range steps {
			call.Progress(data)
		}
		go func() {
			<-wk.late
			call.Progress("too late")
			close(wk.over)
		}()
		return "arrived", nil
	})
	return wk
}

// TestReferenceTurn follows the reference turn: reason, call a tool that reports progress, reason
// again, answer.
func TestReferenceTurn(t *testing.T) {
	t.Parallel()
	wk := newWalk()
	w := harness.New(t, harness.Options{Tools: []tool.Tool{wk}})
	id := w.Open()
	view := check.Watch(t, w, id, "")
	w.Post(id, "think I should walk\nuse walk {}\nthen\nthink I am there\n\"done\" — naïve <b>\nsecond line")
	frames := view.Until(t, check.IsTurnEnded)
	close(wk.late)
	<-wk.over
	w.Say(id, "and now?")
	after := view.Until(t, check.IsFinal)
	messages := w.Messages(id)
	raw := check.Closed(t, w, id)
	base := check.WatchAt(t, w, "/v1/threads/"+id+"/events?view=base", "")

	t.Run("S1-22 the events come in the order of the reference", func(t *testing.T) {
		require.Equal(t, []event.AgentEventType{
			event.EventThought, event.EventToolCall, event.EventToolProgress, event.EventToolResult,
			event.EventThought, event.EventStream, event.EventFinal,
		}, check.Base(frames))
	})
	t.Run("S1-18 S1-17 progress arrives unchanged, whatever JSON it is", func(t *testing.T) {
		var want, got []string
		for _, data := range steps {
			raw, err := json.Marshal(data)
			require.NoError(t, err)
			want = append(want, string(raw))
		}
		for _, f := range frames {
			if f.Event.Type == event.EventToolProgress {
				require.Equal(t, "walk", f.Event.ToolName)
				got = append(got, string(f.Event.Data))
			}
		}
		require.Equal(t, want, got)
	})
	t.Run("S1-26 no progress before the call or after the result", func(t *testing.T) {
		at := func(typ event.AgentEventType) int {
			return slices.IndexFunc(frames, func(f check.Frame) bool { return f.Event.Type == typ })
		}
		require.Greater(t, at(event.EventToolProgress), at(event.EventToolCall))
		result := at(event.EventToolResult)
		require.Positive(t, result)
		require.Zero(t, check.Count(append(slices.Clone(frames[result:]), after...), event.EventToolProgress), "what comes too late is not shown")
	})
	t.Run("S1-24 what was streamed is what was stored", func(t *testing.T) {
		reply := messages[3]
		require.Equal(t, "walk returned: arrived\n\"done\" — naïve <b>\nsecond line", reply.Content)
		require.Equal(t, reply.Content, check.Streamed(frames, reply.ID))
		require.Zero(t, check.Count(frames, event.EventReset), "nothing was begun anew")
	})
	t.Run("S1-27 S1-16 all that concerns an agent comes from it, and nothing of a tool's own", func(t *testing.T) {
		for _, f := range frames {
			switch f.Event.Type {
			case event.EventToolCall, event.EventToolProgress, event.EventToolResult:
				require.Equal(t, messages[1].ToolCalls[0].ID, f.Event.ToolCallID)
				require.Equal(t, "assistant", f.Event.Agent)
			case event.EventThought, event.EventStream:
				require.Equal(t, "assistant", f.Event.Agent)
			}
			require.NotContains(t, []event.AgentEventType{"progress", "result"}, f.Event.Type)
		}
	})
	t.Run("S1-23 nothing of the turn follows its end", func(t *testing.T) {
		require.Equal(t, event.EventMessage, after[0].Event.Type)
		require.Equal(t, "and now?", after[0].Event.Message.Content)
		require.Equal(t, 1, check.Count(frames, event.EventFinal)+check.Count(frames, event.EventError))
	})
	t.Run("S1-01 S1-03 S1-05 S1-07 what is on the wire is the event itself", func(t *testing.T) {
		call, raw := messages[1].ToolCalls[0].ID, strings.Join(raw, "\n")
		require.Contains(t, raw, `"toolName":"walk","toolArgs":"{}","messageId":"`+messages[1].ID+`","agent":"assistant","toolCallId":"`+call+`"}`)
		require.Contains(t, raw, `"toolName":"walk","output":"arrived","messageId":"`+messages[1].ID+`","agent":"assistant","toolCallId":"`+call+`"}`)
		require.Contains(t, raw, `{"type":"final","eventId":"`+messages[0].ID+`"`)
	})
	t.Run("S1-01 a view has the seven types alone", func(t *testing.T) {
		types := []event.AgentEventType{}
		for _, f := range base.Until(t, check.IsFinal) {
			types = append(types, f.Event.Type)
			require.Empty(t, f.Event.MessageID+f.Event.Agent+f.Event.EventID)
		}
		require.Equal(t, []event.AgentEventType{event.EventToolCall, event.EventToolResult, event.EventStream, event.EventFinal}, types)
	})
	t.Run("S1-02 S1-04 S1-06 pieces carry their message", func(t *testing.T) {
		for _, f := range frames {
			if f.Event.Type == event.EventThought || f.Event.Type == event.EventStream {
				require.NotEmpty(t, f.Event.Content)
				require.NotEmpty(t, f.Event.MessageID)
				require.Equal(t, 1, f.Event.Attempt)
			}
		}
		require.Equal(t, len(steps), check.Count(frames, event.EventToolProgress))
	})
}

// TestEachTurnEnds ends turns in all ways, and reads the closed thread's stream.
//
//ci:replayed
func TestEachTurnEnds(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{
		MaxModelAttempts: 2,
		Tools:            []tool.Tool{check.Failing},
		Agents: []agent.Agent{{
			Name: "assistant", Model: "openai/stand-in", Tools: []string{"note", "failing"}, Limits: agent.Limits{MaxSteps: 3},
		}},
	})
	id := w.Open()
	turns := []struct {
		says   string
		before func()
		status signals.TurnStatus
		end    event.AgentEventType
	}{
		{"hello", nil, signals.TurnCompleted, event.EventFinal},
		{"use failing {\"how\":\"panic\"}\nuse note {}", nil, signals.TurnCompleted, event.EventFinal},
		{"refused", func() { w.Provider.Fail(llmtest.Status(400, "").WithError("bad", "not like this")) }, signals.TurnFailed, event.EventError},
		{"cut off", func() { w.Provider.Fail(llmtest.Drop(1), llmtest.Drop(1)) }, signals.TurnFailed, event.EventError},
		{"use note {}\nthen\nuse note {}\nthen\nuse note {}\nthen\nnever said", nil, signals.TurnFailed, event.EventError},
	}
	for _, turn := range turns {
		if turn.before != nil {
			turn.before()
		}
		require.Equal(t, turn.status, w.Say(id, turn.says).Status, turn.says)
	}
	stopped := w.Provider.Block(3)
	last := w.Post(id, "count 50")
	<-stopped.Reached()
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	require.Equal(t, signals.TurnInterrupted, check.Await(t, w, id, last).Status)

	ends := [][]event.AgentEventType{}
	var failures []string
	for _, raw := range check.Closed(t, w, id) {
		var e event.AgentEvent
		require.NoError(t, json.Unmarshal([]byte(raw), &e))
		if e.Type == event.EventStatus && e.Status.Status == event.StatusClosed {
			break
		}
		switch {
		case e.Type == event.EventMessage && e.Message.Role == event.RoleUser:
			ends = append(ends, nil)
		case e.EndsTurn():
			require.True(t, event.AgentEvent{Type: ends[len(ends)-1][len(ends[len(ends)-1])-1]}.Terminal(), "it follows the end of the last run")
		case len(ends) > 0:
			ends[len(ends)-1] = append(ends[len(ends)-1], e.Type)
		}
		if e.Type == event.EventError {
			failures = append(failures, e.Error)
		}
	}
	t.Run("S1-23 S1-37 each turn has exactly one end, and it is the last", func(t *testing.T) {
		require.Len(t, ends, len(turns)+1)
		for i, types := range ends {
			want := event.EventFinal
			if i < len(turns) {
				want = turns[i].end
			}
			require.Equal(t, want, types[len(types)-1], "turn %d: %v", i, types)
			for _, typ := range types[:len(types)-1] {
				require.False(t, event.AgentEvent{Type: typ}.Terminal(), "turn %d: %v", i, types)
			}
		}
	})
	t.Run("S1-25 a failing tool is a result, and the turn goes on", func(t *testing.T) {
		require.Equal(t, event.EventFinal, ends[1][len(ends[1])-1])
		require.NotContains(t, ends[1], event.EventError)
		var failed []event.Message
		for _, m := range w.Messages(id) {
			if m.IsError {
				failed = append(failed, m)
			}
		}
		require.Contains(t, check.Only(t, failed).Content, "at the disco")
	})
	t.Run("S1-08 an error says what went wrong", func(t *testing.T) {
		require.Len(t, failures, 3)
		require.Contains(t, failures[0], "not like this")
		require.Contains(t, failures[1], "gave up after 2 attempts")
		require.Contains(t, failures[2], "Stopped after 3 model calls")
	})
}

// TestToolIsStopped interrupts a turn while its tool runs.
func TestToolIsStopped(t *testing.T) {
	t.Parallel()
	g := check.NewGate("wait")
	// An interrupt does not wait for a heartbeat: here it could not arrive with one.
	w := harness.New(t, harness.Options{Tools: []tool.Tool{g}, Deaf: true})
	id := w.Open()
	view := check.Watch(t, w, id, "")
	e := w.Post(id, "use wait {}")
	<-g.Reached
	require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	frames := view.Until(t, check.IsFinal)
	t.Run("S1-33 S1-37 a tool is told, the stream ends with a terminal event, at once", func(t *testing.T) {
		require.Equal(t, signals.TurnInterrupted, check.Await(t, w, id, e).Status)
		require.Len(t, g.Told, 1, "the tool has heard of it: its run was not given up")
		require.Equal(t, []event.AgentEventType{event.EventToolCall, event.EventToolResult, event.EventFinal}, check.Base(frames))
		check.RequireSettled(t, w, id)
		require.Equal(t, 1, w.Provider.Calls(), "the model is not called again")
	})
}

// lines is a log that a test reads.
type lines struct{ testenv.Buffer }

// with returns the lines with a message.
func (l *lines) with(t *testing.T, msg string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(l.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if fields["msg"] == msg {
			out = append(out, fields)
		}
	}
	return out
}

// bareTool is a tool without tool.Func, which panics.
type bareTool struct{}

func (bareTool) Definition() tool.Definition {
	return tool.Definition{Name: "bare", Description: "Panics.", Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (bareTool) Call(context.Context, tool.Call) (tool.Result, error) { panic("bare") }

// TestOneTrace follows one trace id through all parts of a turn.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	const trace = "trace-of-ann"
	traced, quick := check.NewSpy("traced"), check.NewSpy("quick", tool.Quick())
	log := &lines{}
	w := harness.New(t, harness.Options{
		Tools: []tool.Tool{traced, quick, bareTool{}}, NoWorker: true,
		Logger: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	var open bool
	traced.WhenCalled(func(call tool.Call) {
		select {
		case <-call.Exec.Signal():
		default:
			open = assert.NoError(t, call.Exec.Context().Err())
		}
	})
	w.StartWorker()
	id := w.Open()
	w.Provider.Fail(llmtest.Drop(0))
	p := check.Message(id, "e1", "use traced {}\nuse quick {}\nuse bare {}\nuse shell_cmd {\"command\":\"true\"}\nthen\nwell")
	p.TraceID = trace
	_, err := w.Threads.Post(w.Ctx(), id, p)
	require.NoError(t, err)
	require.Equal(t, signals.DecideAccepted, check.Approve(t, w, id, w.AwaitApproval(id, 1)[0].ToolCallID))
	require.Equal(t, signals.TurnCompleted, w.Await(id, "e1").Status)

	t.Run("S1-38 in every record of the turn", func(t *testing.T) {
		n := 0
		for _, r := range w.Records(id) {
			if r.Type == event.TypeStatus { // the opening belongs to no turn
				continue
			}
			n++
			require.Equal(t, trace, r.TraceID, "%s %s", r.Type, r.ID)
		}
		require.Greater(t, n, 8)
	})
	t.Run("S1-38 in every tool log", func(t *testing.T) {
		logs := check.ToolLogs(w, id)
		require.Len(t, logs, 4)
		for _, l := range logs {
			require.Equal(t, trace, l.TraceID, l.ToolName)
		}
	})
	t.Run("S1-38 S1-33 S1-36 in the context that tools are given, with an open signal", func(t *testing.T) {
		require.Equal(t, trace, check.Only(t, traced.Seen()).Exec.TraceID())
		require.Equal(t, trace, check.Only(t, quick.Seen()).Exec.TraceID())
		require.True(t, open)
	})
	t.Run("S1-38 in the logs of the model call and of the tool", func(t *testing.T) {
		require.Equal(t, trace, check.Only(t, log.with(t, "model call failed"))["traceId"])
		require.Equal(t, trace, check.Only(t, log.with(t, "tool panicked"))["traceId"])
	})
	t.Run("S1-38 another turn has another", func(t *testing.T) {
		w.Say(id, "hello")
		last := check.Newest(w, id)
		require.NotEqual(t, trace, last.TraceID)
		require.NotEmpty(t, last.TraceID)
	})
}
