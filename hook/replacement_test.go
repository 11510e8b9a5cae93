package hook

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

func calls(ids ...string) event.ToolCallEvent {
	e := event.ToolCallEvent{ThreadID: "t1", AgentName: "clerk"}
	for _, id := range ids {
		e.ToolCalls = append(e.ToolCalls, event.ToolCall{ID: id, Function: event.Function{Name: "refund"}})
	}
	return e
}

func TestRefuse(t *testing.T) {
	seen := calls("c1", "c2")
	run := func(seen event.ToolCallEvent, change func(*event.ToolCallEvent)) (Answer, error) {
		return OnToolCall("guard", func(_ context.Context, c event.ToolCallEvent) (Result, error) {
			change(&c)
			return Replace(c), nil
		}).Run(t.Context(), seen, Deps{})
	}

	answer, err := run(seen, func(c *event.ToolCallEvent) {
		c.Refuse("c1", "twice")
		c.Refuse("c1", "again")
		c.Refuse("c9", "unknown")
	})
	require.NoError(t, err)
	require.Equal(t, event.OutcomeReplaced, answer.Outcome)
	refused := answer.Event.(event.ToolCallEvent)
	require.Equal(t, []event.Refusal{{ID: "c1", Reason: "twice"}}, refused.Refused)
	require.Equal(t, calls("c2").ToolCalls, refused.ToolCalls)
	require.Equal(t, calls("c1", "c2"), seen, "the event that it got remains")

	// Later hooks pass it, refuse another call, and forget the refusal.
	answer, err = run(refused, func(*event.ToolCallEvent) {})
	require.NoError(t, err)
	require.Equal(t, event.OutcomePassed, answer.Outcome)
	answer, err = run(refused, func(c *event.ToolCallEvent) { c.Refused = nil; c.Refuse("c2", "late") })
	require.NoError(t, err)
	require.ElementsMatch(t, []event.Refusal{{ID: "c1", Reason: "twice"}, {ID: "c2", Reason: "late"}}, answer.Event.(event.ToolCallEvent).Refused)

	for want, change := range map[string]func(*event.ToolCallEvent){
		"refused[0].reason: must be text of 1 to 4096 bytes":  func(c *event.ToolCallEvent) { c.Refuse("c1", " ") },
		"refused[0].reason: must be text":                     func(c *event.ToolCallEvent) { c.Refuse("c1", strings.Repeat("x", 4097)) },
		`refused[0].id: "c1" is not one of the event's calls`: func(c *event.ToolCallEvent) { c.Refused = []event.Refusal{{ID: "c1", Reason: "x"}} },
		`refused[0].id: "c9" is not one of`:                   func(c *event.ToolCallEvent) { c.Refused = []event.Refusal{{ID: "c9", Reason: "x"}} },
		`refused[1].id: "c1" is not one of`: func(c *event.ToolCallEvent) {
			c.Refuse("c1", "x")
			c.Refused = append(c.Refused, event.Refusal{ID: "c1", Reason: "y"})
		},
	} {
		_, err := run(seen, change)
		require.ErrorContains(t, err, want)
	}
}
