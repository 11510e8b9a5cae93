package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/signals"
)

// TestRunBesideRequests: a client of AG-UI has to answer what its runs have asked before it posts. A sub-agent in the background asks in
// no run.
func TestRunBesideRequests(t *testing.T) {
	approval := event.ApprovalRequest{ToolCallID: "x1", ToolName: "rm", Agent: "bob", Arguments: "{}"}
	input := event.InputRequest{ToolCallID: "x2", ToolName: "book", Agent: "bob", Round: 1, Questions: []event.InputQuestion{{ID: "q", Kind: event.InputForm, Message: "When?"}}}
	for name, c := range map[string]struct {
		turn, interrupt string
		waiting         signals.Approvals
	}{
		"approval of a turn":         {"m0", "x1", signals.Approvals{Approvals: []event.ApprovalRequest{approval}}},
		"approval in the background": {"", "", signals.Approvals{Approvals: []event.ApprovalRequest{approval}}},
		"input of a turn":            {"m0", "x2.input.1", signals.Approvals{Inputs: []event.InputRequest{input}}},
		"input in the background":    {"", "", signals.Approvals{Inputs: []event.InputRequest{input}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.threads.known["t1"] = true
			w.threads.approvals.waiting = c.waiting
			first := record(event.TypeMessage, written("m0", "go"))
			first.ID = "m0"
			w.put("t1", first.In("m0"))
			for _, q := range c.waiting.Approvals {
				asks := record(event.TypeApprovalRequest, q)
				asks.ID = q.ToolCallID + ".request"
				w.put("t1", asks.In(c.turn))
			}
			for _, q := range c.waiting.Inputs {
				asks := record(event.TypeInputRequest, q)
				asks.ID = q.ToolCallID + ".input.1"
				w.put("t1", asks.In(c.turn))
			}
			w.threads.posted = func(_ string, p signals.Post) {
				m := record(event.TypeMessage, written(p.ID, "hello"))
				m.ID = p.ID
				w.put("t1", m.In(p.ID), replied("r1", "welcome").In(p.ID), record(event.TypeTurnEnded, event.TurnEnded{EventID: p.ID, Status: "completed"}).In(p.ID))
			}
			got := w.call("POST", "/v1/ag-ui", object{"threadId": "t1", "runId": "r", "messages": []object{{"id": "m1", "role": "user", "content": "hello"}}})
			require.Equal(t, 200, got.status, got.text)
			if c.interrupt != "" {
				assert.Contains(t, got.text, "answer the interrupt "+c.interrupt)
				assert.Empty(t, w.threads.posts)
				return
			}
			assert.NotContains(t, got.text, "RUN_ERROR")
			assert.Contains(t, got.text, "welcome")
		})
	}
}

// TestChatResultBehind: a chat's result of a tool counts also while the thread has yet to catch up with the call that the chat shows. Until
// it has, the chat is told to send it again.
func TestChatResultBehind(t *testing.T) {
	for name, c := range map[string]struct {
		ends         string
		status, sent int
	}{
		"the thread is behind": {"", http.StatusServiceUnavailable, 1},
		"too late":             {"c1.result", http.StatusOK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.open("t1")
			put := func(id string, r event.Record) {
				r.ID = id
				w.put("t1", r.In("m1"))
			}
			put("m1", record(event.TypeMessage, written("m1", "go")))
			put("c1.client", record(event.TypeClientCall, event.ClientCall{ToolCallID: "c1", ToolName: "camera", Agent: "bot", Arguments: "{}"}))
			if c.ends != "" {
				put(c.ends, replied(c.ends, "too slow"))
			}
			put("m1.turn_ended", record(event.TypeTurnEnded, event.TurnEnded{EventID: "m1", Status: "completed"})) // so that the stream ends
			w.threads.approvals.refusing = signals.ErrEarly
			got := w.call("POST", "/v1/chat", object{"id": "t1", "messages": []object{{"id": chat.AnswerID("m1"), "role": "assistant", "parts": []object{
				{"type": "tool-camera", "toolCallId": "c1", "state": "output-available", "input": object{}, "output": "a photo"},
			}}}})
			require.Equal(t, c.status, got.status, got.text)
			require.Len(t, w.threads.approvals.results, c.sent)
			if c.sent > 0 {
				require.Equal(t, "1", got.header.Get("Retry-After"))
			}
		})
	}
}
