package threadmilltest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/threadmilltest"
	"github.com/threadmill/threadmill/tool"
)

type order struct {
	ID    string `json:"id"`
	Euros int    `json:"euros"`
}

var refund = tool.MustFunc("refund", "Pays back an order.", func(_ context.Context, _ tool.Call, in order) (string, error) {
	return fmt.Sprintf("paid back %d euros for %s", in.Euros, in.ID), nil
}, tool.NeedsApproval("moves money"))

func desk(model llm.Provider) threadmill.Config {
	return threadmill.Config{
		Models: map[string]llm.Provider{"scripted": model},
		Tools:  []tool.Tool{refund},
		Agents: []agent.Agent{{Name: "clerk", Model: "scripted/clerk", Tools: []string{"refund"}}},
	}
}

func TestRefund(t *testing.T) {
	t.Parallel()
	rt := threadmilltest.New(t, desk(scripted.New(scripted.Call("refund", order{"A-1", 20}), scripted.Say("You get 20 euros back."))))
	start := time.Now()
	turn := rt.Say("t1", "Please pay back A-1.")
	rt.Approve("t1", rt.WaitForApproval("t1"))
	require.Equal(t, "You get 20 euros back.", rt.Wait(turn).Message.Content)
	t.Log(time.Since(start))
	t.Log("\n" + rt.Transcript("t1"))
}
