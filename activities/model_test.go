package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

func TestReply(t *testing.T) {
	w := newFixture(t, nil)
	reply, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, []string{"e1", "e1.0.1.llm", "e1.0.1", "e1.0.1.final"}, w.ids(), "S0-28 S0-29 S0-38")
	m := stored[event.Message](w, "e1.0.1")
	require.Equal(t, event.Message{
		ID: "e1.0.1", ThreadID: "t1", SenderID: "assistant", SenderType: event.CreatedByAgent, Role: "assistant", Content: "ok",
		AgentID: "assistant", ReplyToMessageID: "e1", Usage: event.Usage{InputTokens: 3, OutputTokens: 1}, DurationMS: m.DurationMS,
	}, m, "S4-19 S4-23")
	call := stored[event.LLMCall](w, "e1.0.1.llm")
	require.Equal(t, m.DurationMS, call.DurationMS)
	require.Equal(t, []string{"fake/small", "small-1", "flex"}, []string{call.Model, call.AnsweredBy, call.Tier})
	m.Usage, m.DurationMS = event.Usage{}, 0 // the workflow has them once
	require.Equal(t, step.ModelReply{Agent: "assistant", Model: "fake/small", Message: m, Usage: event.Usage{InputTokens: 3, OutputTokens: 1}, MaxSteps: agent.DefaultMaxSteps}, reply)
	shown := ""
	for _, e := range w.live() {
		if e.Event != nil && e.Event.Type == event.EventStream {
			require.Equal(t, "e1.0.1", e.Event.MessageID)
			shown += e.Event.Content
		}
	}
	require.Equal(t, "ok", shown, "S1-24")

	again, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, reply, again)
	require.Len(t, w.model.requests, 1, "S2-51 a retry finds the reply and does not call the model")
	require.Len(t, w.ids(), 4)
}

func TestReplyWithCalls(t *testing.T) {
	w := newFixture(t, func(c *activities.Config) {
		c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", Tools: []string{"add"}, Approvals: map[string]agent.Policy{"*": agent.PolicyAlways}}}
	}, add)
	w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{Type: llm.TypeToolCalls, ToolCalls: []event.ToolCall{
			call("c1", "add", `{ "a":1, "b": 2 }`), call("", "nothing", "{}"), call("c1", "add", `{"a":`), call("x\x00y", "add", `{"a":1,"b":1}`),
			call(strings.Repeat("z", 200), "add", `{"a":1,"b":1}`),
		}}, nil
	}
	reply, err := w.callModel(modelStep())
	require.NoError(t, err)
	calls := stored[event.Message](w, "e1.0.1").ToolCalls
	require.Equal(t, call("", "add", `{ "a":1, "b": 2 }`).Function, calls[0].Function, "S0-05")
	seen := map[string]bool{}
	for i, c := range calls {
		require.False(t, seen[c.ID], "every call has an id of its own")
		seen[c.ID] = true
		require.Regexp(t, `^call_[0-9a-f]{24}$`, c.ID, "a form that every provider accepts")
		require.Equal(t, c.ID, reply.Calls[i].ID)
	}
	require.Equal(t, calls, stored[event.ToolCallEvent](w, "e1.0.1.calls").ToolCalls, "S0-06 S0-29 one event holds all calls")
	require.NotContains(t, w.ids(), "e1.0.1.final")
	require.Equal(t, `{ "a":1, "b": 2 }`, stored[event.ApprovalRequest](w, calls[0].ID+".request").Arguments)
	require.True(t, reply.Calls[0].NeedsApproval)
	require.False(t, reply.Calls[1].NeedsApproval, "nobody is asked about a tool that is not there")
	require.False(t, reply.Calls[2].NeedsApproval, "nor about arguments that do not fit")
	require.Nil(t, reply.Message.ToolCalls, "calls stay in the store")
}

func TestCallIDsOfTheThreadAreNotUsedTwice(t *testing.T) {
	w := newFixture(t, nil, add)
	w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{Type: llm.TypeToolCalls, ToolCalls: []event.ToolCall{call("c1", "add", `{"a":1,"b":2}`)}}, nil
	}
	seen := map[string]bool{}
	for _, messageID := range []string{"e1.0.1", "e1.1.1", "e1.0.2"} {
		input := modelStep()
		input.MessageID = messageID
		reply, err := w.callModel(input)
		require.NoError(t, err)
		require.False(t, seen[reply.Calls[0].ID], "providers number their calls anew in each reply, also those of agents that reply at the same time")
		seen[reply.Calls[0].ID] = true
	}
}

func TestReplyOfAnotherAttemptStands(t *testing.T) {
	w := newFixture(t, nil, add)
	w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		// While this attempt counted as lost, another one stored its reply.
		w.append(store.Batch{Records: []event.Record{
			event.NewRecord("e1.0.1.llm", event.TypeLLMCall, "", "e1", time.Now(), event.LLMCall{Agent: "assistant", MessageID: "e1.0.1"}),
			message(event.Message{ID: "e1.0.1", SenderType: event.CreatedByAgent, AgentID: "assistant", Content: "the other's"}),
		}})
		return llm.Response{Type: llm.TypeToolCalls, ToolCalls: []event.ToolCall{call("c1", "add", `{"a":1,"b":2}`)}}, nil
	}
	reply, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, "the other's", reply.Message.Content)
	require.Empty(t, reply.Calls)
	require.NotContains(t, w.ids(), "e1.0.1.calls", "nothing of the late attempt is stored")
}

// idStore counts how often records are looked up by their ids, and the prompts in appends.
type idStore struct {
	teststore.Store
	asked, prompts int
}

func (s *idStore) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	for _, r := range b.Records {
		if r.Type == event.TypePrompt {
			s.prompts++
		}
	}
	return s.Store.Append(ctx, key, b)
}

func (s *idStore) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	s.asked++
	return s.Store.RecordsByID(ctx, key, ids...)
}

// TestOwnRecordsAreNotRead: an attempt at a model call knows what its process has stored in the turn. It looks for a reply if others
// have stored anything.
func TestOwnRecordsAreNotRead(t *testing.T) {
	ids := &idStore{}
	w := newFixture(t, func(c *activities.Config) { ids.Store, c.Store = teststore.Of(c.Store), ids }, add)
	in := modelStep()
	first, err := w.callModel(in)
	require.NoError(t, err)
	for _, asked := range []int{0, 0, 1} {
		if asked > 0 {
			w.append(store.Batch{Records: []event.Record{message(event.Message{ID: "e2", SenderType: event.CreatedByUser, Content: "wait"})}})
		}
		again, err := w.callModel(in)
		require.NoError(t, err)
		require.Equal(t, first.Message, again.Message)
		require.Len(t, w.model.requests, 1)
		require.Equal(t, asked, ids.asked)
	}
}

// TestPromptIsWrittenOnce: what the calls of a thread have in common is not even sent to the store again.
func TestPromptIsWrittenOnce(t *testing.T) {
	ids := &idStore{}
	w := newFixture(t, func(c *activities.Config) { ids.Store, c.Store = teststore.Of(c.Store), ids }, add)
	in := modelStep()
	for _, id := range []string{"t1", "t1", "t2"} {
		in.Thread.ThreadID, in.MessageID = id, in.MessageID+".1"
		_, err := w.callModel(in)
		require.NoError(t, err)
	}
	require.Equal(t, 2, ids.prompts, "once for each thread")
}

func TestTranscript(t *testing.T) {
	w := newFixture(t, nil, add)
	records := []event.Record{
		message(event.Message{ID: "m1", SenderType: event.CreatedByUser, SenderID: "ann", Content: "hello all"}),
		message(event.Message{ID: "m2", SenderType: event.CreatedByAgent, SenderID: "bob", AgentID: "bob", Content: "let me see", ToolCalls: []event.ToolCall{call("b1", "add", "{}")}}),
		message(event.Message{ID: "b1.result", SenderType: event.CreatedByTool, SenderID: "add", AgentID: "bob", ToolCallID: "b1", Content: "bob's"}),
		message(event.Message{ID: "m3", SenderType: event.CreatedByAgent, SenderID: "bob", AgentID: "bob", ToolCalls: []event.ToolCall{call("b2", "add", "{}")}}),
		message(event.Message{ID: "m4", SenderType: event.CreatedByAgent, SenderID: "assistant", AgentID: "assistant", ToolCalls: []event.ToolCall{call("a1", "add", "{}"), call("a2", "add", "{}")}}),
		message(event.Message{ID: "a1.result", SenderType: event.CreatedByTool, SenderID: "add", AgentID: "assistant", ToolCallID: "a1", Content: "3"}),
		message(event.Message{ID: "m5", SenderType: event.CreatedByTool, SenderID: "cron", Content: "it is noon"}),
		message(event.Message{ID: "m6", SenderType: event.CreatedBySystem, SenderID: "threadmill", Content: "Stopped."}),
		event.NewRecord("x1", "file.changed", "", "", time.Now(), "x"),
	}
	w.append(store.Batch{Records: records})
	_, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, []llm.Message{
		{Role: "system", Content: "You help.\n\n" + activities.ToolRules},
		{Role: "user", Name: "ann", Content: "hello all"},
		{Role: "user", Name: "bob", Content: "bob: let me see"},
		{Role: "assistant", ToolCalls: []event.ToolCall{call("a1", "add", "{}"), call("a2", "add", "{}")}},
		{Role: "tool", ToolCallID: "a1", Content: "3"},
		{Role: "tool", ToolCallID: "a2", Name: "add", Content: llm.NoResult, IsError: true},
		{Role: "user", Name: "cron", Content: "cron: it is noon"},
		{Role: "system", Content: "Stopped."},
		{Role: "user", Name: "ann", Content: "hello"},
	}, w.model.requests[0].Messages, "S0-27 other agents are participants, their calls their own affair")
	require.Equal(t, "small", w.model.requests[0].Model)
	require.Equal(t, "add", w.model.requests[0].Tools[0].Name)
}

func TestInterruptedReplyKeepsPartialText(t *testing.T) {
	for content, want := range map[string][]string{"half a sen": {"e1", "e1.0.1.llm", "e1.0.1"}, "": {"e1"}} {
		w := newFixture(t, nil)
		w.model.answer = func(ctx context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
			onDelta(llm.Delta{Text: content})
			w.interrupt(ctx)
			return llm.Response{Content: content, ToolCalls: []event.ToolCall{call("c1", "add", "{")}}, ctx.Err()
		}
		reply, err := w.callModel(modelStep())
		require.NoError(t, err)
		require.True(t, reply.Message.Interrupted)
		require.Equal(t, content, reply.Message.Content)
		require.Empty(t, reply.Calls)
		require.Equal(t, want, w.ids())
		if content != "" {
			require.True(t, stored[event.Message](w, "e1.0.1").Interrupted)
		}
	}
}

func TestModelErrors(t *testing.T) {
	for _, tc := range []struct {
		name         string
		err          error
		attempts     int
		nonRetryable bool
		delay        time.Duration
		errorType    string
	}{
		{"refused", &llm.Error{Provider: "fake", StatusCode: 401, Message: "bad key"}, 3, true, 0, "model.refused"},
		{"overloaded", &llm.Error{Provider: "fake", StatusCode: 429, Message: "slow down", Retryable: true, RetryAfter: 4 * time.Second}, 3, false, 4 * time.Second, "model.rate_limit"},
		{"overloaded too often", &llm.Error{Provider: "fake", StatusCode: 503, Message: "down", Retryable: true}, 1, true, 0, "model.server_error"},
		{"too long", &llm.Error{Provider: "fake", StatusCode: 400, Message: "too long", ContextOverflow: true}, 3, true, 0, "model.context_overflow"},
		{"any other", errors.New("broken pipe"), 3, false, time.Second, "model"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newFixture(t, retrying(llm.Retry{MaxAttempts: tc.attempts}))
			w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
				return llm.Response{}, tc.err
			}
			_, err := w.callModel(modelStep())
			app := appError(t, err)
			require.Equal(t, tc.errorType, app.Type())
			require.Equal(t, tc.nonRetryable, app.NonRetryable())
			require.Equal(t, tc.delay, app.NextRetryDelay())
			require.Contains(t, app.Message(), tc.err.Error())
			require.Equal(t, []string{"e1"}, w.ids(), "what was said is stored all the same")
			var shown []event.StatusChange
			for _, e := range w.live() {
				if e.Event != nil && e.Event.Type == event.EventStatus {
					shown = append(shown, *e.Event.Status)
				}
			}
			if tc.nonRetryable {
				require.Empty(t, shown)
				return
			}
			require.Len(t, shown, 1, "viewers hear why they wait")
			require.Equal(t, event.StatusRetrying, shown[0].Status)
			require.Contains(t, shown[0].Detail, tc.err.Error()+" (attempt 1, the next at ")
			require.Equal(t, 1, shown[0].Retry.Attempts)
			require.WithinDuration(t, shown[0].Retry.Since.Add(tc.delay), shown[0].Retry.NextAttemptAt, time.Millisecond)
		})
	}
}

func retrying(r llm.Retry) func(*activities.Config) {
	return func(c *activities.Config) { c.ModelRetries = map[string]llm.Retry{"fake": r} }
}

// TestOutage: the thread, not Temporal, waits for longer retries of an outage.
func TestOutage(t *testing.T) {
	down := &llm.Error{Provider: "fake", StatusCode: 503, Message: "down", Retryable: true}
	call := func(t *testing.T, r llm.Retry, err error, in step.Model) (step.ModelReply, error) {
		w := newFixture(t, retrying(r))
		w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) { return llm.Response{}, err }
		return w.callModel(in)
	}
	before := func(attempts int, ago time.Duration) step.Model {
		in := modelStep()
		in.Outage = &event.Retry{Attempts: attempts, Since: time.Now().Add(-ago)}
		return in
	}
	t.Run("it waits longer each time", func(t *testing.T) {
		out, err := call(t, llm.Retry{}, down, before(4, time.Minute))
		require.NoError(t, err)
		require.Equal(t, 5, out.Outage.Attempts)
		require.Equal(t, "server_error", out.Outage.Class)
		require.Equal(t, "fake answered 503: down", out.Outage.Error)
		require.WithinDuration(t, time.Now().Add(16*time.Second), out.Outage.NextAttemptAt, 5*time.Second)
		require.WithinDuration(t, time.Now().Add(-time.Minute), out.Outage.Since, 5*time.Second)
	})
	t.Run("an outage of an hour is survived", func(t *testing.T) {
		out, err := call(t, llm.Retry{}, down, before(70, time.Hour))
		require.NoError(t, err)
		require.NotNil(t, out.Outage)
	})
	t.Run("not one of a day", func(t *testing.T) {
		_, err := call(t, llm.Retry{}, down, before(70, 24*time.Hour))
		require.True(t, appError(t, err).NonRetryable())
		require.ErrorContains(t, err, "gave up after 71 attempts")
	})
	t.Run("unless it is configured to", func(t *testing.T) {
		out, err := call(t, llm.Retry{For: 48 * time.Hour}, down, before(70, 24*time.Hour))
		require.NoError(t, err)
		require.NotNil(t, out.Outage)
	})
	t.Run("the provider says when, also when that is long", func(t *testing.T) {
		busy := &llm.Error{Provider: "fake", StatusCode: 429, Message: "slow down", Retryable: true, RetryAfter: 10 * time.Minute}
		out, err := call(t, llm.Retry{}, busy, modelStep())
		require.NoError(t, err)
		require.Equal(t, "rate_limit", out.Outage.Class)
		require.WithinDuration(t, time.Now().Add(10*time.Minute), out.Outage.NextAttemptAt, 5*time.Second)
		busy.RetryAfter = 3 * time.Hour
		_, err = call(t, llm.Retry{}, busy, modelStep())
		require.True(t, appError(t, err).NonRetryable(), "nobody waits beyond the limit")
	})
	t.Run("a mistake is no outage", func(t *testing.T) {
		_, err := call(t, llm.Retry{}, &llm.Error{Provider: "fake", StatusCode: 401, Message: "bad key"}, before(3, time.Minute))
		require.True(t, appError(t, err).NonRetryable())
		_, err = call(t, llm.Retry{}, errors.New("nil map"), before(5, time.Minute))
		require.True(t, appError(t, err).NonRetryable(), "what no driver knows is not tried for hours")
	})
}

func TestRetryShowsAfresh(t *testing.T) {
	w := newFixture(t, retrying(llm.Retry{MaxAttempts: 2}))
	calls := 0
	w.model.answer = func(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
		calls++
		onDelta(llm.Delta{Text: "half"})
		if calls != 4 {
			return llm.Response{}, &llm.Error{Provider: "fake", Message: "cut", Retryable: true}
		}
		return llm.Response{Content: "half"}, nil
	}
	err := w.retried(step.ActivityCallModel, modelStep())
	require.ErrorContains(t, err, "gave up after 2 attempts")
	second := modelStep()
	second.MessageID = "e1.0.2"
	require.NoError(t, w.retried(step.ActivityCallModel, second))
	var shown []string
	for _, e := range w.live() {
		if e.Event != nil && e.Event.MessageID == "e1.0.2" {
			shown = append(shown, fmt.Sprintf("%s %d", e.Event.Type, e.Event.Attempt))
		}
	}
	require.Equal(t, []string{"stream 1", "stream 1", "reset 2", "stream 2", "stream 2"}, shown)
	require.Equal(t, 2, stored[event.LLMCall](w, "e1.0.2.llm").Attempt)
}

func TestModelTakesTooLong(t *testing.T) {
	w := newFixture(t, func(c *activities.Config) {
		c.Agents = agent.Fixed{{Name: "assistant", Model: "fake/small", Limits: agent.Limits{ModelTimeout: time.Millisecond}}}
	})
	w.model.answer = func(ctx context.Context, _ llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		<-ctx.Done()
		return llm.Response{Content: "half"}, ctx.Err()
	}
	_, err := w.callModel(modelStep())
	app := appError(t, err)
	require.False(t, app.NonRetryable())
	require.Contains(t, app.Message(), "limits.modelTimeout")
}

func TestModelDriverPanics(t *testing.T) {
	w := newFixture(t, retrying(llm.Retry{MaxAttempts: 1}))
	w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) { panic("nil map") }
	_, err := w.callModel(modelStep())
	require.True(t, appError(t, err).NonRetryable(), "a driver that panics is not called for ever")
}

// brokenRegistry fails.
type brokenRegistry struct{}

func (brokenRegistry) Agent(context.Context, string, string) (agent.Agent, error) {
	return agent.Agent{}, errors.New("connection refused")
}

func TestConfigurationErrors(t *testing.T) {
	in := modelStep()
	in.Agent = "nobody"
	w := newFixture(t, nil)
	_, err := w.callModel(in)
	require.Equal(t, step.ErrTypeConfig, appError(t, err).Type())
	require.True(t, appError(t, err).NonRetryable())

	for _, name := range []string{"small", "other/small"} {
		w = newFixture(t, func(c *activities.Config) { c.Agents = agent.Fixed{{Name: "assistant", Model: name}} })
		_, err = w.callModel(modelStep())
		require.Equal(t, step.ErrTypeConfig, appError(t, err).Type())
		require.Contains(t, err.Error(), name)
	}

	w = newFixture(t, func(c *activities.Config) { c.Agents = brokenRegistry{} })
	_, err = w.callModel(modelStep())
	require.Equal(t, step.ErrTypeRetry, appError(t, err).Type(), "an outage is waited out")
	require.False(t, appError(t, err).NonRetryable())
}

func TestRecordAndNotify(t *testing.T) {
	w := newFixture(t, nil)
	for range 2 {
		_, err := w.env.ExecuteActivity(step.ActivityRecord, step.Record{Thread: ref, Flush: step.Flush{
			Records: says("e1", "hello").Records, Row: &step.Row{Title: "A title", Status: "open", Agents: []string{"bob"}},
		}})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"e1"}, w.ids())
	row, err := w.store.Thread(context.Background(), ref)
	require.NoError(t, err)
	require.Equal(t, "A title", row.Title)
	_, err = w.env.ExecuteActivity(step.ActivityNotify, step.Notify{Thread: ref, TraceID: "e1"})
	require.NoError(t, err)
}

// TestNoticeHasRecords: viewers in the process of a step need no read of the store for what it has stored.
func TestNoticeHasRecords(t *testing.T) {
	w := newFixture(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	sub, err := w.stream.Subscribe(ctx, ref, stream.From{})
	require.NoError(t, err)
	t.Cleanup(sub.Close)
	_, err = w.callModel(modelStep())
	require.NoError(t, err)
	var got []event.Record
	for head := int64(len(w.records())); int64(len(got)) < head; {
		e, err := sub.Next(ctx)
		require.NoError(t, err)
		got = append(got, e.Records...)
		require.False(t, e.Stored == head && int64(len(got)) < head, "a notice had no records")
	}
	require.Equal(t, w.records(), got)
}

// TestLateRetryOfARow: a step of a dead worker runs again after a later step has stored a newer row
// of the thread.
func TestLateRetryOfARow(t *testing.T) {
	w := newFixture(t, nil)
	opened := step.Flush{Records: says("e1", "hello").Records, Row: &step.Row{Number: 7, Title: "Old", Status: "open", Agents: []string{"alice", "bob"}}}
	closed := step.Flush{Row: &step.Row{Number: 8, Title: "New", Status: "closed", Agents: []string{"alice", "bob", "carol"}, Metadata: json.RawMessage(`{"a":1}`)}}
	stored := func(flush step.Flush) store.Thread {
		_, err := w.env.ExecuteActivity(step.ActivityRecord, step.Record{Thread: ref, Flush: flush})
		require.NoError(t, err)
		row, err := w.store.Thread(context.Background(), ref)
		require.NoError(t, err)
		return row
	}
	require.Equal(t, []string{"alice", "bob"}, stored(opened).Agents)
	changed := stored(closed)
	require.Equal(t, []string{"alice", "bob", "carol"}, changed.Agents)
	require.Equal(t, changed, stored(opened))
	require.Equal(t, changed, stored(closed))

	late := stored(step.Flush{Records: says("e2", "bye").Records, Row: opened.Row})
	require.Equal(t, []string{"e1", "e2"}, w.ids(), "the records are stored all the same")
	late.Head, late.UpdatedAt = changed.Head, changed.UpdatedAt
	require.Equal(t, changed, late)
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []activities.Config{{}, {Agents: agent.Fixed{}}, {Agents: agent.Fixed{}, Store: newFixture(t, nil).store}} {
		_, err := activities.New(cfg)
		require.ErrorContains(t, err, "is required")
	}
}
