package threadmilltest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/threadmilltest"
	"github.com/threadmill/threadmill/tool"
)

// The code of docs/testing.md.

type order struct {
	ID    string `json:"id"`
	Euros int    `json:"euros"`
}

var refund = tool.MustFunc("refund", "Pays back an order.", func(_ context.Context, _ tool.Call, in order) (string, error) {
	return fmt.Sprintf("paid back %d euros for %s", in.Euros, in.ID), nil
}, tool.NeedsApproval("moves money"))

func configuration() threadmill.Config {
	return threadmill.Config{
		Models: map[string]llm.Provider{"openai": nil}, // replaced in tests
		Tools:  []tool.Tool{refund},
		Agents: []agent.Agent{{Name: "clerk", Model: "openai/gpt-5.6-luna", Tools: []string{"refund"}}},
		ApprovalRules: []approval.Rule{{
			Name: "refunds", Tools: []string{"refund"}, Effect: approval.EffectAsk, Terms: approval.Terms{Expires: 24 * time.Hour},
		}},
	}
}

func TestRefund(t *testing.T) {
	t.Parallel()
	model := scripted.New(
		scripted.Call("refund", order{"A-1", 20}).On("A-1"),
		scripted.Say("You get 20 euros back."),
	)
	rt := threadmilltest.New(t, threadmilltest.Scripted(configuration(), model))

	turn := rt.Say("t1", "Please pay back A-1.")
	rt.Approve("t1", rt.WaitForApproval("t1"))
	require.Equal(t, "You get 20 euros back.", rt.Wait(turn).Message.Content)
	rt.Golden("t1", "testdata/refund.txt")
}

func TestNobodyDecides(t *testing.T) {
	t.Parallel()
	rt := threadmilltest.New(t, threadmilltest.Scripted(configuration(), scripted.New(
		scripted.Call("refund", order{"A-1", 20}),
		scripted.Say("Nobody had time for this. I will ask again tomorrow."),
	)))
	turn := rt.Say("t1", "Please pay back A-1.")
	rt.WaitForApproval("t1")
	rt.Advance("t1", 24*time.Hour)
	require.Contains(t, rt.Wait(turn).Message.Content, "Nobody had time")
}

func TestTwoMessagesAtOnce(t *testing.T) {
	t.Parallel()
	gate := scripted.NewGate()
	rt := threadmilltest.New(t, threadmilltest.Scripted(configuration(), scripted.New(
		scripted.Reply{Asked: "first", Text: "one", Hold: gate},
		scripted.Say("two").On("second"),
	)))
	first := rt.Say("t1", "the first message")
	<-gate.Reached() // the model is busy
	second := rt.Say("t1", "the second message")
	gate.Open()
	require.Equal(t, "one", rt.Wait(first).Message.Content)
	require.Equal(t, "two", rt.Wait(second).Message.Content)
}

// desk is the configuration of most tests.
func desk(model llm.Provider) threadmill.Config {
	return threadmill.Config{
		Models: map[string]llm.Provider{"scripted": model},
		Tools:  []tool.Tool{refund},
		Agents: []agent.Agent{{Name: "clerk", Model: "scripted/clerk", Tools: []string{"refund"}}},
	}
}
