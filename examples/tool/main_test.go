package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/threadmilltest"
)

// TestRefunds runs the application with a scripted model: the program's own decides which order is paid back.
func TestRefunds(t *testing.T) {
	t.Parallel()
	rt := threadmilltest.New(t, threadmilltest.Scripted(configuration(nil), scripted.New(
		scripted.Call("refund", order{"A-1", 20}).And("refund", order{"A-2", 900}).On("both"),
		scripted.Say("A-1 is paid back; A-2 needs a manager."),
	)))
	turn := rt.Say("t1", "Please pay back both orders.")
	rt.WaitForApprovals("t1", 2)
	require.NoError(t, decide(t.Context(), rt.Client(), turn, 2))
	require.Equal(t, "A-1 is paid back; A-2 needs a manager.", rt.Wait(turn).Message.Content)
	rt.Golden("t1", "testdata/refunds.txt")
}

// TestRefundNeedsApproval needs no server.
func TestRefundNeedsApproval(t *testing.T) {
	verdict := threadmilltest.Policy(t, configuration(nil), "clerk", "refund", order{"A-1", 20})
	require.Equal(t, approval.EffectAsk, verdict.Effect)
	require.Equal(t, "moves money", verdict.Reason)
	result, err := threadmilltest.CallTool(t, refund, order{"A-1", 20})
	require.NoError(t, err)
	require.Equal(t, "paid back 20 euros for A-1", result.Output)
}
