package thread

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

// recordOf returns the last record of an id that waits to be stored.
func recordOf(t *testing.T, s *State, id string) event.Record {
	t.Helper()
	for i := len(s.Pending) - 1; i >= 0; i-- {
		if s.Pending[i].ID == id {
			return s.Pending[i]
		}
	}
	require.Fail(t, "no record", id)
	return event.Record{}
}

func arrives(t *testing.T, s *State, id string) *Turn {
	t.Helper()
	post(t, s, says(id, "hello"))
	q, ok := s.Next(t0)
	require.True(t, ok)
	return s.Begin(t0, q)
}

var silent = Decision{Outcome: event.Passed, Silent: true}

func TestModelsWaitForHooks(t *testing.T) {
	decisionID := event.InterceptionID("e1")
	t.Run("no hook matches: the record is as if there were none", func(t *testing.T) {
		s := newState()
		arrives(t, s, "e1")
		require.Equal(t, []string{event.TypeMessage}, recordOf(t, s, "e1").Undecided(), "nobody has decided")
		s.Turn.Enter(t0, silent)
		require.Empty(t, recordOf(t, s, "e1").Undecided())
		require.Empty(t, pending(s, event.TypeHook))
	})
	t.Run("a step has taken the record along: it takes a decision", func(t *testing.T) {
		for name, flush := range map[string]func(s *State){
			"stored":          func(s *State) { s.Flushed(s.Flush()) },
			"perhaps":         func(s *State) { s.Flush() },
			"in the next run": func(s *State) { s.Flush(); *s = *copied(t, s); s.bind() },
		} {
			s := newState()
			arrives(t, s, "e1")
			flush(s)
			s.Turn.Enter(t0, silent)
			passed := payload[event.Interception](t, recordOf(t, s, decisionID))
			require.Equal(t, event.Passed, passed.Outcome, name)
			require.Empty(t, passed.Hooks, name)
		}
	})
	t.Run("what was handed over is forgotten with what was stored", func(t *testing.T) {
		s := newState()
		arrives(t, s, "e1")
		s.Flushed(s.Flush())
		require.Zero(t, s.Handed)
		s.Turn.notice(t0, "n1", "note")
		require.Zero(t, s.Handed)
	})
	t.Run("a retry passes what has failed", func(t *testing.T) {
		s := newState()
		arrives(t, s, "e1")
		s.Turn.Enter(t0, Decision{Outcome: event.HookFailed, Error: "no"})
		s.Turn.End(t0)
		s.Flushed(s.Flush())
		require.NoError(t, s.Retry(t0, signals.Control{Action: signals.ControlRetry, EventID: "e1"}))
		q, ok := s.Next(t0)
		require.True(t, ok)
		s.Begin(t0, q)
		s.Turn.Enter(t0, silent)
		require.Equal(t, event.Passed, payload[event.Interception](t, recordOf(t, s, decisionID)).Outcome, "what is stored has the mark")
	})
	t.Run("no turn takes it on", func(t *testing.T) {
		for name, end := range map[string]func(s *State){
			"set by hand": func(s *State) {
				_, _, err := s.SetStatus(t0, signals.SetStatus{EventID: "e2", Status: event.Overwritten, By: "ann"})
				require.NoError(t, err)
			},
			"cancelled": func(s *State) { require.True(t, s.Cancel(t0, signals.Control{EventID: "e2", By: "ann"})) },
			"closed":    func(s *State) { s.Closing = &signals.Control{By: "ann"}; s.Close(t0) },
		} {
			s := newState()
			begin(t, s, "e1", "hello")
			post(t, s, says("e2", "wait"))
			end(s)
			require.NotEmpty(t, recordOf(t, s, "e2").Undecided(), name)
		}
	})
	t.Run("what was passed is taken back by hand", func(t *testing.T) {
		s := newState()
		turn := begin(t, s, "e1", "hello")
		_, interrupts, err := s.SetStatus(t0, signals.SetStatus{EventID: "e1", Status: event.Overwritten, By: "ann"})
		require.NoError(t, err)
		require.True(t, interrupts)
		s.Interrupt(signals.Control{Action: signals.ControlInterrupt, By: "ann"})
		turn.Runs[0].StopRun(t0)
		s.Turn.End(t0)
		require.Equal(t, event.Withdrawn, payload[event.Interception](t, recordOf(t, s, event.WithdrawalID("e1"))).Outcome)
	})
	t.Run("why a task has failed", func(t *testing.T) {
		guard := hook.Spec{Name: "guard", Filter: hook.Filter{Types: []string{event.TypeBackgroundTaskFailed}}}
		s, r := tasking(t)
		task := startTask(t, s, r, "build")
		s.CompleteTask(t0, signals.CompleteTask{TaskID: task.ID, Error: "swordfish"})
		answer := func(specs ...hook.Spec) string {
			s.Flushed(s.Flush())
			of(s, &Call{Plan: PlannedCall{ID: "c9", Name: ToolListTasks, By: ByThread}}).Answer(t0, specs...)
			return payload[event.Message](t, recordOf(t, s, "c9.result")).Content
		}
		require.Contains(t, answer(), "swordfish", "no hook has a say in it")
		require.NotContains(t, answer(guard), "swordfish", "the hook has not decided on the event")
		s.TasksPassed = []string{taskEventID(s.Ref(), task)}
		require.Contains(t, answer(guard), "swordfish", "it has passed the event")
	})
}
