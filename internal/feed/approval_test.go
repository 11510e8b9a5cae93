package feed_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/testenv/feedtest"
)

// TestApprovalEvents covers every record of a call up to its run.
func TestApprovalEvents(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	later := at.Add(time.Hour)
	request := func(change func(*event.ApprovalRequest)) event.Record {
		r := event.ApprovalRequest{ToolCallID: "c", ToolName: "x", Arguments: "{}", Agent: "bot", RequestedAt: at}
		change(&r)
		return feedtest.Record(event.TypeApprovalRequest, r)
	}
	approval := func(change func(*event.Approval)) event.Record {
		a := event.Approval{ToolCallID: "c", ToolName: "x", Agent: "bot", Decision: event.DecisionApprove, Scope: event.ScopeOnce, By: "ann", DecidedAt: at}
		change(&a)
		return feedtest.Record(event.TypeApproval, a)
	}
	const (
		asked   = `{"type":"approval_request","agent":"bot","request":{"toolCallId":"c","toolName":"x","arguments":"{}","agent":"bot",`
		decided = `{"type":"approval","agent":"bot","approval":{"toolCallId":"c","toolName":"x","agent":"bot",`
		when    = `"requestedAt":"2023-11-14T22:13:20Z"`
	)
	for name, test := range map[string]struct {
		record event.Record
		want   string
	}{
		"S4-95 what is asked, of whom": {request(func(r *event.ApprovalRequest) {
			r.MessageID, r.WorkingDirectory, r.Digest, r.Definition = "m1", "/desk", "sha256:1", "sha256:2"
			r.Approvers, r.Quorum, r.ExpiresAt = []string{"ann", "bob"}, 2, &later
		}), strings.Replace(asked, `"agent"`, `"messageId":"m1","agent"`, 1) + `"messageId":"m1","workingDirectory":"/desk","digest":"sha256:1","definition":"sha256:2",` + when +
			`,"approvers":["ann","bob"],"quorum":2,"expiresAt":"2023-11-14T23:13:20Z"}}`},
		"S4-77 a reminder": {request(func(r *event.ApprovalRequest) {
			r.Reminder, r.Votes = 2, []event.Vote{{By: "ann", At: at}}
		}), asked + when + `,"votes":[{"by":"ann","at":"2023-11-14T22:13:20Z"}],"reminder":2}}`},
		"S4-79 another round": {request(func(r *event.ApprovalRequest) { r.Round = 2 }), asked + when + `,"round":2}}`},
		"S4-95 a vote": {
			approval(func(a *event.Approval) { a.Missing = 1 }),
			decided + `"decision":"approve","scope":"once","by":"ann","decidedAt":"2023-11-14T22:13:20Z","missing":1}}`,
		},
		"S4-95 a grant": {approval(func(a *event.Approval) {
			a.Scope, a.Digest, a.Pattern, a.Rest = event.ScopePattern, "sha256:1", map[string]string{"path": "docs/**"}, "sha256:3"
		}), decided + `"decision":"approve","scope":"pattern","by":"ann","decidedAt":"2023-11-14T22:13:20Z","digest":"sha256:1","pattern":{"path":"docs/**"},"rest":"sha256:3"}}`},
		"nobody has decided": {
			approval(func(a *event.Approval) { a.Decision, a.By = event.DecisionExpired, "threadmill" }),
			decided + `"decision":"expired","scope":"once","by":"threadmill","decidedAt":"2023-11-14T22:13:20Z"}}`,
		},
		"taken back": {
			approval(func(a *event.Approval) { a.Decision, a.By, a.Reason = event.DecisionRevoked, "bob", "too wide" }),
			decided + `"decision":"revoked","scope":"once","reason":"too wide","by":"bob","decidedAt":"2023-11-14T22:13:20Z"}}`,
		},
		"a call for a client": {feedtest.Record(event.TypeClientCall, event.ClientCall{
			ToolCallID: "c", ToolName: "camera", Arguments: "{}", Agent: "bot", MessageID: "m1", RequestedAt: at, ExpiresAt: later,
		}), `{"type":"client_call","agent":"bot","call":{"toolCallId":"c","toolName":"camera","arguments":"{}","agent":"bot","messageId":"m1",` +
			when + `,"expiresAt":"2023-11-14T23:13:20Z"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			events := feed.Events(test.record)
			require.Len(t, events, 1)
			assert.Equal(t, "c", events[0].ToolCallID)
			raw, err := json.Marshal(events[0])
			require.NoError(t, err)
			assert.Equal(t, test.want, feedtest.Undated(raw))
			var back event.AgentEvent
			require.NoError(t, json.Unmarshal(raw, &back), "a client can read it")
			again, err := json.Marshal(back)
			require.NoError(t, err)
			assert.Equal(t, test.want, feedtest.Undated(again))
		})
	}
	assert.Empty(t, feed.Events(event.Record{Type: event.TypeClientCall, Payload: json.RawMessage(`[]`)}), "what cannot be read is nothing")
}
