package hooks

import (
	"encoding/json"
	"fmt"
	"go/build"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestForeignImportsNothing: the hook workflow of these tests needs nothing of Threadmill.
func TestForeignImportsNothing(t *testing.T) {
	t.Parallel()
	pkg, err := build.ImportDir("../internal/foreign", 0)
	require.NoError(t, err)
	require.NotEmpty(t, pkg.Imports)
	for _, path := range pkg.Imports {
		first, _, _ := strings.Cut(path, "/")
		standard := !strings.Contains(first, ".")
		require.True(t, standard || strings.HasPrefix(path, "go.temporal.io/sdk/"), "%s is neither the standard library nor the Temporal SDK", path)
	}
}

// TestHookWorkflow: a hook workflow decides that knows nothing of Threadmill.
//
//ci:replayed
func TestHookWorkflow(t *testing.T) {
	t.Parallel()
	r := check.NewReview(t, harness.Options{}, nil)
	id := r.Open()

	t.Run("S0-11 it is given the event, and lets it pass", func(t *testing.T) {
		posted := r.Post(id, "hello")
		in := r.Arrived(id, posted)
		require.Equal(t, foreign.Request{
			Hook: check.Reviewed, Namespace: r.TaskQueue, ThreadID: id, EventID: posted, TraceID: posted, Attempt: 1,
			Event: foreign.Event{Type: "message", CreatedBy: "user", ThreadID: id, Message: &foreign.Message{
				ThreadID: id, SenderID: "ann", SenderType: "user", Content: "hello",
			}},
		}, in)
		require.Zero(t, r.Provider.Calls(), "S0-35 nothing has happened to it yet")
		require.Equal(t, "hello", r.Messages(id)[0].Content, "S0-35 but it is stored")

		r.Rule(id, posted, foreign.Ruling{})
		require.Equal(t, "hello", r.Await(id, posted).Message.Content)
		require.Equal(t, []event.HookOutcome{{Name: check.Reviewed, Outcome: event.OutcomePassed, Attempts: 1}}, r.DecisionOn(id, posted).Hooks)
	})
	t.Run("the JSON that goes in and out is this, to the byte", func(t *testing.T) {
		p := signals.NewPost("e-json", event.NewMessage{
			ThreadID: id, SenderID: "ann", SenderType: event.CreatedByUser, Content: "bytes", Metadata: map[string]any{"page": 7},
		})
		p.TraceID, p.ParentEventID = "trace", "cause"
		_, err := r.Threads.PostSignal(r.Ctx(), id, p)
		require.NoError(t, err)
		r.Rule(id, "e-json", foreign.Ruling{Raw: json.RawMessage(`{"responses":[{"content":"noted","senderType":"system","senderId":"clerk"}]}`)})
		require.Equal(t, "noted", r.Await(id, "e-json").Message.Content)
		require.Equal(t, fmt.Sprintf(`{"hook":"review","namespace":%q,"threadId":%q,"eventId":"e-json","traceId":"trace","parentEventId":"cause","attempt":1,`+
			`"event":{"type":"message","createdBy":"user","threadId":%q,"message":{"threadId":%q,"senderId":"ann","senderType":"user","content":"bytes","metadata":{"page":7}}}}`,
			r.TaskQueue, id, id, id), r.Input(id, "e-json"))
	})
	t.Run("S0-12 what it changes holds, and the record stays", func(t *testing.T) {
		calls := r.Provider.Calls()
		out := r.Says(id, "my password is 1234", foreign.Ruling{Content: "my password is ****"})
		require.Equal(t, "my password is ****", out.Message.Content)
		shown := check.ModelCalls(r.Harness)[calls]
		require.Equal(t, "my password is ****", shown.Messages[len(shown.Messages)-1].Content)
		require.NotContains(t, shown.Raw, "1234")
		stored, err := r.Store.RecordsByID(r.Ctx(), r.Key(id), out.EventID)
		require.NoError(t, err)
		require.Contains(t, string(check.Only(t, stored).Payload), "my password is 1234")
		made := r.DecisionOn(id, out.EventID)
		require.Equal(t, event.OutcomeReplaced, made.Outcome)
		require.Equal(t, "my password is ****", made.Message.Content)
	})
	t.Run("S0-15 S0-18 S0-20 it answers in place of the agent", func(t *testing.T) {
		calls := r.Provider.Calls()
		out := r.Says(id, "tell me", foreign.Ruling{Respond: []foreign.Response{
			{Content: "one moment", SenderType: "system", SenderID: "desk"}, {Content: "no", Metadata: map[string]any{"rule": "r1"}},
		}})
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Equal(t, calls, r.Provider.Calls(), "the model is not called")
		made := r.DecisionOn(id, out.EventID)
		require.Equal(t, event.OutcomeResponded, made.Outcome)
		require.Len(t, made.Produced, 2)
		messages := r.Messages(id)
		said := messages[len(messages)-2:]
		require.Equal(t, []string{made.Produced[0], "desk", "one moment"}, []string{said[0].ID, said[0].SenderID, said[0].Content})
		require.Equal(t, []string{made.Produced[1], "assistant", "no"}, []string{said[1].ID, said[1].SenderID, said[1].Content})
		require.Equal(t, event.Metadata{"rule": "r1"}, said[1].Metadata)
	})
	t.Run("S0-17 an answer wins over a change", func(t *testing.T) {
		calls := r.Provider.Calls()
		out := r.Says(id, "both", foreign.Ruling{Raw: json.RawMessage(`{"event":{"type":"message","createdBy":"user","threadId":"` + id + `",` +
			`"message":{"threadId":"` + id + `","senderId":"ann","senderType":"user","content":"changed"}},"responses":[{"content":"answered"}]}`)})
		require.Equal(t, "answered", out.Message.Content)
		require.Equal(t, calls, r.Provider.Calls())
	})
	t.Run("people find it in Temporal", func(t *testing.T) {
		posted := r.Post(id, "where is it")
		r.Arrived(id, posted)
		d, err := r.Temporal.DescribeWorkflow(r.Ctx(), r.WorkflowID(id, posted), "")
		require.NoError(t, err)
		require.Equal(t, foreign.Review, d.WorkflowType.Name)
		require.Equal(t, check.ForeignQueue(r.TaskQueue), d.TaskQueueName)
		parent := d.ParentWorkflowExecution
		require.Equal(t, signals.HookWorkflowID(r.TaskQueue, id, posted), parent.ID)
		summary, err := d.GetStaticSummary()
		require.NoError(t, err)
		require.Equal(t, "message: hook review", summary)
		r.Rule(id, posted, foreign.Ruling{})
		r.Await(id, posted)
	})
}

// TestHookWorkflowFails: a hook workflow ends without a decision.
//
//ci:replayed only
func TestHookWorkflowFails(t *testing.T) {
	t.Parallel()
	t.Run("S0-23 closed: the event fails visibly, and can be retried", func(t *testing.T) {
		r := check.NewReview(t, harness.Options{}, nil)
		id := r.Open()
		out := r.Says(id, "hello", foreign.Ruling{Fail: "no quorum"})
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "hook review failed: no quorum")
		require.Zero(t, r.Provider.Calls())
		made := r.FailureOn(id, out.EventID)
		require.Equal(t, event.OutcomeFailed, made.Outcome)
		require.Equal(t, []event.HookOutcome{{Name: check.Reviewed, Outcome: event.OutcomeFailed, Error: "no quorum", Attempts: 1}}, made.Hooks)

		require.NoError(t, r.Threads.Control(r.Ctx(), id, signals.Control{Action: signals.ControlRetry, EventID: out.EventID, By: "ann"}))
		r.Rule(id, out.EventID+"~1", foreign.Ruling{})
		require.Equal(t, signals.TurnCompleted, r.Await(id, out.EventID).Status)
		require.Equal(t, event.OutcomePassed, r.DecisionOn(id, out.EventID).Outcome, "the retry has a decision of its own")
	})
	t.Run("S0-23 open: it goes on without", func(t *testing.T) {
		r := check.NewReview(t, harness.Options{}, func(h *hook.Hook) { h.OnFailure = hook.FailOpen })
		id := r.Open()
		out := r.Says(id, "hello", foreign.Ruling{Fail: "no quorum"})
		require.Equal(t, "hello", out.Message.Content)
		made := r.DecisionOn(id, out.EventID)
		require.Equal(t, event.OutcomePassed, made.Outcome)
		require.Equal(t, []event.HookOutcome{{Name: check.Reviewed, Outcome: event.OutcomeFailed, Error: "no quorum", Attempts: 1}}, made.Hooks)
	})
	t.Run("S0-23 it is tried as often as it asks for", func(t *testing.T) {
		r := check.NewReview(t, harness.Options{}, func(h *hook.Hook) { h.MaxAttempts = 2 })
		id := r.Open()
		posted := r.Post(id, "hello")
		r.Rule(id, posted, foreign.Ruling{Fail: "not yet"})
		require.Eventually(t, func() bool { return r.Arrived(id, posted).Attempt == 2 }, testenv.Patience, testenv.Tick)
		r.Rule(id, posted, foreign.Ruling{Content: "hello there"})
		require.Equal(t, "hello there", r.Await(id, posted).Message.Content)
		require.Equal(t, []event.HookOutcome{{Name: check.Reviewed, Outcome: event.OutcomeReplaced, Attempts: 2}}, r.DecisionOn(id, posted).Hooks)
	})
	t.Run("S0-23 it takes longer than it may", func(t *testing.T) {
		r := check.NewReview(t, harness.Options{}, func(h *hook.Hook) { h.Timeout = 500 * time.Millisecond })
		id := r.Open()
		out := r.Say(id, "hello")
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "hook review failed: it took longer than its limit of 500ms (workflow "+foreign.Review+" on task queue ")
		r.EndsAs(r.WorkflowID(id, out.EventID), enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT)
	})
}

// TestVerdictsThatDoNotFit: a hook workflow returns an invalid event.
func TestVerdictsThatDoNotFit(t *testing.T) {
	t.Parallel()
	r := check.NewReview(t, harness.Options{}, nil)
	id := r.Open()
	message := func(fields string) string { return `{"event":{"type":"message","createdBy":"user",` + fields + `}}` }
	for name, tc := range map[string]struct{ verdict, want string }{
		"no object":                     {`"yes"`, "verdict"},
		"a field of another type":       {`{"responses":"no"}`, "responses"},
		"a response without content":    {`{"responses":[{"content":"a"},{}]}`, "responses[1].content"},
		"a response of somebody else":   {`{"responses":[{"content":"a","senderType":"robot"}]}`, "responses[0].senderType"},
		"a response at another time":    {`{"responses":[{"content":"a","enqueueAfter":"never"}]}`, "responses[0].enqueueAfter"},
		"an event without type":         {`{"event":{"threadId":"` + id + `"}}`, "type"},
		"an event of the thread's own":  {`{"event":{"type":"status","threadId":"` + id + `"}}`, "type"},
		"an event that is no object":    {`{"event":[1]}`, "event"},
		"a message of nobody":           {`{"event":{"type":"message","threadId":"` + id + `"}}`, "createdBy"},
		"a message of another thread":   {message(`"threadId":"other","message":{"threadId":"other","senderId":"ann","senderType":"user","content":"x"}`), "threadId"},
		"a message that says nothing":   {message(`"threadId":"` + id + `","message":{"threadId":"` + id + `","senderId":"ann","senderType":"user"}`), "content"},
		"a message whose text is a map": {message(`"threadId":"` + id + `","message":{"content":{}}`), "content"},
		"calls of no agent":             {`{"event":{"type":"tool_call","createdBy":"user","threadId":"` + id + `"}}`, "createdBy"},
		"calls without calls":           {`{"event":{"type":"tool_call","createdBy":"agent","threadId":"` + id + `","agentName":"assistant"}}`, "toolCalls"},
		"a model call":                  {`{"event":{"type":"llm_call","createdBy":"agent","threadId":"` + id + `","agentName":"assistant","step":1}}`, "type"},
		"too much":                      {`{"responses":[{"content":"` + strings.Repeat("x", hook.MaxEvent) + `"}]}`, "responses"},
	} {
		t.Run("S0-23 "+name, func(t *testing.T) {
			out := r.Says(id, "hello", foreign.Ruling{Raw: json.RawMessage(tc.verdict)})
			require.Equal(t, signals.TurnFailed, out.Status)
			why, found := strings.CutPrefix(out.Error, "hook review failed: ")
			require.True(t, found, out.Error)
			require.Contains(t, why, tc.want)
			require.NotContains(t, why, "activity", "it says what is wrong, and not where it was found")
			require.Less(t, len(why), 300, "for people to read")
			require.Equal(t, event.OutcomeFailed, r.FailureOn(id, out.EventID).Outcome)
		})
	}
	require.Zero(t, r.Provider.Calls())
}
