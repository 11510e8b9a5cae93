package thread

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

func TestPostRefused(t *testing.T) {
	message := func(raw string) signals.Post { return signals.Post{ID: "e1", Payload: json.RawMessage(raw)} }
	custom := func(change func(*signals.Post)) signals.Post {
		p := signals.Post{ID: "e1", Type: "file.changed", Payload: json.RawMessage(`{}`)}
		change(&p)
		return p
	}
	for _, tc := range []struct {
		name  string
		post  signals.Post
		field string
	}{
		{"id with a dot", says("e.1", "x"), "id"},
		{"id too long", says(strings.Repeat("a", 129), "x"), "id"},
		{"S0-03 no payload", signals.Post{ID: "e1"}, "payload"},
		{"S0-03 payload null", message(`null`), "payload.threadId"},
		{"S0-03 payload not an object", message(`"hello"`), "payload"},
		{"unknown field", message(`{"threadId":"t1","senderId":"a","senderType":"user","content":"x","contnet":"y"}`), "payload.contnet"},
		{"S0-03 no threadId", message(`{"senderId":"a","senderType":"user","content":"x"}`), "payload.threadId"},
		{"S0-03 no senderId", message(`{"threadId":"t1","senderType":"user","content":"x"}`), "payload.senderId"},
		{"S0-03 no senderType", message(`{"threadId":"t1","senderId":"a","content":"x"}`), "payload.senderType"},
		{"S0-03 no content", message(`{"threadId":"t1","senderId":"a","senderType":"user"}`), "payload.content"},
		{"another thread", message(`{"threadId":"t2","senderId":"a","senderType":"user","content":"x"}`), "payload.threadId"},
		{"too large", message(`"` + strings.Repeat("x", signals.MaxPayload) + `"`), "payload"},
		{"ttl negative", custom(func(p *signals.Post) { p.TTL = -1 }), "ttl"},
		{"ttl beyond a duration", custom(func(p *signals.Post) { p.TTL = math.MaxInt64 }), "ttl"},
		{"onBusy unknown", custom(func(p *signals.Post) { p.OnBusy = "shout" }), "onBusy"},
		{"traceId that no store takes", custom(func(p *signals.Post) { p.TraceID = "a\x00b" }), "traceId"},
		{"parentEventId that no store takes", custom(func(p *signals.Post) { p.ParentEventID = "\xff" }), "parentEventId"},
		{"type too long", custom(func(p *signals.Post) { p.Type = strings.Repeat("x", 129) }), "type"},
		{"type that no store takes", custom(func(p *signals.Post) { p.Type = "a\x00" }), "type"},
		{"payload that is not JSON", custom(func(p *signals.Post) { p.Payload = json.RawMessage(`{`) }), "payload"},
		{"S2-02 token", custom(func(p *signals.Post) { p.Type = event.TypeToken }), "type"},
		{"reserved llm_call", custom(func(p *signals.Post) { p.Type = event.TypeLLMCall }), "type"},
		{"reserved tool_call", custom(func(p *signals.Post) { p.Type = event.TypeToolCall }), "type"},
		{"reserved approval_request", custom(func(p *signals.Post) { p.Type = event.TypeApprovalRequest }), "type"},
		{"reserved approval", custom(func(p *signals.Post) { p.Type = event.TypeApproval }), "type"},
		{"reserved status", custom(func(p *signals.Post) { p.Type = event.TypeStatus }), "type"},
		{"reserved final", custom(func(p *signals.Post) { p.Type = event.TypeFinal }), "type"},
		{"reserved error", custom(func(p *signals.Post) { p.Type = event.TypeError }), "type"},
		{"reserved rejected", custom(func(p *signals.Post) { p.Type = event.TypeRejected }), "type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			before := asJSON(t, s)
			_, err := postAt(s, t0, tc.post)
			requireField(t, tc.field, err)
			require.ErrorIs(t, err, event.ErrInvalid)
			require.Equal(t, before, asJSON(t, s), "a refused post changes nothing")
		})
	}
}

func TestRecordIDsOfApprovals(t *testing.T) {
	request := func(round, reminder int) string {
		return recordid.Request(event.ApprovalRequest{ToolCallID: "c1", Round: round, Reminder: reminder})
	}
	require.Equal(t, []string{"c1.request", "c1.request", "c1.request.2", "c1.reminder.1", "c1.reminder.3"},
		[]string{request(0, 0), request(1, 0), request(2, 0), request(0, 1), request(2, 3)})
	require.Equal(t, []string{"c1.decision", "c1.decision", "c1.decision.2"},
		[]string{recordid.Decision("c1", 0), recordid.Decision("c1", 1), recordid.Decision("c1", 2)})
}

func TestTermsOfARequest(t *testing.T) {
	expires := t0.Add(time.Hour)
	base := event.ApprovalRequest{
		ToolCallID: "c1", ToolName: "shell_cmd", Arguments: "{}", Agent: "alice", MessageID: "m1", Reason: "it is a shell", RequestedAt: t0,
		Digest: "digest of ls", Definition: "definition", WorkingDirectory: "/desk",
	}
	for name, tc := range map[string]struct {
		change func(*step.PlannedCall)
		want   func(*event.ApprovalRequest)
	}{
		"by whoever it may be": {func(*step.PlannedCall) {}, func(*event.ApprovalRequest) {}},
		"what is not known by a digest": {
			func(p *step.PlannedCall) { p.Guard = nil },
			func(q *event.ApprovalRequest) { q.Digest, q.Definition, q.WorkingDirectory = "", "", "" },
		},
		"no terms at all":    {func(p *step.PlannedCall) { p.Approval = nil }, func(*event.ApprovalRequest) {}},
		"one is as none":     {func(p *step.PlannedCall) { p.Approval.Quorum = 1 }, func(*event.ApprovalRequest) {}},
		"several":            {func(p *step.PlannedCall) { p.Approval.Quorum = 2 }, func(q *event.ApprovalRequest) { q.Quorum = 2 }},
		"certain people":     {func(p *step.PlannedCall) { p.Approval.Approvers = []string{"bea"} }, func(q *event.ApprovalRequest) { q.Approvers = []string{"bea"} }},
		"for a certain time": {func(p *step.PlannedCall) { p.Approval.Expires = time.Hour }, func(q *event.ApprovalRequest) { q.ExpiresAt = &expires }},
	} {
		t.Run(name, func(t *testing.T) {
			p, want := careful("c1", "ls", step.ApprovalPlan{}), base
			tc.change(&p)
			tc.want(&want)
			require.Equal(t, want, p.Request("alice", "m1", "{}", t0))
		})
	}
}

// TestWhatASubAgentIsAsked: what a call may ask arrives. What does not would be waited for
// in vain.
func TestWhatASubAgentIsAsked(t *testing.T) {
	for name, message := range map[string]string{
		"plain": "do it", "long": strings.Repeat("x", 128<<10), "markup": strings.Repeat("<", 128<<10/6),
		"control characters": strings.Repeat("\x01", 128<<10/6-1) + "x", "NUL": "a\x00b", "not UTF-8": "a\xffb",
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := tasking(t)
			c := of(s, subCall("c1"))
			c.Plan.SubAgent.Message = message
			id, start := c.Delegate()
			require.NoError(t, start.First.Validate(id))
		})
	}
}
