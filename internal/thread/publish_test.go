package thread

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

// envs are the environment events that wait.
func envs(s *State) (out []event.EnvEvent) {
	for _, q := range s.Queue {
		if e, ok := q.Item.Env(); ok {
			out = append(out, e)
		}
	}
	return out
}

func TestLifecycle(t *testing.T) {
	own := rule.Spec{Name: "mine", Events: []string{"session.*"}, Priority: 60, Function: true}
	silent := rule.Spec{Name: "session", Events: []string{"session.*"}}
	for _, tc := range []struct {
		name      string
		rules     []rule.Spec
		closing   bool
		published int
		log       int
	}{
		{"S3-53 S3-26 the default rule logs", defaults, false, 0, 1},
		{"no rule", nil, false, 0, 0},
		{"S3-53 a rule of the application's own handles it", append([]rule.Spec{own}, defaults...), false, 1, 0},
		{"a rule of its own that does nothing", []rule.Spec{silent}, false, 1, 0},
		{"a thread that is closed handles nothing more", append([]rule.Spec{own}, defaults...), true, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := New("ns", "t1", signals.Start{Agents: []string{"alice"}, Title: "Plans"}, t0)
			if tc.closing {
				s.Closing = &signals.Control{Action: signals.ControlClose}
			}
			for _, record := range []string{"t1.updated.1", "t1.updated.2"} {
				s.Lifecycle(t0, event.TypeSessionUpdated, record, tc.rules)
			}
			require.Len(t, s.TakeLog(), 2*tc.log)
			published := envs(s)
			require.Len(t, published, 2*tc.published, "each change is an event of its own")
			for _, e := range published {
				require.Equal(t, event.TypeSessionUpdated, e.Type)
				require.Equal(t, event.EnvMetadata{TriggerSessionID: "t1", Source: event.SourceSystem}, e.Metadata)
				require.JSONEq(t, `{"sessionId":"t1","title":"Plans","agents":["alice"]}`, string(e.Payload))
				require.NoError(t, signals.CheckEventID("id", e.ID))
				require.NoError(t, e.Validate())
			}
		})
	}
}

func TestToolDone(t *testing.T) {
	told := rule.Spec{Name: "told", Events: []string{"tool.*"}, Priority: 60, Agent: &rule.Agent{}}
	for _, tc := range []struct {
		name    string
		rules   []rule.Spec
		trigger signals.Post
		failed  bool
		want    string
	}{
		{"S3-57 executed", []rule.Spec{told}, says("e1", "go"), false, event.TypeToolExecuted},
		{"S3-56 failed", []rule.Spec{told}, says("e1", "go"), true, event.TypeToolError},
		{"the default rules are not for it: the agent has the result anyway", defaults, says("e1", "go"), true, ""},
		{"no rule", nil, says("e1", "go"), false, ""},
		{"of a handler of another event", []rule.Spec{told, woken("w", "*")}, happens("e1", "file.changed", `1`), false, event.TypeToolExecuted},
		{"of the handler of a tool's own end", []rule.Spec{told}, happens("e1", event.TypeToolError, `1`), true, ""},
		{"the same, of a success", []rule.Spec{told}, happens("e1", event.TypeToolExecuted, `1`), false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState("alice")
			p := tc.trigger
			p.TraceID = "trace"
			turn := arrive(t, s, p)
			s.Turn.Enter(t0, pass, append(tc.rules, woken("x", "tool.*"))...)
			r := turn.Runs[0]
			step(t, s, r, "", runs("c1"))
			c := r.Calls[0]
			c.Failed = tc.failed
			for range 2 {
				c.ToolDone(t0, tc.rules)
			}
			got := envs(s)
			if tc.want == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1, "once, however often it is told")
			require.Equal(t, tc.want, got[0].Type)
			require.Equal(t, event.EnvMetadata{TriggerSessionID: "t1", TriggerAgentName: "alice", Source: event.SourceTool}, got[0].Metadata)
			require.JSONEq(t, `{"toolCallId":"c1","toolName":"note","agent":"alice","isError":`+asJSON(t, tc.failed)+`}`, string(got[0].Payload))
			require.NoError(t, got[0].Validate())
			it := s.Queue[0].Item
			require.Equal(t, "trace", it.TraceID, "S2-40")
			require.Equal(t, "e1", it.ParentEventID, "S2-41")
		})
	}
}

// TestPublishedEventIsNeverRefused: nobody can be told to wait. What is too large for the
// queue is in its record.
func TestPublishedEventIsNeverRefused(t *testing.T) {
	s := newState("alice")
	for i := range 5 {
		if _, err := s.Post(t0, says(name(i), strings.Repeat("x", signals.MaxPayload-1000))); err != nil {
			require.ErrorIs(t, err, ErrFull)
		}
	}
	waiting := len(s.Queue)
	large := rawJSON(strings.Repeat("y", signals.MaxPayload/2))
	e := event.EnvEvent{ID: "b1", Type: "build.done", Timestamp: happened, Payload: large}
	s.publish(t0, e, json.RawMessage(`{"ok":true}`), "trace", "c1")
	s.publish(t0, e, json.RawMessage(`{"ok":true}`), "trace", "c1")
	require.Len(t, s.Queue, waiting+1, "S3-10")
	stored := pending(s, event.TypeEnv)
	require.Equal(t, []string{"b1"}, recordIDs(stored), "it is in the store before its turn comes")
	require.Equal(t, string(large), string(payload[event.EnvEvent](t, stored[0]).Payload))
	s.Flushed(s.Flush())

	s.Queue = s.Queue[waiting:]
	turn := next(t, s)
	s.Turn.Enter(t0, pass, rule.Spec{Name: "ok", Events: []string{"*"}, Where: []rule.Condition{{Field: "payload.ok", Equals: true}}, Agent: &rule.Agent{}})
	require.NotNil(t, turn.Handling, "rules go by what the queue keeps")
	require.Empty(t, pending(s, event.TypeEnv), "the record is not made again of what the queue keeps")
}

// TestEventsFitIntoTheNextRun fills a thread with the largest of what events, tasks and
// sub-agents leave in it, and all of it at once.
func TestEventsFitIntoTheNextRun(t *testing.T) {
	s := newState("alice")
	large := strings.Repeat("x", signals.MaxPayload-1000)
	fill := func(n int) {
		for i := range n {
			p := happens(s.newID(t0), "file.changed", `1`)
			p.Metadata = json.RawMessage(`{"extra":"` + large + `"}`)
			if i%2 == 1 {
				p.Metadata, p.Payload = json.RawMessage(`{}`), json.RawMessage(`"`+large+`"`)
			}
			if _, err := s.Post(t0, p); err != nil {
				require.ErrorIs(t, err, ErrFull)
			}
		}
	}
	for range maxEnded {
		fill(1)
		s.Turn.Enter(t0, withBegun(t, s), rule.Spec{Name: "keep", Events: []string{"*"}})
		s.Turn.End(t0)
		s.Flushed(s.Flush())
	}
	require.Len(t, s.Ended, maxEnded)
	require.Less(t, len(asJSON(t, s.Ended)), maxEnded*2*itemBytes, "without what they carried")
	for range 8 {
		fill(1)
		s.Turn.Enter(t0, withBegun(t, s), byFunction)
		s.Turn.FunctionFailed(t0, large)
		s.Turn.End(t0)
		s.Flushed(s.Flush())
	}
	require.Less(t, len(asJSON(t, s.Failed)), 2*signals.MaxPayload, "what failed is kept as far as there is room")

	fill(1)
	s.Turn.Enter(t0, withBegun(t, s), debounced)
	s.Turn.End(t0)
	r := begin(t, s, "go", "go").Runs[0]
	fill(5)
	for range maxTasks {
		startTask(t, s, r, "build")
	}
	for i, task := range s.TasksView().Tasks {
		reply := TaskReply{Result: rawJSON(large[:MaxCarriedContent-300])}
		if i%2 == 0 {
			reply = TaskReply{Error: large}
		}
		require.NoError(t, s.TaskReported(t0, TaskReport{TaskID: task.ID, TaskReply: reply}))
	}
	for range maxTasks {
		startTask(t, s, r, "build")
	}
	for range maxSubs {
		id, _ := of(s, subCall("c"+s.newID(t0))).Delegate()
		for range 3 {
			s.SubAsked(SubAsks{ThreadID: id, Request: event.ApprovalRequest{ToolCallID: s.newID(t0), Arguments: CarryArguments(large)}})
		}
	}
	for s.Unstored() {
		s.Flushed(s.Flush())
	}
	require.Less(t, len(asJSON(t, s.Carried())), 2<<20)
}

// withBegun begins the turn of the next event; hooks let it pass.
func withBegun(t *testing.T, s *State) Decision {
	t.Helper()
	next(t, s)
	return pass
}
