package faults

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// errLost is the error of a transaction whose response is lost.
var errLost = errors.New("the connection was lost")

// unreliable is a store that commits and then loses the response.
type unreliable struct {
	teststore.Store
	lose func(store.Batch) bool

	mu   sync.Mutex
	lost int
}

func (u *unreliable) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	out, err := u.Store.Append(ctx, key, b)
	if err != nil {
		return out, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.lose(b) {
		return out, nil
	}
	u.lost++
	return store.Appended{}, errLost
}

func (u *unreliable) losses() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lost
}

func contains(b store.Batch, typ string) bool {
	for _, r := range b.Records {
		if r.Type == typ {
			return true
		}
	}
	return false
}

// first is true once for a match.
func first(match func(store.Batch) bool) func(store.Batch) bool {
	done := false
	return func(b store.Batch) bool {
		hit := !done && match(b)
		done = done || hit
		return hit
	}
}

// everyFirst is true once for each writing transaction, identified by its first record and its tool
// call.
func everyFirst() func(store.Batch) bool {
	known := map[string]bool{}
	return func(b store.Batch) bool {
		id := ""
		switch {
		case b.ToolStart != nil:
			id = "start " + b.ToolStart.ToolCallID
		case b.ToolFinish != nil:
			id = "finish " + b.ToolFinish.ToolCallID
		case len(b.Records) > 0:
			id = b.Records[0].ID
		}
		before := known[id]
		known[id] = true
		return id != "" && !before
	}
}

// TestLostAnswers loses the store's response to a commit, at each write of a turn: nothing is done
// twice.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		lose   func() func(store.Batch) bool
		losses int
		runs   int
	}{
		{"S2-51 of what came in", func() func(store.Batch) bool {
			return first(func(b store.Batch) bool { return contains(b, event.TypeMessage) })
		}, 1, 1},
		{"S2-51 of a reply with a tool call", func() func(store.Batch) bool {
			return first(func(b store.Batch) bool { return contains(b, event.TypeToolCall) })
		}, 1, 1},
		{"S2-51 of the start of a tool", func() func(store.Batch) bool {
			return first(func(b store.Batch) bool { return b.ToolStart != nil })
		}, 1, 0},
		{"S2-51 of the result of a tool", func() func(store.Batch) bool {
			return first(func(b store.Batch) bool { return b.ToolFinish != nil })
		}, 1, 1},
		{"S2-51 of the last reply", func() func(store.Batch) bool {
			return first(func(b store.Batch) bool { return contains(b, event.TypeFinal) })
		}, 1, 1},
		{"S0-36 S2-51 of each of them", everyFirst, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := harness.New(t, harness.Options{NoWorker: true})
			u := &unreliable{Store: w.Store, lose: c.lose()}
			once := check.NewSpy("once")
			workOn(t, w, u, once)

			id := w.Open()
			out := w.Say(id, "use once {}")
			require.Equal(t, signals.TurnCompleted, out.Status, out.Error)
			require.GreaterOrEqual(t, u.losses(), c.losses)
			require.Len(t, once.Seen(), c.runs)
			require.Equal(t, 2, w.Provider.Calls(), "the model is called once for each reply")
			messages := w.Messages(id)
			require.Len(t, messages, 4)
			if c.runs == 0 {
				require.Contains(t, messages[2].Content, "outcome is unknown")
			} else {
				require.Equal(t, "seen", messages[2].Content)
			}
			require.Equal(t, []string{
				event.TypeStatus, event.TypeMessage, event.TypeLLMCall, event.TypePrompt, event.TypeMessage, event.TypeToolCall,
				event.TypeMessage, event.TypeLLMCall, event.TypeMessage, event.TypeFinal, event.TypeTurnEnded,
			}, w.Types(id), "the same order as if nothing had been lost")
			check.RequireSettled(t, w, id)
			for _, call := range check.ModelCalls(w) {
				check.RequireAnswered(t, call.Messages)
			}
		})
	}
}

// workOn runs a worker of a world on another store, with one tool.
func workOn(t *testing.T, w *harness.Harness, s store.Store, only tool.Tool) {
	model, err := openai.New(openai.Config{APIKey: "test", BaseURL: w.Provider.URL})
	require.NoError(t, err)
	runtime, err := threadmill.New(threadmill.Config{
		Temporal: w.Temporal, Store: s, Stream: w.Stream, Namespace: w.TaskQueue, TaskQueue: w.TaskQueue,
		Agents: []agent.Agent{{Name: "assistant", Model: "openai/stand-in", Tools: []string{only.Definition().Name}}},
		Models: map[string]llm.Provider{"openai": model}, Tools: []tool.Tool{only},
		StopTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runtime.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}
