package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/signals"
)

// full has one of everything.
func full() *known {
	return &known{
		ended: []string{"e1", "e2"}, open: []signals.Post{{ID: "e3"}}, changed: []string{"title", "agents"}, lost: []string{"what is lost"}, failed: 2,
		decisions: []signals.Decide{{ToolCallID: "c1", By: "ann"}}, results: []signals.ToolResult{{ToolCallID: "c2", Output: "x"}}, inputs: []signals.InputAnswers{{ToolCallID: "c3"}},
		tasks: []signals.CompleteTask{{TaskID: "t~t1"}}, interrupts: []signals.Control{{EventID: "e4"}}, subs: []signals.RestoredSubAgent{{ToolCallID: "c4", ThreadID: "t.s1"}},
		taskNumber: 7, childNumber: 8,
	}
}

// TestDifferences: everything that a thread is told is in the report, and the other way round.
func TestDifferences(t *testing.T) {
	kinds := map[repair.Kind]int{}
	for _, d := range full().differences() {
		require.Equal(t, repair.Temporal, d.In)
		require.Equal(t, d.Kind == repair.Lost, d.Action == "", "what is lost, nothing mends: %s", d.Detail)
		kinds[d.Kind] += d.Count
	}
	require.Equal(t, map[repair.Kind]int{repair.Events: 2, repair.Turns: 3, repair.Answers: 3, repair.Tasks: 1, repair.Row: 2, repair.Lost: 3}, kinds)
	require.Equal(t, signals.Restore{
		Known: []string{"e1", "e2"}, Posts: []signals.Post{{ID: "e3"}}, Decisions: []signals.Decide{{ToolCallID: "c1", By: "ann"}},
		Results: []signals.ToolResult{{ToolCallID: "c2", Output: "x"}}, Inputs: []signals.InputAnswers{{ToolCallID: "c3"}}, Tasks: []signals.CompleteTask{{TaskID: "t~t1"}},
		Interrupts: []signals.Control{{EventID: "e4"}}, SubAgents: []signals.RestoredSubAgent{{ToolCallID: "c4", ThreadID: "t.s1"}}, TaskNumber: 7, ChildNumber: 8,
	}, full().restore())
	require.Equal(t, "3 events, 1 of them with turns that have not ended", full().describe())

	t.Run("failed events alone are no difference", func(t *testing.T) {
		k := &known{failed: 2, taskNumber: 1, childNumber: 1}
		require.True(t, k.empty())
		require.Empty(t, k.differences())
	})
	t.Run("what is lost is reported even if nothing is to be told", func(t *testing.T) {
		k := &known{lost: []string{"x"}}
		require.Equal(t, []repair.Difference{{Kind: repair.Lost, In: repair.Temporal, Count: 1, Detail: "x"}}, k.differences())
	})
	t.Run("each part alone is a difference", func(t *testing.T) {
		for _, k := range []*known{
			{ended: full().ended},
			{open: full().open},
			{changed: full().changed},
			{decisions: full().decisions},
			{results: full().results},
			{inputs: full().inputs},
			{tasks: full().tasks},
			{interrupts: full().interrupts},
			{subs: full().subs},
		} {
			require.False(t, k.empty(), "%+v", k)
			require.Len(t, k.differences(), 1, "%+v", k)
		}
	})
}

// TestTold: a repair that was killed tells only what it has not told.
func TestTold(t *testing.T) {
	t.Run("all of it", func(t *testing.T) {
		k := full()
		k.told(k.restore())
		require.Equal(t, &known{
			ended: []string{}, open: []signals.Post{}, changed: k.changed, lost: k.lost, failed: 2, decisions: []signals.Decide{}, results: []signals.ToolResult{},
			inputs: []signals.InputAnswers{}, tasks: full().tasks, interrupts: full().interrupts, subs: []signals.RestoredSubAgent{}, taskNumber: 7, childNumber: 8,
		}, k)
	})
	t.Run("a part of it", func(t *testing.T) {
		k := full()
		k.told(signals.Restore{
			Known: []string{"e2"}, Decisions: []signals.Decide{{ToolCallID: "c1", By: "bob"}}, Results: []signals.ToolResult{{ToolCallID: "c2", Output: "y"}},
			Inputs: []signals.InputAnswers{{ToolCallID: "c3", Answers: map[string]event.InputAnswer{"q": {Action: event.InputDecline}}}}, SubAgents: []signals.RestoredSubAgent{{ToolCallID: "other"}},
		})
		want := full()
		want.ended = []string{"e1"}
		require.Equal(t, want, k, "an answer is another one if anything of it differs")
	})
	t.Run("an event that was posted has ended since, and the other way round", func(t *testing.T) {
		k := full()
		k.told(signals.Restore{Known: []string{"e3"}, Posts: []signals.Post{{ID: "e1"}}})
		require.Equal(t, []string{"e2"}, k.ended)
		require.Empty(t, k.open)
	})
}
