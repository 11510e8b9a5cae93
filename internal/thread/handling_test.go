package thread

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

var (
	byFunction  = rule.Spec{Name: "f", Events: []string{"file.*"}, Function: true, Timeout: time.Minute, MaxAttempts: 3}
	byProcessor = rule.Spec{Name: "p", Events: []string{"file.*"}, Processor: "sorter"}
)

func TestFunctionOfARule(t *testing.T) {
	s := newState("alice")
	turn := routed(t, s, happens("e1", "file.changed", `1`), byFunction)
	in := s.Turn.EventStep()
	require.Equal(t, EventStep{
		Thread: s.Ref(), TraceID: "e1", EventID: "e1", Ends: "e1.turn_ended", Rule: "f", Timeout: time.Minute, MaxAttempts: 3, Flush: s.Flush(),
	}, in)
	require.Equal(t, []string{"t1.opened", "e1"}, recordIDs(in.Flush.Records), "the function is handed what was stored")
	s.Flushed(in.Flush)

	t.Run("it goes on in the next run of the workflow", func(t *testing.T) {
		moved := copied(t, s)
		require.True(t, moved.Turn.Unhandled())
		require.Equal(t, s.Turn.EventStep(), moved.Turn.EventStep())
	})
	s.Turn.FunctionDone(true)
	require.False(t, turn.Unhandled())
	require.Empty(t, turn.Runs, "nobody else has a part in it")
	require.Equal(t, signals.TurnCompleted, s.Turn.End(t0).Status)
	require.Equal(t, event.Completed, s.Ended[0].Status)
	require.False(t, s.Unstored())
}

func TestFunctionBeforeAnAgent(t *testing.T) {
	spec := byFunction
	spec.Agent = &rule.Agent{Prompt: "Go on."}
	s := newState("alice")
	turn := routed(t, s, happens("e1", "file.changed", `1`), spec)
	require.Empty(t, turn.Runs, "the agent waits for the function")
	s.Turn.FunctionDone(true)
	require.Equal(t, []*Run{{
		Agent: "alice", Phase: PhaseModel, ReplyTo: "e1.observed", Instructions: "Go on.",
		Observe: &Observe{EventID: "e1", Type: "file.changed", Query: "Process event: file.changed"},
	}}, bare(turn.Runs))
}

// TestFunctionOfAChangedEvent: what hooks have made of the event holds for the
// agent that comes after a function, in the next run of the workflow.
func TestFunctionOfAChangedEvent(t *testing.T) {
	spec := byFunction
	spec.Agent = &rule.Agent{}
	s := newState("alice", "bob")
	turn := arrive(t, s, happens("e1", "file.changed", `1`))
	e, _ := turn.Item.Env()
	e.Type, e.Metadata.TriggerAgentName = "file.removed", "bob"
	s.Turn.Enter(t0, replaces("guard", e), spec)
	s = copied(t, s)
	s.Turn.FunctionDone(true)
	r := s.Turn.Runs[0]
	require.Equal(t, "bob", r.Agent)
	require.Equal(t, "Process event: file.removed", r.Observe.Query)
	require.True(t, r.Observe.Replaced)
}

func TestFunctionFails(t *testing.T) {
	spec := byFunction
	spec.Agent = &rule.Agent{}
	s := newState("alice")
	turn := routed(t, s, happens("e1", "file.changed", `1`), spec)
	s.Turn.FunctionFailed(t0, strings.Repeat("no ", maxWhy))
	require.Equal(t, LogError, s.TakeLog()[0].Level, "S3-24")
	require.Empty(t, turn.Runs, "the agent has no part in it")
	failure := payload[event.Failure](t, pending(s, event.TypeError)[0])
	require.Equal(t, "e1", failure.EventID)
	require.True(t, failure.Retryable)
	require.True(t, strings.HasPrefix(failure.Error, "the function of rule f failed: no no "), failure.Error)
	require.Less(t, len(failure.Error), maxWhy+10)
	require.Equal(t, []string{"e1.error"}, terminals(s))
	post(t, s, happens("e2", "file.changed", `2`))
	require.Equal(t, signals.TurnFailed, s.Turn.End(t0).Status)
	require.Equal(t, event.Failed, s.Failed[0].Item.Status, "S2-16")

	turn = next(t, s)
	require.Equal(t, "e2", turn.Item.ID, "S3-24 the events behind it are handled")
	s.Turn.Enter(t0, pass)
	s.Turn.End(t0)
	s.Flushed(s.Flush())

	require.NoError(t, s.Retry(t0, signals.Control{EventID: "e1"}))
	turn = next(t, s)
	d, known := turn.DecidedBefore()
	require.True(t, known)
	s.Turn.Enter(t0, d, spec)
	require.True(t, turn.Unhandled(), "S2-17 the function is asked again")
	s.Turn.FunctionFailed(t0, "still not")
	require.Equal(t, []string{"e1~1.error"}, terminals(s), "it fails anew")
	s.Turn.End(t0)
	require.NoError(t, s.Retry(t0, signals.Control{EventID: "e1"}))
	turn = next(t, s)
	s.Turn.Enter(t0, pass, spec)
	s.Turn.FunctionDone(true)
	require.Equal(t, "e1~2.0.1", turn.Runs[0].NextModelStep(nil).MessageID)
}

// TestStoppedBeforeTheHandler: who interrupts does so also while a function runs or a
// processor decides.
func TestStoppedBeforeTheHandler(t *testing.T) {
	for name, spec := range map[string]rule.Spec{"function": byFunction, "processor": byProcessor} {
		t.Run(name, func(t *testing.T) {
			s := newState("alice")
			routed(t, s, happens("e1", "file.changed", `1`), spec)
			require.True(t, s.Interrupt(signals.Control{Action: signals.ControlInterrupt, By: "ann", Reason: "enough"}))
			out := s.Turn.End(t0)
			require.Equal(t, signals.TurnInterrupted, out.Status)
			require.Equal(t, "enough", out.Error)
			require.Len(t, s.Ended, 1)
			require.Empty(t, s.Failed)
		})
		t.Run(name+" is to be asked again", func(t *testing.T) {
			s := newState("alice")
			routed(t, s, happens("e1", "file.changed", `1`), spec)
			_, interrupt, err := s.SetStatus(t0, setTo("e1", event.Pending))
			require.NoError(t, err)
			require.True(t, interrupt)
			s.Interrupt(signals.Control{Action: signals.ControlInterrupt})
			s.Turn.End(t0)
			turn := next(t, s)
			require.Equal(t, 1, turn.Item.Attempt)
			s.Turn.Enter(t0, pass, spec)
			require.True(t, turn.Unhandled())
		})
	}
}

func TestProcessorOfARule(t *testing.T) {
	for _, tc := range []struct {
		name     string
		decision Decision
		status   signals.TurnStatus
		item     event.Status
		made     []string
		record   string
	}{
		{"it lets it pass", decides("sorter", event.Passed), signals.TurnCompleted, event.Completed, []string{}, "e1.rule.hook"},
		{
			"it makes events", produces("sorter", hook.NewProduced("note.taken", 1), hook.Message(event.System, "sorter", "sorted")),
			signals.TurnCompleted, event.Overwritten,
			[]string{"note.taken", "sorted"},
			"e1.rule.hook",
		},
		{"it fails", refuses("sorter", "processor sorter failed: no"), signals.TurnFailed, event.Failed, []string{}, "e1.rule.hook.failed"},
		{
			"it is gone", Decision{Outcome: event.HookFailed, By: "p", Error: "there is none"}, signals.TurnFailed, event.Failed, []string{}, "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState("alice")
			turn := arrive(t, s, happens("e1", "file.changed", `1`))
			s.Turn.Enter(t0, decides("guard", event.Passed), byProcessor)
			seen := s.Turn.RuleEvent()
			require.Equal(t, "e1.rule", seen.Key, "it is another question than that of the hooks")
			require.Equal(t, "e1", seen.ID)
			require.Nil(t, s.Turn.HookStep(seen, nil).Event, "it is in the record")
			s.Turn.ApplyProcessorDecision(t0, tc.decision)
			require.False(t, turn.Unhandled())
			require.Equal(t, tc.made, contents(t, s))
			decisions := recordIDs(pending(s, event.TypeHook))
			require.Equal(t, "e1.hook", decisions[0])
			if tc.record != "" {
				require.Equal(t, []string{"e1.hook", tc.record}, decisions)
			}
			out := s.Turn.End(t0)
			if len(tc.made) == 0 {
				require.Equal(t, tc.status, out.Status)
			} else {
				require.True(t, s.Awaits("e1"), "its turn goes on with what was made of it")
				require.Equal(t, "e1", s.Queue[0].Item.ParentEventID, "S2-41")
			}
			if tc.item == event.Failed {
				require.Equal(t, []string{"e1"}, ids(s.failed()))
				return
			}
			require.Equal(t, tc.item, s.Ended[0].Status)
		})
	}
}

// TestProcessorSeesWhatHooksHaveChanged: there is no record of that but their decision.
func TestProcessorSeesWhatHooksHaveChanged(t *testing.T) {
	s := newState("alice")
	turn := arrive(t, s, happens("e1", "file.changed", `1`))
	e, _ := turn.Item.Env()
	e.Payload = json.RawMessage(`2`)
	s.Turn.Enter(t0, replaces("guard", e), byProcessor)
	seen := s.Turn.RuleEvent()
	require.True(t, seen.Changed)
	step := s.Turn.HookStep(seen, nil)
	require.True(t, step.Replaced)
	require.Empty(t, step.Event, "all of it is in that record only")
}

// TestHooksAnswerAnEvent: what hooks respond to or make of an event keeps the rules out.
func TestHooksAnswerAnEvent(t *testing.T) {
	for name, d := range map[string]Decision{
		"respond": answers("guard", "seen"), "produce": produces("guard", hook.NewProduced("note.taken", 1)), "swallow": swallows("guard"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newState("alice")
			turn := arrive(t, s, happens("e1", "file.changed", `1`))
			s.Turn.Enter(t0, d, woken("w", "*"))
			require.Nil(t, turn.Handling)
			require.Empty(t, turn.Runs)
			require.Empty(t, s.TakeLog(), "it was not for want of a rule")
		})
	}
	t.Run("fail", func(t *testing.T) {
		s := newState("alice")
		turn := arrive(t, s, happens("e1", "file.changed", `1`))
		s.Turn.Enter(t0, refuses("guard", "no"), woken("w", "*"))
		require.Nil(t, turn.Handling)
		require.Equal(t, signals.TurnFailed, s.Turn.End(t0).Status)
		require.NoError(t, s.Retry(t0, signals.Control{}))
		turn = next(t, s)
		_, known := turn.DecidedBefore()
		require.False(t, known, "hooks are asked again")
	})
}
