package tests

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestRetrievedText: a hook of model calls adds retrieved text to the conversation and the tools.
func TestRetrievedText(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) {
		c.Hooks = []hook.Hook{hook.OnLLMCall("retrieve", func(ctx context.Context, call event.LLMCallEvent) (hook.Result, error) {
			messages, err := hook.DepsOf(ctx).Store.Messages(ctx, 1)
			if err != nil {
				return hook.Result{}, err
			}
			call.Instructions = "Known about " + messages[0].Content + ": the mill has two stones."
			return hook.Replace(call), nil
		})}
	}})
	id := w.Open()
	require.Equal(t, signals.TurnCompleted, w.Say(id, "mills").Status)
	w.Say(id, "stones")
	body := string(w.Provider.Requests()[1].Body)
	for _, part := range []string{"You help.", "Known about stones: the mill has two stones.", `"mills"`, `"stones"`, `"shell_cmd"`} {
		require.Contains(t, body, part, "S2-09 instructions, retrieved text, history and tools")
	}
	require.NotContains(t, body, "Known about mills", "S2-09 what was retrieved for one call is not kept for the next")
	require.Len(t, w.Messages(id), 4)
}

// TestBackground queues background events before a person's message.
func TestBackground(t *testing.T) {
	t.Parallel()
	hold := check.NewGate("hold")
	w := harness.New(t, harness.Options{Tools: []tool.Tool{hold.Tool}})
	id := w.Open()
	w.Post(id, "use hold {}")
	<-hold.Reached
	var wanted []string
	for _, p := range []signals.Post{
		{ID: "ingest", Type: event.TypeRAGIngest, Payload: json.RawMessage(`{"source":"https://example.com/a.pdf","namespace":"docs"}`)},
		{ID: "extract", Type: event.TypeEntityExtract, Payload: json.RawMessage(`{"content":"Sarah from Acme","sourceType":"message","sourceId":"m1"}`)},
		signals.UserMessage(id, "ann", "hello"),
	} {
		out, err := w.Threads.Post(w.Ctx(), id, p)
		require.NoError(t, err, "S2-03")
		wanted = append(wanted, out.EventID)
	}
	queue, err := w.Threads.Queue(w.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, []string{wanted[2], "ingest", "extract"}, itemIDs(queue.Items), "S2-03 people's work goes first")
	hold.Release()
	w.Await(id, wanted[2])
	require.Eventually(t, func() bool {
		return len(check.OfType(w, id, event.TypeRAGIngest)) == 1 && len(check.OfType(w, id, event.TypeEntityExtract)) == 1
	}, testenv.Patience, testenv.Tick, "S2-03 they are kept as events")
}

func itemIDs(items []event.Item) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = it.ID
	}
	return out
}
