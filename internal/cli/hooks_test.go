package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// keep adds a message to the API's list, or replaces the one with its id.
func (w *world) keep(m map[string]any) {
	for i, before := range w.messages {
		if before["id"] == m["id"] {
			m["seq"] = before["seq"]
			w.messages[i] = m
			return
		}
	}
	w.messages = append(w.messages, m)
}

// serveEventPage serves the stored events, two per page.
func (w *world) serveEventPage(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	page := map[string]any{}
	var events []map[string]any
	found := r.URL.Query().Get("cursor") == ""
	for i, e := range w.events {
		id := w.ids[i]
		if strings.Contains(id, ":") {
			continue
		}
		if !found {
			found = id == r.URL.Query().Get("cursor")
			continue
		}
		if len(events) == 2 {
			page["next"] = events[1]["id"]
			break
		}
		raw, err := json.Marshal(e)
		assertNoError(w.t, err)
		fields := map[string]any{}
		assertNoError(w.t, json.Unmarshal(raw, &fields))
		fields["id"] = id
		events = append(events, fields)
	}
	page["events"] = events
	assertNoError(w.t, json.NewEncoder(rw).Encode(page))
}

// decided records a decision of hooks.
func (w *world) decided(detail string) {
	w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusIntercepted, Detail: detail}})
}

// redact sends a message that a hook has redacted, and a reply that hooks have not decided on: the
// test completes it.
func (w *world) redact(eventID string, m event.NewMessage) *event.Message {
	w.say(eventID, m.SenderID, event.CreatedByUser, "redact …")
	w.decided("guard replaced the message")
	w.say("re-"+eventID, "demo", event.CreatedByAgent, "it is 1234")
	return w.redacted(eventID)
}

func (w *world) redacted(eventID string) *event.Message {
	return &event.Message{ID: "re-" + eventID, SenderID: "demo", SenderType: event.CreatedByAgent, Role: event.RoleAssistant, Content: "it is …"}
}

func (w *world) finishRedacted() {
	w.mu.Lock()
	eventID := w.posts[len(w.posts)-1].ID
	w.mu.Unlock()
	w.record(event.AgentEvent{Type: event.EventMessage, Message: w.redacted(eventID)})
	w.decided("guard replaced the message")
	w.record(event.AgentEvent{Type: event.EventFinal})
}

// TestShowUnanswered shows which message nobody answered, and why.
func TestShowUnanswered(t *testing.T) {
	w := newWorld(t)
	w.say("m1", "ann", event.CreatedByUser, "@nobody hi")
	w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusUnanswered, Detail: "no agent of the thread is named nobody"}})
	require.Contains(t, w.ok("show", "t1"), "ann › @nobody hi\n· nobody answers: no agent of the thread is named nobody\n")
	_, out, _ := w.run("", "show", "t1", "--json")
	require.Contains(t, out, `"status": "unanswered"`)
}

func TestShowDecisions(t *testing.T) {
	w := newWorld(t)
	w.say("m1", "ann", event.CreatedByUser, "my password is 1234")
	w.decided("audit let the message pass")
	w.say("m1", "ann", event.CreatedByUser, "my password is …")
	w.decided("guard replaced the message")
	w.say("m2", "demo", event.CreatedByAgent, "hello, ann")
	w.decided("guard responded in place of the message")
	out := w.ok("show", "t1")
	_, messages, _ := strings.Cut(out, "\n\n")
	require.Equal(t, `ann › my password is …
  ⤷ audit let the message pass
  ⤷ guard replaced the message
demo › hello, ann
  ⤷ guard responded in place of the message
`, messages)

	_, out, _ = w.run("", "show", "t1", "--json")
	var all struct {
		Messages  []event.Message
		Decisions []struct {
			Seq    int64
			Detail string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Equal(t, "my password is …", all.Messages[0].Content)
	require.Len(t, all.Decisions, 3)
	require.EqualValues(t, 4, all.Decisions[1].Seq)
	require.Equal(t, "guard replaced the message", all.Decisions[1].Detail)
}

// TestShowDeciding: while hooks decide, show names them, the event, and where to look.
func TestShowDeciding(t *testing.T) {
	w := newWorld(t)
	w.state.Status = signals.ThreadRunning
	w.state.Turn = &signals.TurnState{
		EventID:  "e1",
		Runs:     []signals.RunState{{Agent: "demo", Step: 1, Doing: "hooks", Tools: []string{"note"}}},
		Deciding: []signals.Deciding{{EventID: "e1.0.1.calls", EventType: "tool_call", Hooks: []string{"guard", "audit"}, WorkflowID: "hook/default/t1/e1.0.1.calls"}},
	}
	out := w.ok("show", "t1")
	require.Equal(t, `thread t1 · running · demo
  demo: step 1, hooks (note)
  waits for hooks: guard, audit on tool_call e1.0.1.calls (workflow hook/default/t1/e1.0.1.calls)
  waiting: 0 events, 0 approvals · tokens: 0 in (0 cached, 0 written to the cache), 0 out, 0 model calls · history: 0 events
`, out)
}

func TestWatchDecisions(t *testing.T) {
	w := newWorld(t)
	w.reply("e1", "it is 1234")
	w.record(event.AgentEvent{Type: event.EventMessage, Message: w.redacted("e1")})
	w.decided("guard replaced the message")
	w.record(event.AgentEvent{Type: event.EventStatus, Status: &event.StatusChange{Status: event.StatusClosed}})
	out := w.ok("watch", "t1")
	require.Equal(t, `demo › it is 1234
↻ demo › it is …
  ⤷ guard replaced the message
· thread closed
`, out)
}

func TestChatShowsWhatHooksChanged(t *testing.T) {
	t.Run("over pipes, before it leaves", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(false, "chat", "t1")
		p.types("redact 1234\n")
		require.NoError(t, p.in.Close())
		p.shows("demo › it is 1234\n")
		w.finishRedacted()
		p.exits(exitOK)
		_, out, _ := strings.Cut(p.out.String(), "\n")
		require.Equal(t, `ann › redact 1234
↻ ann › redact …
  ⤷ guard replaced the message
demo › it is 1234
↻ demo › it is …
  ⤷ guard replaced the message
come back with: starter chat t1 --api `+w.url+"\n", out)
	})
	t.Run("on a terminal", func(t *testing.T) {
		w := newWorld(t)
		p := w.start(true, "chat", "t1")
		p.types("redact 1234\n")
		p.shows("demo › it is 1234\n")
		w.finishRedacted()
		p.shows("↻ demo › it is …\n  ⤷ guard replaced the message\n› ")
		p.types("/quit\n")
		p.exits(exitOK)
		require.NotContains(t, p.out.String(), "ann › redact 1234", "the terminal has echoed it")
		require.Contains(t, p.out.String(), "↻ ann › redact …\n  ⤷ guard replaced the message\n")
	})
	t.Run("also when it comes back", func(t *testing.T) {
		w := newWorld(t)
		w.say("m1", "ann", event.CreatedByUser, "my password is 1234")
		w.reply("e1", "it is 1234")
		w.say("m1", "ann", event.CreatedByUser, "my password is …")
		w.decided("guard replaced the message")
		w.record(event.AgentEvent{Type: event.EventMessage, Message: w.redacted("e1")})
		w.decided("redact replaced the message")
		p := w.start(true, "chat", "t1")
		p.shows("⤷ redact replaced the message\n")
		p.types("/quit\n")
		p.exits(exitOK)
		require.NotContains(t, p.out.String(), "1234", "what was replaced is not shown to those who are not available yet")
		require.Equal(t, 1, strings.Count(p.out.String(), "my password is …"), p.out.String())
		require.Equal(t, 1, strings.Count(p.out.String(), "it is …"))
	})
}
