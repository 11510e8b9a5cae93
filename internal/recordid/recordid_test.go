package recordid_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
)

// TestRecordIDs pins the ids that are in stores: records of running threads are found by them.
func TestRecordIDs(t *testing.T) {
	reply := recordid.Reply(recordid.Turn("e1", 2), 0, 1)
	for want, got := range map[string]string{
		"e1": recordid.Turn("e1", 0), "e1~2": recordid.Turn("e1", 2), "e1~2.0.1": reply,
		"e1~2.0.1.calls": recordid.Calls(reply), "e1~2.0.1.final": recordid.Final(reply), "e1~2.0.1.llm": recordid.LLMCall(reply),
		"e1.turn_ended": recordid.TurnEnded("e1"), "e1.hook": recordid.Interception("e1"), "c1.result": recordid.Result("c1"),
		"c1.decision": recordid.Decision("c1", event.FirstRound), "c1.decision.2": recordid.Decision("c1", 2), "c1.decision.2.vote.1": recordid.Vote("c1", 2, 1),
		"c1.request":    recordid.Request(event.ApprovalRequest{ToolCallID: "c1"}),
		"c1.request.2":  recordid.Request(event.ApprovalRequest{ToolCallID: "c1", Round: 2}),
		"c1.reminder.1": recordid.Request(event.ApprovalRequest{ToolCallID: "c1", Round: 2, Reminder: 1}),
	} {
		require.Equal(t, want, got)
	}
	got, ok := recordid.ReplyOfCalls(recordid.Calls(reply))
	require.True(t, ok)
	require.Equal(t, reply, got)
	_, ok = recordid.ReplyOfCalls("e1")
	require.False(t, ok)
	call, ok := recordid.CallOfResult("c1.result")
	require.True(t, ok)
	require.Equal(t, "c1", call)
	require.Equal(t, reply, recordid.ReplyOfFinal(recordid.Final(reply)))
}
