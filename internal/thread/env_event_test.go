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

// happened is the time of the events of these tests, in milliseconds.
const happened = 1_700_000_000_000

// happens is the post of an environment event.
func happens(id, typ, payload string) signals.Post {
	return signals.EnvPost(event.EnvEvent{ID: id, Type: typ, Timestamp: happened, Payload: json.RawMessage(payload)})
}

// about is an environment event with this metadata.
func about(id, metadata string) signals.Post {
	p := happens(id, "file.changed", `{"path":"a.go"}`)
	p.Metadata = json.RawMessage(metadata)
	return p
}

// woken is a rule that wakes an agent.
func woken(name string, events ...string) rule.Spec {
	return rule.Spec{Name: name, Events: events, Agent: &rule.Agent{}}
}

// routed posts an event and lets its rule begin to handle it.
func routed(t *testing.T, s *State, p signals.Post, rules ...rule.Spec) *Turn {
	t.Helper()
	turn := arrive(t, s, p)
	s.Turn.Enter(t0, pass, rules...)
	return turn
}

// defaults are the rules that there are unless others come before them.
var defaults = (*rule.Set)(nil).Specs()

func TestRouteEvent(t *testing.T) {
	for _, tc := range []struct {
		name  string
		post  signals.Post
		rules []rule.Spec

		stage  HandlingStage
		runs   []*Run
		status signals.TurnStatus
		log    []LogLine
	}{
		{
			name: "S3-13 no rule", post: happens("e1", "file.changed", `1`), rules: []rule.Spec{woken("push", "github.push")},
			status: signals.TurnUnanswered,
			log:    []LogLine{{LogWarn, "No rule matched for event: file.changed", []any{"thread", "t1", "event", "e1"}}},
		},
		{
			name: "S3-13 no rules at all", post: happens("e1", "file.changed", `1`),
			status: signals.TurnUnanswered,
			log:    []LogLine{{LogWarn, "No rule matched for event: file.changed", []any{"thread", "t1", "event", "e1"}}},
		},
		{
			name: "a rule that only stores", post: happens("e1", "file.changed", `1`), rules: []rule.Spec{{Name: "keep", Events: []string{"*"}}},
			stage: Handled, status: signals.TurnCompleted,
		},
		{
			name: "S3-26 a rule that logs", post: about("e1", `{"source":"env"}`), rules: []rule.Spec{{Name: "log", Events: []string{"file.*"}, Log: true}},
			stage: Handled, status: signals.TurnCompleted,
			log: []LogLine{{LogInfo, "environment event file.changed", []any{"thread", "t1", "event", "e1", "source", "env"}}},
		},
		{
			name: "S3-22 a function", post: happens("e1", "file.changed", `1`), rules: []rule.Spec{{Name: "f", Events: []string{"*"}, Function: true}},
			stage: ByFunction,
		},
		{
			name: "a function before an agent", post: happens("e1", "file.changed", `1`),
			rules: []rule.Spec{{Name: "f", Events: []string{"*"}, Function: true, Agent: &rule.Agent{}}},
			stage: ByFunction,
		},
		{
			name: "a processor", post: happens("e1", "file.changed", `1`), rules: []rule.Spec{{Name: "p", Events: []string{"*"}, Processor: "x"}},
			stage: ByProcessor,
		},
		{
			name: "S3-23 an agent", post: happens("e1", "file.changed", `1`), rules: []rule.Spec{woken("w", "file.changed")},
			stage: Handled,
			runs: []*Run{{
				Agent: "alice", Phase: PhaseModel, ReplyTo: "e1.observed",
				Observe: &Observe{EventID: "e1", Type: "file.changed", Query: "Process event: file.changed"},
			}},
		},
		{
			name: "S3-43 an agent with prompts", post: happens("e1", "file.changed", `1`),
			rules: []rule.Spec{{Name: "w", Events: []string{"*"}, Agent: &rule.Agent{SystemPrompt: "You watch.", Prompt: "Look at it."}}},
			stage: Handled,
			runs: []*Run{{
				Agent: "alice", Phase: PhaseModel, ReplyTo: "e1.observed", Instructions: "You watch.\n\nLook at it.",
				Observe: &Observe{EventID: "e1", Type: "file.changed", Query: "Process event: file.changed"},
			}},
		},
		{
			name: "S3-19 the highest priority alone", post: happens("e1", "file.changed", `1`),
			rules: []rule.Spec{woken("w", "*"), {Name: "keep", Events: []string{"file.changed"}, Priority: 1}},
			stage: Handled, status: signals.TurnCompleted,
		},
		{
			name: "S3-30 a query is a message", post: happens("e1", "user_query", `{"content":"hello","userId":"ann"}`), rules: defaults,
			stage: Handled, status: signals.TurnCompleted,
		},
		{
			name: "S3-25 what is streamed wakes nobody", post: happens("e1", "stream.completed", `{}`), rules: defaults,
			stage: Handled, status: signals.TurnCompleted,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState("alice", "bob")
			turn := routed(t, s, tc.post, tc.rules...)
			require.Equal(t, tc.log, s.TakeLog())
			require.Empty(t, s.TakeLog(), "it is told once")
			require.Equal(t, tc.runs, bare(turn.Runs))
			if tc.stage == "" {
				require.Nil(t, turn.Handling)
			} else {
				require.Equal(t, tc.stage, turn.Handling.Stage)
			}
			require.Equal(t, tc.stage == ByFunction || tc.stage == ByProcessor, turn.Unhandled())
			rec := pending(s, event.TypeEnv)
			require.Equal(t, []string{"e1"}, recordIDs(rec), "it is stored, whatever comes of it")
			if tc.status != "" {
				require.Equal(t, tc.status, s.Turn.End(t0).Status)
				require.Equal(t, []string{"e1"}, ids(s.Ended))
				require.Empty(t, terminals(s), "no agent had a part in it")
			}
		})
	}
}

func TestUnmatchedEventIsRecorded(t *testing.T) {
	s := newState()
	routed(t, s, happens("e1", "file.changed", `1`))
	rec := s.Pending[len(s.Pending)-1]
	require.Equal(t, "e1.unmatched", rec.ID)
	require.Equal(t, event.StatusChange{Status: event.StatusUnmatched, Detail: "No rule matched for event: file.changed"},
		payload[event.StatusChange](t, rec), "S3-13")
}

// TestQueryBecomesAMessage: the person's words are in the thread once.
func TestQueryBecomesAMessage(t *testing.T) {
	asked := func(post signals.Post, agents ...string) *State {
		s := newState(agents...)
		routed(t, s, post, defaults...)
		s.Turn.End(t0)
		require.True(t, s.Awaits("e1"), "its turn goes on with the message")
		next(t, s)
		require.Empty(t, s.Turn.Runs, "S3-30 hooks see the message before anybody answers it")
		require.Equal(t, event.TypeMessage, s.Turn.ItemEvent().Type)
		s.Turn.Enter(t0, pass)
		return s
	}
	s := asked(happens("e1", "user_query", `{"content":"hello","userId":"ann"}`), "alice", "bob")
	require.Equal(t, []*Run{
		{Agent: "alice", Slot: 0, Phase: PhaseModel, ReplyTo: "e1.message"},
		{Agent: "bob", Slot: 1, Phase: PhaseModel, ReplyTo: "e1.message"},
	}, bare(s.Turn.Runs))
	said := pending(s, event.TypeMessage)
	require.Len(t, said, 1, "S3-31")
	require.Equal(t, event.Message{
		ID: "e1.message", ThreadID: "t1", SenderID: "ann", SenderType: event.User, Role: event.RoleUser, Content: "hello",
	}, payload[event.Message](t, said[0]), "S3-30")
	require.Equal(t, "e1", said[0].ParentEventID, "S2-41")

	only := happens("e1", "user_query", `{"content":"hello"}`)
	only.Agents = []string{"bob"}
	s = asked(only, "alice", "bob")
	require.Equal(t, []*Run{{Agent: "bob", Phase: PhaseModel, ReplyTo: "e1.message"}}, bare(s.Turn.Runs))
	require.Equal(t, "user", payload[event.Message](t, pending(s, event.TypeMessage)[0]).SenderID)
}

func TestHandlerOfAnEvent(t *testing.T) {
	for _, tc := range []struct {
		name     string
		agents   []string
		post     signals.Post
		rule     rule.Agent
		handling string
	}{
		{"the one that the post names", []string{"alice"}, signals.Post{Agents: []string{"carol", "dave"}}, rule.Agent{Name: "bob"}, "carol"},
		{"the one that the rule names", []string{"alice"}, about("", `{"trigger_agent_name":"alice"}`), rule.Agent{Name: "bob"}, "bob"},
		{"S3-06 the one that the event names", []string{"alice", "bob"}, about("", `{"trigger_agent_name":"bob"}`), rule.Agent{}, "bob"},
		{"S3-06 by its id", []string{"alice", "bob"}, about("", `{"trigger_agent_id":"Bob"}`), rule.Agent{}, "bob"},
		{"the name comes before the id", []string{"alice", "bob"}, about("", `{"trigger_agent_name":"bob","trigger_agent_id":"alice"}`), rule.Agent{}, "bob"},
		{"a name that takes no part is passed by", []string{"alice", "bob"}, about("", `{"trigger_agent_name":"eve","trigger_agent_id":"bob"}`), rule.Agent{}, "bob"},
		{"nobody that takes part", []string{"alice", "bob"}, about("", `{"trigger_agent_name":"eve"}`), rule.Agent{}, "alice"},
		{"the first", []string{"alice", "bob"}, signals.Post{}, rule.Agent{}, "alice"},
		{"the default agent", nil, about("", `{"trigger_agent_name":"eve"}`), rule.Agent{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := happens("e1", "file.changed", `1`)
			p.Agents = tc.post.Agents
			if len(tc.post.Metadata) > 0 {
				p.Metadata = tc.post.Metadata
			}
			turn := routed(t, newState(tc.agents...), p, rule.Spec{Name: "w", Events: []string{"*"}, Agent: &tc.rule})
			require.Len(t, turn.Runs, 1)
			require.Equal(t, tc.handling, turn.Runs[0].Agent)
		})
	}
}

// TestEnvItem: what an event leaves out is filled in; what it says stays.
func TestEnvItem(t *testing.T) {
	for _, tc := range []struct {
		name     string
		post     signals.Post
		time     int64
		metadata string
	}{
		{"a time alone", signals.Post{Timestamp: 5}, 5, `{"trigger_session_id":"t1"}`},
		{"metadata alone", signals.Post{Metadata: json.RawMessage(`{}`)}, t0.UnixMilli(), `{"trigger_session_id":"t1"}`},
		{
			"S3-06 further keys",
			signals.Post{Timestamp: 5, Metadata: json.RawMessage(`{"source":"env","sha":"abc","trigger_session_id":"t1","n":1.50}`)},
			5,
			`{"n":1.50,"sha":"abc","source":"env","trigger_session_id":"t1"}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			tc.post.ID, tc.post.Type = "e1", "file.changed"
			arrive(t, s, tc.post)
			got := payload[event.EnvEvent](t, pending(s, event.TypeEnv)[0])
			require.Equal(t, "e1", got.ID)
			require.Equal(t, tc.time, got.Timestamp, "S3-05")
			require.JSONEq(t, "null", string(got.Payload), "no payload is null")
			require.Equal(t, tc.metadata, asJSON(t, got.Metadata))
		})
	}
}

// TestCustomEventIsNoEnvironmentEvent: without a time and metadata no rule sees it.
func TestCustomEventIsNoEnvironmentEvent(t *testing.T) {
	s := newState("alice")
	turn := routed(t, s, signals.Post{ID: "e1", Type: "file.changed", Payload: json.RawMessage(`1`)}, woken("w", "*"))
	require.False(t, turn.IsEnv())
	require.Nil(t, turn.Handling)
	require.Empty(t, turn.Runs)
	require.Equal(t, "No hook or processor matches event: file.changed", s.TakeLog()[0].Text)
	require.Len(t, pending(s, "file.changed"), 1)
}

// TestHooksChangeAnEvent: rules and agents go by what the hooks have made of it.
func TestHooksChangeAnEvent(t *testing.T) {
	s := newState("alice", "bob")
	seen := arrive(t, s, happens("e1", "file.changed", `{"path":"a.go"}`))
	e, _ := seen.Item.Env()
	e.Type, e.Metadata.TriggerAgentName = "file.removed", "bob"
	e.Payload = json.RawMessage(`"` + strings.Repeat("x", MaxCarriedContent) + `"`)
	s.Turn.Enter(t0, replaces("guard", e), woken("w", "file.removed"))
	r := s.Turn.Runs[0]
	require.Equal(t, "bob", r.Agent)
	require.Equal(t, &Observe{EventID: "e1", Type: "file.removed", Query: "Process event: file.removed", Replaced: true}, r.Observe)
	require.Equal(t, e, *heardOn(t, s, "e1.hook").Env, "all of it is in the record")

	r.Fail(t0, "no", true)
	s.Turn.End(t0)
	s = copied(t, s)
	require.Less(t, len(s.Failed[0].Replaced), MaxCarriedContent, "what is kept of it is bounded")
	require.NoError(t, s.Retry(t0, signals.Control{}))
	turn := next(t, s)
	d, known := turn.DecidedBefore()
	require.True(t, known, "hooks are not asked twice")
	s.Turn.Enter(t0, d, woken("w", "file.removed"))
	require.Equal(t, &Observe{EventID: "e1", Type: "file.removed", Query: "Process event: file.removed", Replaced: true}, turn.Runs[0].Observe)
	require.Equal(t, "bob", turn.Runs[0].Agent)
	require.Equal(t, "e1~1.0.1", turn.Runs[0].NextModelStep(nil).MessageID, "the reply is another one")
}

// TestEventHandlerRuns: what the model call of a handler is told.
func TestEventHandlerRuns(t *testing.T) {
	s := newState("alice")
	tools := []string{"note"}
	p := happens("e1", "file.changed", `1`)
	p.Tools = &tools
	turn := routed(t, s, p, rule.Spec{Name: "w", Events: []string{"*"}, Agent: &rule.Agent{Prompt: "Look at it."}})
	r := turn.Runs[0]
	in := step(t, s, r, "", runs("c1"))
	require.Equal(t, "Look at it.", in.Instructions, "S3-43")
	require.Equal(t, turn.Runs[0].Observe, in.Observe)
	require.Equal(t, "e1.observed", in.ReplyTo)
	require.Equal(t, &tools, in.Tools)
	require.Contains(t, recordIDs(in.Flush.Records), "e1")
	s.ran(t0, r, r.Calls[0])
	r.ToolsDone(t0)
	in = step(t, s, r, "done")
	require.Equal(t, "Look at it.", in.Instructions, "S3-44 also when it goes on")
	require.NotNil(t, in.Observe)
	out := s.Turn.End(t0)
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "done", out.Message.Content)
}
