package aisdk_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/aisdk"
	"github.com/threadmill/threadmill/internal/chat/chattest"
)

// TestStreamsEqualSnapshots: however often its stream is cut, resumed and continued, a client has in the end what one has that
// loads the message.
func TestStreamsEqualSnapshots(t *testing.T) {
	for seed := range uint64(3000) {
		version := 6 + int(seed%2)
		random := rand.New(rand.NewPCG(seed, 1))
		a := chattest.NewAuthor(random)
		cfg := aisdk.Config{ThreadID: "t", EventID: "e", MessageID: "e", Static: []string{"known"}, Version: version}
		c := chattest.Read(chattest.Asked("e"))
		m := c.Answer("e")
		encoder, reader := aisdk.New(cfg), newClient(version)
		fail := func(err error) { require.NoError(t, err, "seed %d, of version %d", seed, version) }
		for range 5 + random.IntN(60) {
			for _, e := range a.Next() {
				chattest.Apply(c, e)
			}
			switch random.IntN(6) {
			case 0: // cut, and resumed
				encoder = aisdk.New(cfg)
				reader.begin(true)
				fail(reader.read(encoder.Begin()))
				fail(reader.read(encoder.Sync(m)))
			case 1: // continued, by a client that loaded the message
				if !spoken(m) {
					break
				}
				encoder = aisdk.New(cfg)
				reader.begin(true)
				reader.parts = copies(aisdk.Snapshot(cfg, m).Parts)
				encoder.Assume(m, nil)
			case 2, 3:
				fail(reader.read(encoder.Sync(m)))
			}
		}
		fail(reader.read(encoder.Sync(m)))
		chattest.Apply(c, chattest.Ended("completed", ""))
		fail(reader.read(encoder.Sync(m)))
		fail(reader.read(encoder.End(m)))
		require.Equal(t, lines(aisdk.Snapshot(cfg, m).Parts, version >= 7), reader.has(), "seed %d, of version %d", seed, version)
	}
}

// spoken reports whether nothing is being said: a stream does not continue in the middle of a text.
func spoken(m *chat.Message) bool {
	for _, p := range m.Parts {
		if text, is := p.(*chat.Text); is && !text.Done {
			return false
		}
	}
	return true
}

func copies(parts []*aisdk.UIPart) []*aisdk.UIPart {
	out := make([]*aisdk.UIPart, len(parts))
	for i, p := range parts {
		one := *p
		out[i] = &one
	}
	return out
}

// TestClaimsAreCorrected: whatever a client believes of its calls, it has what is true in the end.
func TestClaimsAreCorrected(t *testing.T) {
	yes, no := true, false
	beliefs := []aisdk.UIPart{
		{State: "approval-responded", Approval: &aisdk.UIApproval{ID: "c", Approved: &yes}},
		{State: "approval-responded", Approval: &aisdk.UIApproval{ID: "c", Approved: &no}},
		{State: "output-available", Output: []byte(`"mine"`)},
		{State: "output-error", ErrorText: "mine"},
		{State: "input-available"},
	}
	vote := chattest.Decision("c", event.DecisionApprove, 0)
	vote.Approval.Missing = 1
	for name, since := range map[string][]event.AgentEvent{
		"nothing":         nil,
		"a vote":          {vote},
		"an approval":     {chattest.Decision("c", event.DecisionApprove, 0)},
		"its run":         {chattest.Decision("c", event.DecisionApprove, 0), chattest.ForClient("c")},
		"its result":      {chattest.Decision("c", event.DecisionApprove, 0), chattest.Result("c", "x")},
		"a denial":        {chattest.Decision("c", event.DecisionDeny, 0), chattest.Result("c", "denied")},
		"another round":   {chattest.Decision("c", event.DecisionApprove, 0), chattest.Request("c", 2)},
		"an early end":    {chattest.Ended("interrupted", "")},
		"another reply":   {chattest.Decision("c", event.DecisionApprove, 0), chattest.Result("c", "x"), chattest.Said("s", "bot", "done")},
		"an input":        {chattest.Decision("c", event.DecisionApprove, 0), chattest.Question("c", 1)},
		"an answer to it": {chattest.Decision("c", event.DecisionApprove, 0), chattest.Question("c", 1), chattest.Answer("c", 1)},
	} {
		for i, belief := range beliefs {
			for _, version := range []int{6, 7} {
				t.Run(fmt.Sprintf("%s, belief %d, version %d", name, i, version), func(t *testing.T) {
					cfg := aisdk.Config{ThreadID: "t", EventID: "e", MessageID: "e", Version: version}
					c := chattest.Read(chattest.Asked("e"), chattest.Said("r", "bot", "a"), chattest.Call("r", "c", "f"), chattest.Request("c", 0))
					m := c.Answer("e")
					reader := newClient(version)
					reader.parts = copies(aisdk.Snapshot(cfg, m).Parts)
					has := reader.parts[3]
					require.Equal(t, "c", has.ToolCallID)
					belief.ToolCallID = "c"
					has.State, has.Approval, has.Output, has.ErrorText = belief.State, belief.Approval, belief.Output, belief.ErrorText
					encoder := aisdk.New(cfg)
					encoder.Assume(m, []aisdk.UIPart{belief})
					for _, e := range since {
						chattest.Apply(c, e)
					}
					require.NoError(t, reader.read(encoder.Sync(m)))
					require.NoError(t, reader.read(encoder.Correct(m)))
					if m.Over() {
						require.NoError(t, reader.read(encoder.End(m)))
					}
					require.Equal(t, lines(aisdk.Snapshot(cfg, m).Parts, version >= 7), reader.has())
				})
			}
		}
	}
}
