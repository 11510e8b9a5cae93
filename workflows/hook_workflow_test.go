package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// hookRun is the hook workflow of one message, without a thread.
type hookRun struct {
	*fixture
	set *hook.Set
	in  step.Hook
}

func newHearing(t *testing.T, set *hook.Set) *hookRun {
	t.Helper()
	h := &hookRun{fixture: hookedWorld(t, newFakes(t), set), set: set}
	h.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: signals.HookWorkflowID("ns", "t1", "e1"), TaskQueue: "q"})
	m := event.Message{ID: "e1", ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "hello"}
	h.in = step.Hook{
		Thread: step.Ref{Namespace: "ns", ThreadID: "t1"}, TraceID: "trace", EventID: "e1", EventType: event.TypeMessage, ParentEventID: "cause", Agent: "alice",
		Hooks: set.Specs(),
		Flush: step.Flush{Records: []event.Record{event.NewRecord("e1", event.TypeMessage, "trace", "", time.Now(), m)}},
	}
	return h
}

func (h *hookRun) decide() (d step.HookDecision) {
	h.t.Helper()
	h.ExecuteWorkflow(signals.HookWorkflow, h.in)
	require.True(h.t, h.IsWorkflowCompleted())
	require.NoError(h.t, h.GetWorkflowError())
	require.NoError(h.t, h.GetWorkflowResult(&d))
	return d
}

func outcome(name string, o event.Outcome, attempts int) event.HookOutcome {
	return event.HookOutcome{Name: name, Outcome: o, Attempts: attempts}
}

func TestHooksAreAskedInOrder(t *testing.T) {
	h := newHearing(t, setOf(t, []hook.Hook{function("a"), function("b"), personHook("p"), function("c")},
		hook.Processor{Name: "last", EventType: event.TypeMessage, Process: noProcess}))
	other := message(event.CreatedByUser, "ann", "other")
	h.hook = func(in step.Hook, name string) said {
		if name == "b" {
			return said{event: other}
		}
		return said{}
	}
	people := (&persons{}).register(h.fixture)
	h.then(func() { h.says("p", hook.Verdict{Event: rawOf(t, message(event.CreatedByUser, "ann", "third"))}) })
	d := h.decide()
	require.Equal(t, []string{"e1: a, b", "e1: c, last"}, h.names(), "S2-33 functions that follow one another share an activity")
	require.Len(t, h.asked[0].Flush.Records, 1, "S0-35 the record is stored before any hook sees it")
	require.Empty(t, h.asked[1].Flush, "once")
	require.JSONEq(t, string(rawOf(t, other)), string(people.requests[0].Event), "each sees what the one before it has returned")
	require.Equal(t, hook.Context{
		Hook: "p", Namespace: "ns", ThreadID: "t1", EventID: "e1", TraceID: "trace", ParentEventID: "cause", Agent: "alice", Attempt: 1,
	}, people.requests[0].Context)
	third := rawOf(t, message(event.CreatedByUser, "ann", "third"))
	require.JSONEq(t, string(third), string(h.asked[1].Event))
	require.Equal(t, event.OutcomeReplaced, d.Outcome)
	require.JSONEq(t, string(third), string(d.Event))
	require.Equal(t, []event.HookOutcome{
		outcome("a", event.OutcomePassed, 1), outcome("b", event.OutcomeReplaced, 1), outcome("p", event.OutcomeReplaced, 1), outcome("c", event.OutcomePassed, 1), outcome("last", event.OutcomePassed, 1),
	}, d.Hooks)
}

// says sends a person's verdict to a hook workflow.
func (w *fixture) says(name string, v hook.Verdict) { w.saysOn("e1", name, v) }

func (w *fixture) saysOn(key, name string, v hook.Verdict) {
	require.NoError(w.t, w.SignalWorkflowByID(signals.HookWorkflowID("ns", "t1", key)+"/"+name, signalSays, v))
}

func TestResponseSettles(t *testing.T) {
	h := newHearing(t, setOf(t, []hook.Hook{function("a"), function("b"), function("c")}))
	h.hook = func(_ step.Hook, name string) said {
		if name == "a" {
			return said{event: message(event.CreatedByUser, "ann", "other")}
		}
		return answers("no")
	}
	d := h.decide()
	require.Equal(t, event.OutcomeResponded, d.Outcome, "S0-17 S0-25")
	require.Equal(t, "b", d.By)
	require.Equal(t, []hook.Response{{Content: "no"}}, d.Responses)
	require.Nil(t, d.Event)
	require.Equal(t, []event.HookOutcome{outcome("a", event.OutcomeReplaced, 1), outcome("b", event.OutcomeResponded, 1)}, d.Hooks, "nobody is asked after that")
}

func TestHookIsRetried(t *testing.T) {
	a := function("a")
	a.MaxAttempts = 4
	h := newHearing(t, setOf(t, []hook.Hook{function("first"), a, function("c")}))
	failures := 0
	h.hook = func(in step.Hook, name string) said {
		if name == "a" && failures < 3 {
			failures++
			return said{failed: "not yet"}
		}
		return said{}
	}
	began := h.Now()
	d := h.decide()
	require.Equal(t, []string{"e1: first, a, c", "e1: a, c", "e1: a, c", "e1: a, c"}, h.names(), "S0-23 those before it are not asked again")
	attempts := []int{}
	for _, in := range h.asked {
		attempts = append(attempts, in.Attempt)
	}
	require.Equal(t, []int{1, 2, 3, 4}, attempts)
	require.Equal(t, 7*time.Second, h.Now().Sub(began), "it waits 1, 2 and 4 seconds")
	require.Equal(t, event.OutcomePassed, d.Outcome)
	require.Equal(t, []event.HookOutcome{outcome("first", event.OutcomePassed, 1), outcome("a", event.OutcomePassed, 4), outcome("c", event.OutcomePassed, 1)}, d.Hooks)
}

func TestHookFailsForGood(t *testing.T) {
	failing := func(mode hook.FailureMode, attempts int) hook.Hook {
		a := function("a")
		a.OnFailure, a.MaxAttempts = mode, attempts
		return a
	}
	for _, tc := range []struct {
		name  string
		hook  hook.Hook
		asked int
		want  event.Outcome
		err   string
	}{
		{"closed, the default, fails the event", failing("", 0), 3, event.OutcomeFailed, "hook a failed: it broke (gave up after 3 attempts)"},
		{"closed, with one attempt", failing(hook.FailClosed, 1), 1, event.OutcomeFailed, "hook a failed: it broke"},
		{"open goes on without it", failing(hook.FailOpen, 2), 2, event.OutcomePassed, ""},
	} {
		t.Run("S0-23 "+tc.name, func(t *testing.T) {
			h := newHearing(t, setOf(t, []hook.Hook{function("first"), tc.hook, function("c")}))
			asked := 0
			h.hook = func(_ step.Hook, name string) said {
				switch name {
				case "first":
					return said{event: message(event.CreatedByUser, "ann", "other")}
				case "a":
					asked++
					return said{failed: "it broke"}
				}
				return said{}
			}
			d := h.decide()
			require.Equal(t, tc.asked, asked)
			require.Equal(t, tc.err, d.Error)
			require.Equal(t, event.HookOutcome{Name: "a", Outcome: event.OutcomeFailed, Error: "it broke", Attempts: tc.asked}, d.Hooks[1], "S2-35 it is recorded")
			if tc.want == event.OutcomeFailed {
				require.Equal(t, event.OutcomeFailed, d.Outcome)
				require.Equal(t, "a", d.By)
				require.Nil(t, d.Event)
				require.Len(t, d.Hooks, 2)
				return
			}
			require.Equal(t, event.OutcomeReplaced, d.Outcome, "what the others made of it stands")
			require.Equal(t, outcome("c", event.OutcomePassed, 1), d.Hooks[2], "S2-35 the next one still runs")
		})
	}
}

func TestProcessors(t *testing.T) {
	processor := func(name string, change func(*hook.Processor)) hook.Processor {
		p := hook.Processor{Name: name, EventType: event.TypeMessage, Process: noProcess}
		change(&p)
		return p
	}
	plain := func(*hook.Processor) {}
	instead := func(p *hook.Processor) { p.ReplaceDefault = true }
	made := []hook.Produced{hook.NewProduced("note.taken", 1)}
	for _, tc := range []struct {
		name       string
		processors []hook.Processor
		say        map[string]said
		outcome    event.Outcome
		by         string
		noDefault  bool
		asked      []string
	}{
		{"S2-30 nothing is produced", []hook.Processor{processor("p", plain), processor("q", plain)}, nil, event.OutcomePassed, "", false, []string{"p", "q"}},
		{"S2-29 the first production wins", []hook.Processor{processor("p", plain), processor("q", plain)}, map[string]said{"p": {produced: made}}, event.OutcomeOverwritten, "p", false, []string{"p"}},
		{"S2-34 in place of the default", []hook.Processor{processor("p", instead), processor("q", plain)}, nil, event.OutcomePassed, "p", true, []string{"p", "q"}},
		{"S2-29 production after one in place of the default", []hook.Processor{processor("p", instead), processor("q", plain)}, map[string]said{"q": {produced: made}}, event.OutcomeOverwritten, "q", true, []string{"p", "q"}},
		{"S2-35 a failure is isolated", []hook.Processor{processor("p", func(p *hook.Processor) { p.MaxAttempts = 1 }), processor("q", plain)}, map[string]said{"p": {failed: "it broke"}, "q": {produced: made}}, event.OutcomeOverwritten, "q", false, []string{"p", "q"}},
		{"S2-35 unless it says otherwise", []hook.Processor{processor("p", func(p *hook.Processor) { p.MaxAttempts = 1; p.OnFailure = hook.FailClosed }), processor("q", plain)}, map[string]said{"p": {failed: "it broke"}}, event.OutcomeFailed, "p", false, []string{"p"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHearing(t, setOf(t, nil, tc.processors...))
			asked := []string{}
			h.hook = func(_ step.Hook, name string) said {
				asked = append(asked, name)
				return tc.say[name]
			}
			d := h.decide()
			require.Equal(t, tc.outcome, d.Outcome)
			require.Equal(t, tc.by, d.By)
			require.Equal(t, tc.noDefault, d.NoDefault)
			require.Equal(t, tc.asked, asked)
			if tc.outcome == event.OutcomeOverwritten {
				require.Equal(t, made, d.Produced)
			}
			if tc.outcome == event.OutcomeFailed {
				require.Equal(t, "processor p failed: it broke", d.Error)
			}
		})
	}
}

// TestOpenFailureKeepsWhatWasChanged: if a failed hook lets an event pass, the changes of earlier
// hooks remain.
func TestOpenFailureKeepsWhatWasChanged(t *testing.T) {
	broken := function("broken")
	broken.MaxAttempts, broken.OnFailure = 1, hook.FailOpen
	h := newHearing(t, setOf(t, []hook.Hook{function("redact"), broken, function("last")}))
	h.hook = func(_ step.Hook, name string) said {
		switch name {
		case "redact":
			return said{event: message(event.CreatedByUser, "ann", "[gone]")}
		case "broken":
			return said{failed: "it broke"}
		}
		return said{}
	}
	d := h.decide()
	require.Equal(t, event.OutcomeReplaced, d.Outcome, "S0-12 S2-35")
	require.Equal(t, "[gone]", asMessage(t, d.Event))
}

// TestProcessorOfAnotherType: when hooks change the type of an event, the processors of its old
// type do not run, even if they replace the default.
func TestProcessorOfAnotherType(t *testing.T) {
	p := hook.Processor{Name: "p", EventType: event.TypeMessage, Process: noProcess, ReplaceDefault: true}
	w := hookedWorld(t, newFakes(t), setOf(t, []hook.Hook{function("h", event.TypeMessage)}, p))
	w.hook = func(in step.Hook, name string) said {
		if name == "h" && in.EventID == "e1" {
			return said{event: event.ToolCallEvent{ThreadID: "t1", ToolCalls: []event.ToolCall{{ID: "c1", Function: event.Function{Name: "note", Arguments: "{}"}}}}}
		}
		return said{}
	}
	w.then(func() { w.post("e1", "make a note") })
	w.run(workflows.Input{})
	require.Len(t, w.tools, 1)
}

// TestFunctionsThatTakeLong: an activity has enough time for all of its functions.
func TestFunctionsThatTakeLong(t *testing.T) {
	hooks := []hook.Hook{function("a"), function("b"), function("c"), function("d")}
	for i := range hooks {
		hooks[i].Timeout = 12 * time.Hour
	}
	h := newHearing(t, setOf(t, hooks))
	h.decide()
	require.Equal(t, []string{"e1: a, b", "e1: c, d"}, h.names())
}

// TestHookWorkflowOfTheApplication: a hook can be a workflow, in any language.
func TestHookWorkflowOfTheApplication(t *testing.T) {
	const own = "own"
	inWorkflow := func(change func(*hook.Hook)) hook.Hook {
		h := hook.InWorkflow("p", hook.Workflow{Type: own})
		change(&h)
		return h
	}
	plain := func(*hook.Hook) {}
	for _, tc := range []struct {
		name    string
		hook    hook.Hook
		verdict any
		err     error
		outcome event.Outcome
		runs    int
		problem string
	}{
		{"null lets the event pass", inWorkflow(plain), nil, nil, event.OutcomePassed, 1, ""},
		{"so does an empty verdict", inWorkflow(plain), hook.Verdict{}, nil, event.OutcomePassed, 1, ""},
		{"an event in its place", inWorkflow(plain), json.RawMessage(`{"event":{"type":"message","createdBy":"user","threadId":"t1","message":{"threadId":"t1","senderId":"ann","senderType":"user","content":"other"}}}`), nil, event.OutcomeReplaced, 1, ""},
		{"the same event is a pass", inWorkflow(plain), json.RawMessage(`{"event":{"type":"message","createdBy":"user","threadId":"t1","message":{"threadId":"t1","senderId":"ann","senderType":"user","content":"hello"}}}`), nil, event.OutcomePassed, 1, ""},
		{"responses", inWorkflow(plain), json.RawMessage(`{"responses":[{"content":"no"}]}`), nil, event.OutcomeResponded, 1, ""},
		{"an impossible event", inWorkflow(plain), json.RawMessage(`{"event":{"type":"token"}}`), nil, event.OutcomeFailed, 1, "is not message, tool_call, llm_call or a custom type"},
		{"an event of another thread", inWorkflow(plain), json.RawMessage(`{"event":{"type":"note","threadId":"t2","payload":1}}`), nil, event.OutcomeFailed, 1, "threadId"},
		{"an empty response", inWorkflow(plain), json.RawMessage(`{"responses":[{}]}`), nil, event.OutcomeFailed, 1, "responses[0].content: is required"},
		{"a misspelled verdict", inWorkflow(plain), json.RawMessage(`{"response":[{"content":"no"}]}`), nil, event.OutcomeFailed, 1, `response: is not known`},
		{"no verdict at all", inWorkflow(plain), "yes", nil, event.OutcomeFailed, 1, "is no verdict"},
		{"a failure", inWorkflow(plain), nil, errors.New("it broke"), event.OutcomeFailed, 1, "it broke"},
		{"a failure that is tried again", inWorkflow(func(h *hook.Hook) { h.MaxAttempts = 3 }), nil, errors.New("it broke"), event.OutcomeFailed, 3, "it broke (gave up after 3 attempts)"},
		{"a failure that is open", inWorkflow(func(h *hook.Hook) { h.OnFailure = hook.FailOpen }), nil, errors.New("it broke"), event.OutcomePassed, 1, ""},
	} {
		t.Run("S0-23 "+tc.name, func(t *testing.T) {
			h := newHearing(t, setOf(t, []hook.Hook{tc.hook}))
			runs := 0
			h.RegisterWorkflowWithOptions(func(ctx workflow.Context, r hook.Request) (any, error) {
				runs++
				assert.Equal(t, runs, r.Attempt)
				assert.Equal(t, "hook/ns/t1/e1/p", workflow.GetInfo(ctx).WorkflowExecution.ID)
				return tc.verdict, tc.err
			}, workflow.RegisterOptions{Name: own})
			d := h.decide()
			require.Equal(t, []string{"e1: "}, h.names(), "S0-35 the record is stored, and read, once")
			require.Equal(t, tc.runs, runs)
			require.Equal(t, tc.outcome, d.Outcome)
			require.Contains(t, d.Error, tc.problem)
			require.Equal(t, tc.runs, d.Hooks[0].Attempts)
			if tc.outcome == event.OutcomeResponded {
				require.Equal(t, []hook.Response{{Content: "no"}}, d.Responses)
			}
			if tc.outcome == event.OutcomeReplaced {
				require.Contains(t, string(d.Event), "other")
			}
		})
	}
}

func TestHookWorkflowThatTakesTooLong(t *testing.T) {
	p := personHook("p")
	p.Timeout = time.Hour
	h := newHearing(t, setOf(t, []hook.Hook{p}))
	// The test environment records the limit of a workflow beside its start, and would meanwhile
	// skip to the next timer: here there is none.
	h.SetWorkflowRunTimeout(0)
	(&persons{}).register(h.fixture)
	d := h.decide()
	require.Equal(t, event.OutcomeFailed, d.Outcome)
	require.Contains(t, d.Error, "it took longer than its limit of 1h0m0s (workflow ")
}

func TestHookWorkflowWaitsForDays(t *testing.T) {
	h := newHearing(t, setOf(t, []hook.Hook{personHook("p")}))
	(&persons{}).register(h.fixture)
	h.at = 30 * 24 * time.Hour
	h.then(func() { h.says("p", hook.Verdict{Responses: []hook.Response{{Content: "no"}}}) })
	require.Equal(t, event.OutcomeResponded, h.decide().Outcome, "it has no limit unless it says so")
}

// TestModelCallHasNoRecord: an event that is not stored yet is passed in the input.
func TestModelCallHasNoRecord(t *testing.T) {
	call := event.LLMCallEvent{ThreadID: "t1", AgentName: "alice", Step: 1}
	for name, flush := range map[string]step.Flush{"nothing to store": {}, "a row to store": {Row: &step.Row{Status: "open"}}} {
		t.Run(name, func(t *testing.T) {
			h := newHearing(t, setOf(t, []hook.Hook{personHook("p")}))
			h.in.EventID, h.in.EventType, h.in.Event, h.in.Flush = "e1.0.1.llm", event.TypeLLMCall, rawOf(t, call), flush
			people := (&persons{}).register(h.fixture)
			h.then(func() { h.says("p", hook.Verdict{}) })
			require.Equal(t, event.OutcomePassed, h.decide().Outcome)
			require.JSONEq(t, string(rawOf(t, call)), string(people.requests[0].Event))
			require.Len(t, h.asked, map[bool]int{true: 1, false: 0}[flush.Row != nil], "what was handed over is stored all the same")
			if flush.Row != nil {
				require.Equal(t, "open", h.row.Status)
			}
		})
	}
}

// TestHookWorkflowFails: a non-retryable error ends the hook workflow.
func TestHookWorkflowFails(t *testing.T) {
	h := newHearing(t, setOf(t, []hook.Hook{function("a")}))
	h.hook = func(step.Hook, string) said {
		return said{err: temporal.NewNonRetryableApplicationError("event e1 is not in the store", step.ErrTypeConfig, nil)}
	}
	h.ExecuteWorkflow(signals.HookWorkflow, h.in)
	require.ErrorContains(t, h.GetWorkflowError(), "event e1 is not in the store")
}

func TestHookWorkflowIsCancelled(t *testing.T) {
	h := newHearing(t, setOf(t, []hook.Hook{personHook("p"), function("c")}))
	people := (&persons{}).register(h.fixture)
	h.then(h.CancelWorkflow)
	h.ExecuteWorkflow(signals.HookWorkflow, h.in)
	require.ErrorContains(t, h.GetWorkflowError(), "canceled")
	require.Equal(t, 1, people.cancelled, "who is being asked hears of it")
	require.Equal(t, []string{"e1: "}, h.names(), "nobody else is asked")
}

// TestHookWorkflowReports: it sends its decision to a thread that has continued as new.
func TestHookWorkflowReports(t *testing.T) {
	h := newHearing(t, setOf(t, []hook.Hook{personHook("p")}))
	(&persons{}).register(h.fixture)
	var reported []step.HookDecided
	h.OnSignalExternalWorkflow(mock.Anything, signals.WorkflowID("ns", "t1"), "", step.SignalHookDecided, mock.Anything).
		Return(func(_, _, _, _ string, arg any) error {
			reported = append(reported, arg.(step.HookDecided))
			return nil
		})
	h.then(func() { h.SignalWorkflow(step.SignalReport, nil); h.SignalWorkflow(step.SignalReport, nil) })
	h.then(func() { h.says("p", hook.Verdict{Responses: []hook.Response{{Content: "no"}}}) })
	d := h.decide()
	require.Equal(t, []step.HookDecided{{EventID: "e1", Decision: d}}, reported, "S0-24 once")
}

// noProcess is a placeholder for a function that the fake replaces.
func noProcess(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
	panic("the fake answers in its place")
}
