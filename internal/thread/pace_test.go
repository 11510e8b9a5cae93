package thread

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
)

func TestPace(t *testing.T) {
	for name, tc := range map[string]struct {
		took []int64
		want bool
	}{
		"nothing is known":            {nil, false},
		"it was quick":                {[]int64{5}, true},
		"it took a second":            {[]int64{1000}, true},
		"it took more":                {[]int64{1001}, false},
		"it was slow once":            {[]int64{3000, 5, 5}, false},
		"three were quick since then": {[]int64{3000, 5, 5, 5}, true},
		"steps must be activities":    {[]int64{0}, false},
		"they must be from now on":    {[]int64{5, 5, 0}, false},
		"they may be local again":     {[]int64{3000, 0, 5}, true},
		"a result was found":          {[]int64{5, step.TookUnknown}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pace
			for _, ms := range tc.took {
				p.Took("model", ms)
			}
			require.Equal(t, tc.want, p.Quick("model"))
			require.False(t, p.Quick("another"))
		})
	}
	t.Run("a thread inherits the kinds that it knows nothing of", func(t *testing.T) {
		var other, p Pace
		for kind, ms := range map[string]int64{"quick": 5, "slow": 3000, "known": 5} {
			other.Took(kind, ms)
		}
		p.Took("known", 3000)
		p.Inherit(other.QuickSteps())
		require.True(t, p.Quick("quick"))
		require.False(t, p.Quick("slow"))
		require.False(t, p.Quick("known"))
		p.Took("quick", 3000)
		require.True(t, other.Quick("quick"), "the other thread has its own")
	})
	t.Run("the state keeps those that were used last", func(t *testing.T) {
		var p Pace
		for i := range maxPaced {
			p.Took(fmt.Sprint(i), 1)
		}
		p.Took("0", 1)
		p.Took("new", 1)
		require.Len(t, p.Steps, maxPaced)
		require.True(t, p.Quick("0"))
		require.False(t, p.Quick("1"))
	})
}

// TestPaceOfSteps: the kind of a model call is its agent and the model that a hook has chosen; that of a tool is its name.
func TestPaceOfSteps(t *testing.T) {
	s := newState()
	r := begin(t, s, "e1", "hello").Runs[0]
	require.False(t, s.Pace.Quick(r.ModelKind("")))
	r.Replied(t0, step.ModelReply{Agent: "assistant", Underway: step.Underway{Took: 5}, Calls: []step.PlannedCall{{ID: "c1", Name: "note"}}})
	require.True(t, s.Pace.Quick(r.ModelKind("")), "the default agent has its name now")
	require.Empty(t, r.ModelKind("limited"), "a provider with a task queue of its own")
	r.Outage = &event.Retry{}
	require.Empty(t, r.ModelKind(""), "a repeated call")
	r.Outage, r.Next = nil, &event.LLMCallEvent{Model: "fake/large"}
	require.False(t, s.Pace.Quick(r.ModelKind("")), "another model")

	c := &Call{run: r, Plan: step.PlannedCall{ID: "c1", Name: "note"}}
	c.CallRan(step.ToolReply{ToolCallID: "c1", Status: "succeeded", Underway: step.Underway{Took: 7}})
	require.True(t, s.Pace.Quick(c.Kind()))
	c.Plan.TaskQueue = "gpu"
	require.Empty(t, c.Kind(), "a tool with a task queue of its own")
}
