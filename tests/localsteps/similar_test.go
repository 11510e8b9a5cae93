package localsteps

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestStepsOfSimilarThreads: the first turn of a thread has no activity if the steps of a similar thread of its worker were quick.
func TestStepsOfSimilarThreads(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Agents: []agent.Agent{
		{Name: "assistant", Model: "openai/stand-in", Tools: []string{"note"}},
		{Name: "bob", Model: "openai/stand-in", Tools: []string{"note"}},
	}})
	// scheduled reports whether the first turn of a new thread had an activity.
	scheduled := func(agents ...string) bool {
		id := w.Open(agents...)
		w.SayBySignal(id, "use note {}")
		return check.Scheduled(check.Settle(w, id))
	}
	first := w.Open()
	check.Paced(w, first, func() { w.SayBySignal(first, "use note {}") })
	require.Eventually(t, func() bool { return !scheduled() }, testenv.Patience, testenv.Tick, "a busy machine may be slow, but not always")
	require.True(t, scheduled("bob"), "nothing is known of another agent")

	gate := w.Provider.Block(0)
	t.Cleanup(gate.Release)
	before := len(check.Settle(w, first))
	posted := w.Post(first, "hello")
	check.Arrives(t, gate.Reached(), "the model's reply")
	require.Eventually(t, func() bool { return check.Scheduled(check.HistoryOf(w, first, "")[before:]) }, testenv.Patience, testenv.Tick)
	gate.Release()
	w.Await(first, posted)
	require.True(t, scheduled(), "the model has become slow")
}
