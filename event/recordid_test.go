package event_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

// TestRecordIDs pins the ids that are in stores: records of running threads are found by them.
func TestRecordIDs(t *testing.T) {
	reply := event.ReplyID(event.TurnID("e1", 2), 0, 1)
	for want, got := range map[string]string{
		"e1": event.TurnID("e1", 0), "e1~2": event.TurnID("e1", 2), "e1~2.0.1": reply,
		"e1~2.0.1.calls": event.CallsID(reply), "e1~2.0.1.final": event.FinalID(reply), "e1~2.0.1.llm": event.LLMCallID(reply),
		"e1.turn_ended": event.TurnEndedID("e1"), "e1.hook": event.InterceptionID("e1"), "c1.result": event.ResultID("c1"),
		"c1.decision": event.DecisionID("c1", event.FirstRound), "c1.decision.2": event.DecisionID("c1", 2), "c1.decision.2.vote.1": event.VoteID("c1", 2, 1),
		"c1.request":    event.RequestID(event.ApprovalRequest{ToolCallID: "c1"}),
		"c1.request.2":  event.RequestID(event.ApprovalRequest{ToolCallID: "c1", Round: 2}),
		"c1.reminder.1": event.RequestID(event.ApprovalRequest{ToolCallID: "c1", Round: 2, Reminder: 1}),
	} {
		require.Equal(t, want, got)
	}
	got, ok := event.ReplyOfCalls(event.CallsID(reply))
	require.True(t, ok)
	require.Equal(t, reply, got)
	_, ok = event.ReplyOfCalls("e1")
	require.False(t, ok)
	require.Equal(t, reply, event.ReplyOfFinal(event.FinalID(reply)))
}
