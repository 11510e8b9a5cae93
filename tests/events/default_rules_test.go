package events

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestDefaultRules runs with the default rules only.
func TestDefaultRules(t *testing.T) {
	t.Parallel()
	log := &check.Logbook{}
	w := ruled(t, harness.Options{Agents: watchful(), Tools: []tool.Tool{risky, check.Failing}, Configure: func(c *threadmill.Config) { log.Keep(t, c) }})
	t.Run("S3-26 S3-53 S3-session_rule_logs session.* is logged, and nothing else", func(t *testing.T) { defaultSession(t, w, log) })
	for typ, prompt := range map[string]string{
		event.TypeBackgroundTaskCompleted: rule.BackgroundTaskPrompt,
		event.TypeBackgroundTaskFailed:    rule.BackgroundTaskPrompt,
		"webhook.received":                rule.FallbackPrompt,
		event.TypeToolError:               rule.FallbackPrompt,
	} {
		t.Run("S3-26 S3-27 S3-28 S3-background_task_rule_creates_agent S3-fallback_rule_matches X4 an agent handles "+typ, func(t *testing.T) { defaultAgent(t, w, typ, prompt) })
	}
	t.Run("S3-26 user_query is answered", func(t *testing.T) {
		require.Equal(t, "hello", check.Handle(w, w.Open(), userQuery("hello")).Message.Content)
	})
	t.Run("S3-25 X3 stream.* wakes nobody", func(t *testing.T) { defaultStream(t, w) })
}

func defaultSession(t *testing.T, w *harness.Harness, log *check.Logbook) {
	calls := w.Provider.Calls()
	thread := w.Open()
	for _, typ := range []string{event.TypeSessionCreated, event.TypeSessionUpdated, event.TypeSessionDeleted} {
		require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, check.Happened(typ, 1)).Status)
	}
	_, err := w.Threads.Update(w.Ctx(), thread, signals.ThreadChange{Title: "renamed", By: "ann"})
	require.NoError(t, err)
	check.Closed(t, w, thread)
	for typ, times := range map[string]int{event.TypeSessionCreated: 2, event.TypeSessionUpdated: 2, event.TypeSessionDeleted: 2} {
		lines := slices.DeleteFunc(log.Lines(`"thread":"`+thread+`"`), func(line string) bool { return !strings.Contains(line, "environment event "+typ) })
		require.Len(t, lines, times, "one that was published, and one that the thread tells of itself")
		for _, line := range lines {
			require.Contains(t, line, `"level":"INFO"`)
		}
	}
	types, _ := eventsPage(t, w, thread)
	require.Equal(t, []string{
		"session.created", "session.created", "session.updated", "session.deleted", "session.updated", "session.deleted",
	}, types)
	require.Len(t, published(w, thread), 3, "what the thread tells of itself is stored as what it is")
	require.Empty(t, w.Messages(thread))
	require.Equal(t, calls, w.Provider.Calls())
}

func defaultAgent(t *testing.T, w *harness.Harness, typ, prompt string) {
	thread := w.Open()
	w.Provider.Reset()
	out := check.Handle(w, thread, check.Happened(typ, map[string]string{"taskId": "7"}))
	require.Equal(t, signals.TurnCompleted, out.Status)
	require.Equal(t, "Process event: "+typ, out.Message.Content)
	require.Equal(t, "You help.\n\n"+prompt, check.Only(t, check.ModelCalls(w)).Instructions())
	require.Len(t, w.Messages(thread), 4)
}

func defaultStream(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	w.Provider.Reset()
	for _, typ := range []string{event.TypeStreamStart, event.TypeStreamText, event.TypeStreamCompleted, event.TypeStreamError, "stream.of.thought"} {
		out := check.Handle(w, thread, check.Happened(typ, nil, func(e *event.EnvEvent) { e.Metadata.Source = event.SourceLLM }))
		require.Equal(t, signals.TurnCompleted, out.Status)
	}
	require.Zero(t, w.Provider.Calls())
	require.Len(t, published(w, thread), 5, "they are stored")
	check.Handle(w, thread, check.Happened("file.changed", nil))
	check.Say(w, thread, "hello")
	fence(w, thread)
	require.Equal(t, 3, w.Provider.Calls(), "what agents say to an event, a person and an event wakes nobody either")
}

// userQuery is an event with a question.
func userQuery(content string, change ...func(*event.UserQuery)) event.EnvEvent {
	q := event.UserQuery{Content: content}
	for _, c := range change {
		c(&q)
	}
	e := check.Happened(event.TypeUserQuery, q)
	e.Metadata.Source = event.SourceUser
	return e
}

// TestUserQuery covers user_query events.
func TestUserQuery(t *testing.T) {
	t.Parallel()
	agents := append(watchful(), agent.Agent{Name: "mute", Model: "nowhere/any"})
	w := ruled(t, harness.Options{Agents: agents, Tools: []tool.Tool{risky, check.Failing}})
	t.Run("S3-30 S3-31 S3-user_query_rule_handles X5 it is a message of the user, once", func(t *testing.T) { queryAsked(t, w) })
	t.Run("S3-32 no model is needed before somebody asks", func(t *testing.T) { queryLazily(t, w) })
	t.Run("S3-33 tools, until a reply has none", func(t *testing.T) { queryTools(t, w) })
	t.Run("S3-30 for a session that is not this one", func(t *testing.T) { queryElsewhere(t, w) })
	t.Run("S3-24 one that failed can be retried", func(t *testing.T) { queryRetried(t, w) })
	t.Run("mentions address agents", func(t *testing.T) {
		require.Equal(t, "bob", check.Handle(w, w.Open("assistant", "bob"), userQuery("@bob hello")).Message.SenderID)
	})
	for _, path := range []string{"/sessions/", "/v1/sessions/"} {
		t.Run("S3-A1 S3-45 S3-46 S3-50 S3-52 from POST "+path+":id/prompt to its viewers", func(t *testing.T) { queryPrompted(t, w, path) })
	}
}

func queryAsked(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	check.Say(w, thread, "good morning")
	w.Provider.Reset()
	e := userQuery("what is new?", func(q *event.UserQuery) { q.SessionID, q.UserID = thread, "carol" })
	out := check.Handle(w, thread, e)
	require.Equal(t, "what is new?", out.Message.Content)
	call := check.Only(t, check.ModelCalls(w))
	shown := []string{call.Messages[0].Role + ": " + call.Instructions()}
	for _, m := range call.Messages[1:] {
		shown = append(shown, m.Role+": "+m.Content)
	}
	require.Equal(t, []string{"system: You help.", "user: good morning", "assistant: good morning", "user: what is new?"}, shown)
	require.Equal(t, []string{"ann: good morning", "assistant: good morning", "carol: what is new?", "assistant: what is new?"}, check.SaidIn(w, thread))
	asked := harness.Payload[event.Message](w, check.RecordOf(w, thread, e.ID+".message"))
	require.Equal(t, event.Message{
		ID: e.ID + ".message", ThreadID: thread, SenderID: "carol", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "what is new?",
	}, asked)
	require.Equal(t, asked.ID, out.Message.ReplyToMessageID)
	require.Equal(t, e.ID, check.Only(t, published(w, thread)).ID, "the event is stored as well")
	t.Run("S3-10 asked again it has no effect", func(t *testing.T) {
		require.Equal(t, signals.PostDuplicate, publish(w, thread, e))
		fence(w, thread)
		require.Len(t, check.SaidIn(w, thread), 4+4, "the fence's, and no more")
	})
}

func queryLazily(t *testing.T, w *harness.Harness) {
	w.Provider.Reset()
	thread := w.Open("mute")
	require.Equal(t, signals.TurnCompleted, check.Handle(w, thread, check.Happened(event.TypeSessionUpdated, nil)).Status)
	require.Zero(t, w.Provider.Calls(), "a thread is there, and no model was called")
	out := check.Handle(w, thread, userQuery("hello"))
	require.Equal(t, signals.TurnFailed, out.Status, "its model is looked for when it is needed")
	require.Contains(t, out.Error, `needs a provider "nowhere"`)
	require.Equal(t, signals.TurnCompleted, check.Handle(w, w.Open(), userQuery("hello")).Status)
	require.Equal(t, 1, w.Provider.Calls())
}

func queryTools(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	w.Provider.Reset()
	out := check.Handle(w, thread, userQuery("use note {\"text\":\"one\"}\nuse failing {\"how\":\"error\"}\nthen\nuse note {\"text\":\"two\"}\nthen\nall done"))
	require.Equal(t, "note returned: noted: two\nall done", out.Message.Content)
	calls := check.ModelCalls(w)
	require.Len(t, calls, 3)
	for i, results := range []int{0, 2, 3} {
		check.RequireAnswered(t, calls[i].Messages)
		told := slices.DeleteFunc(slices.Clone(calls[i].Messages), func(m llm.Message) bool { return m.Role != event.RoleTool })
		require.Len(t, told, results)
		require.Equal(t, 1, strings.Count(calls[i].Raw, "all done"), "S3-31 X5 it is asked once")
	}
	check.RequireSettled(t, w, thread)
}

func queryElsewhere(t *testing.T, w *harness.Harness) {
	thread := w.Open()
	_, err := w.Threads.Post(w.Ctx(), thread, signals.EnvPost(userQuery("hello", func(q *event.UserQuery) { q.SessionID = "another" })))
	require.ErrorContains(t, err, "payload.sessionId")
	fence(w, thread)
	require.Len(t, published(w, thread), 1)
}

func queryRetried(t *testing.T, w *harness.Harness) {
	thread, e := w.Open(), userQuery("hello")
	w.Provider.Fail(check.Failing400)
	require.Equal(t, signals.TurnFailed, check.Handle(w, thread, e).Status)
	queue, err := w.Threads.Queue(w.Ctx(), thread)
	require.NoError(t, err)
	_, err = w.Threads.Retry(w.Ctx(), thread, check.Only(t, queue.Failed).ID, "ann")
	require.NoError(t, err)
	check.AwaitMessages(w, thread, 2)
	require.Equal(t, []string{"user: hello", "assistant: hello"}, check.SaidIn(w, thread))
}

func queryPrompted(t *testing.T, w *harness.Harness, path string) {
	thread := signals.NewID()
	gate := w.Provider.Block(0)
	status, answer := check.Request(t, w, http.MethodPost, path+thread+"/prompt", map[string]string{"content": "well met"})
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, map[string]any{"success": true, "sessionId": thread, "message": "Processing started"}, answer)
	<-gate.Reached()
	env := watchEnv(t, w, thread)
	viewer := check.Watch(t, w, thread, "")
	gate.Release()
	require.Equal(t, []string{
		"session.created", "user_query", "stream.start", "stream.text", "stream.text", "stream.completed",
	}, env.until(t, event.TypeStreamCompleted))
	frames := viewer.Until(t, check.IsFinal)
	require.Equal(t, []string{"user: well met", "assistant: well met"}, check.SaidIn(w, thread))
	require.Equal(t, "well met", check.Streamed(frames, w.Messages(thread)[1].ID))
	q := check.Only(t, published(w, thread))
	require.Equal(t, event.EnvMetadata{TriggerSessionID: thread, Source: event.SourceUser}, q.Metadata)
	require.JSONEq(t, `{"sessionId":"`+thread+`","content":"well met"}`, string(q.Payload))
}
