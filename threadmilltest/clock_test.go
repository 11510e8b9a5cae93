package threadmilltest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/threadmilltest"
)

// expiring asks for approval of refunds, within a day.
var expiring = []approval.Rule{{
	Name: "money", Tools: []string{"refund"}, Effect: approval.EffectAsk,
	Terms: approval.Terms{Expires: 24 * time.Hour, Remind: 10 * time.Hour},
}}

func TestAdvanceExpiresApprovals(t *testing.T) {
	t.Parallel()
	cfg := desk(scripted.New(scripted.Call("refund", order{"A-1", 20}), scripted.Say("Nobody has decided.")))
	cfg.ApprovalRules = expiring
	rt := threadmilltest.New(t, cfg)
	turn := rt.Say("t1", "Please pay back A-1.")
	rt.WaitForApproval("t1")
	rt.Advance("t1", 23*time.Hour)
	require.Len(t, rt.WaitForApprovals("t1", 1), 1, "an hour is left")
	rt.Advance("t1", time.Hour)
	require.Equal(t, "Nobody has decided.", rt.Wait(turn).Message.Content)
	require.Equal(t, ``, rt.Transcript("t1"))
}
