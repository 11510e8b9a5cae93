package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/server"
)

// of makes a record of a message under the message's id.
func of(m event.Message) event.Record {
	return event.NewRecord(m.ID, event.TypeMessage, "trace", "", time.Unix(1700000000, 0), m)
}

func decided(on string, d event.Interception) event.Record {
	d.EventID, d.EventType = on, event.TypeMessage
	return event.NewRecord(recordid.Interception(on), event.TypeHook, "trace", on, time.Unix(1700000001, 0), d)
}

func agentSays(id, content string, held bool) event.Message {
	return event.Message{
		ID: id, ThreadID: "t1", SenderID: "bot", SenderType: event.CreatedByAgent, Role: event.RoleAssistant, Content: content, AgentID: "bot", Held: held,
	}
}

// decisions is a thread in which hooks have decided on most messages, the first of
// which they decided on last.
func decisions() []event.Record {
	asked := event.Message{ID: "m1", ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: "my password is 1234"}
	redacted, passed := asked, agentSays("m4", "let out", false)
	redacted.Content = "my password is …"
	return []event.Record{
		of(asked),
		of(agentSays("m2", "a secret", true)),
		of(agentSays("m3", "another secret", true)),
		of(agentSays("m4", "let out", true)),
		of(agentSays("m5", "as it was", false)),
		of(agentSays("m6", "not decided", true)),
		decided("m2", event.Interception{Outcome: event.OutcomeResponded, Hooks: []event.HookOutcome{{Name: "guard", Outcome: event.OutcomeResponded}}}),
		decided("m3", event.Interception{Outcome: event.OutcomeOverwritten}),
		decided("m4", event.Interception{Outcome: event.OutcomePassed, Message: &passed}),
		// No hook had a say: this one is for models only.
		decided("m5", event.Interception{Outcome: event.OutcomePassed}),
		decided("m1", event.Interception{Outcome: event.OutcomeReplaced, Message: &redacted, Hooks: []event.HookOutcome{{Name: "guard", Outcome: event.OutcomeReplaced}}}),
	}
}

func TestMessagesAsHooksHaveLeftThem(t *testing.T) {
	w := newWorld(t)
	w.open("t1")
	w.put("t1", decisions()...)
	want := []string{"1 my password is …", "4 let out", "5 as it was"}
	for limit := 1; limit <= 7; limit++ {
		var got []string
		path := fmt.Sprintf("/v1/threads/t1/messages?limit=%d", limit)
		for at := path; at != ""; {
			page := w.call("GET", at, nil).ok(t, http.StatusOK)
			assert.NotContains(t, page.text, "secret")
			assert.NotContains(t, page.text, "1234")
			assert.NotContains(t, page.text, `"held"`)
			list := page.body["messages"].([]any)
			require.LessOrEqual(t, len(list), limit)
			for _, m := range list {
				got = append(got, fmt.Sprintf("%v %s", m.(object)["seq"], m.(object)["content"]))
			}
			at = ""
			if next, more := page.body["next"]; more {
				at = path + "&cursor=" + next.(string)
			}
		}
		assert.Equal(t, want, got, "pages of %d", limit)
	}
}

// dateless are the data of events without their times.
func dateless(events []seen) []string {
	out := data(events)
	for i := range out {
		out[i] = regexp.MustCompile(`,"createdAt":"[^"]*"`).ReplaceAllString(out[i], "")
	}
	return out
}

func TestDecisionsOnTheWire(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.Heartbeat = 20 * time.Millisecond })
	w.open("t1")
	live := w.watch("t1", "", "")
	for _, r := range decisions() {
		w.put("t1", r)
	}
	w.append("t1", closedBatch())
	got := live.rest()
	assert.Equal(t, []string{
		`{"type":"message","messageId":"m1","message":{"id":"m1","threadId":"t1","senderId":"ann","senderType":"user","role":"user","content":"my password is 1234"}}`,
		`{"type":"message","messageId":"m5","agent":"bot","message":{"id":"m5","threadId":"t1","senderId":"bot","senderType":"agent","role":"assistant","content":"as it was","agentId":"bot"}}`,
		`{"type":"status","status":{"status":"intercepted","detail":"guard responded in place of the message"}}`,
		`{"type":"status","status":{"status":"intercepted","detail":"hooks made other events of the message"}}`,
		`{"type":"message","messageId":"m4","agent":"bot","message":{"id":"m4","threadId":"t1","senderId":"bot","senderType":"agent","role":"assistant","content":"let out","agentId":"bot"}}`,
		`{"type":"status","status":{"status":"intercepted","detail":"hooks let the message pass"}}`,
		`{"type":"message","messageId":"m1","message":{"id":"m1","threadId":"t1","senderId":"ann","senderType":"user","role":"user","content":"my password is …"}}`,
		`{"type":"status","status":{"status":"intercepted","detail":"guard replaced the message"}}`,
		`{"type":"status","status":{"status":"closed"}}`,
	}, dateless(got), "live")
	for _, i := range []int{4, 6} {
		assert.Contains(t, got[i].data, `"createdAt":"2023-11-14T22:13:20Z"}}`, "a message that was changed keeps its own time")
	}
	assert.Equal(t, data(got), data(w.watch("t1", "", "").rest()), "on replay")
	for i, e := range got[:len(got)-1] {
		assert.Equal(t, data(got[i+1:]), data(w.watch("t1", "", e.id).rest()), "resumed at %s", e.id)
	}
	page := w.call("GET", "/v1/threads/t1/events", nil)
	assert.Len(t, page.body["events"], len(got))
}
