package activities_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tool"
)

// has stores a history of n messages of so many bytes in a thread.
func (w *fixture) has(threadID string, n, bytes int) {
	w.t.Helper()
	for i := range n {
		m := event.Message{ID: fmt.Sprint("old", i), SenderType: event.CreatedByUser, SenderID: "ann", Content: fmt.Sprint(i, strings.Repeat(" ", bytes), "end")}
		_, err := w.store.Append(context.Background(), step.Ref{Namespace: "ns", ThreadID: threadID}, store.Batch{Records: []event.Record{message(m)}})
		require.NoError(w.t, err)
	}
}

// TestContextHasABound: a model is sent what there is room for, and what it was sent can be reproduced.
func TestContextHasABound(t *testing.T) {
	w := newFixture(t, nil)
	w.has("t1", 12, 1<<20)
	_, err := w.callModel(modelStep())
	require.NoError(t, err)
	got := w.model.requests[0].Messages
	require.Len(t, got, 1+7+1, "the instructions, what there is room for, and the question")
	require.True(t, strings.HasPrefix(got[1].Content, "5 "))
	require.Equal(t, "hello", got[8].Content)
}

// largeReads remembers which threads were read in large pages.
type largeReads struct {
	teststore.Store
	mu      sync.Mutex
	threads map[string]bool
}

func (s *largeReads) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	if q.MaxBytes > 1<<20 {
		s.mu.Lock()
		s.threads[key.ThreadID] = true
		s.mu.Unlock()
	}
	return s.Store.Records(ctx, key, q)
}

func (s *largeReads) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.threads)
}

// TestContextsInFlight: large histories are neither read nor sent to models at once, beyond the memory for them. Small ones are.
func TestContextsInFlight(t *testing.T) {
	const large, small = 3, 3
	reads := &largeReads{threads: map[string]bool{}}
	w := newFixture(t, func(c *activities.Config) { reads.Store, c.Store = teststore.Of(c.Store), reads })
	w.all.SetContextMemory(33 << 20) // for one large context, and what remains of it for a few small ones
	var mu sync.Mutex
	inFlight, most := 0, 0
	began, goOn := make(chan int, large+small), make(chan struct{})
	w.model.answer = func(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		size := 0
		for _, m := range req.Messages {
			size += len(m.Content)
		}
		mu.Lock()
		inFlight += size
		most = max(most, inFlight)
		mu.Unlock()
		began <- size
		<-goOn
		mu.Lock()
		inFlight -= size
		mu.Unlock()
		return llm.Response{Type: llm.TypeText, Content: "ok"}, nil
	}
	ended := make(chan error, large+small)
	call := func(thread string) {
		in := modelStep()
		in.Thread.ThreadID = thread
		env := w.newEnv()
		go func() {
			_, err := env.ExecuteActivity(step.ActivityCallModel, in)
			ended <- err
		}()
	}
	for i := range small {
		call(fmt.Sprint("small", i))
	}
	for range small {
		<-began // all at once
	}
	for i := range large {
		thread := fmt.Sprint("large", i)
		w.has(thread, 5, 100<<10)
		call(thread)
	}
	require.Greater(t, <-began, 500<<10)
	require.Eventually(t, w.all.ContextsWait, testenv.Patience, testenv.Tick)
	require.Equal(t, 1, reads.count(), "the others have not even been read")
	close(goOn)
	for range large + small {
		require.NoError(t, <-ended)
	}
	require.Equal(t, large, reads.count())
	require.Less(t, most, 2*500<<10)
	free, taken := w.all.TakeContexts()
	require.True(t, taken, "everything was given back")
	free()
}

// TestModelCallWaits: a call that waits for memory or for its turn is interrupted as one that runs, and does not hold a workflow task.
// One that is not interrupted is made when others have given back what it waits for, and gives it back, too.
func TestModelCallWaits(t *testing.T) {
	for name, c := range map[string]struct {
		take  func(*activities.Activities) (free func())
		waits func(*activities.Activities) bool
	}{
		"for memory": {func(a *activities.Activities) func() {
			a.SetContextMemory(1 << 20)
			free, taken := a.TakeContexts()
			require.True(t, taken)
			return free
		}, (*activities.Activities).ContextsWait},
		"for its turn": {(*activities.Activities).TakeTurns, (*activities.Activities).TurnsWait},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, func(c *activities.Config) { c.NoLocalSteps = false })
			places := w.all.TurnsFree()
			w.all.SetHold(1, never)
			w.all.JoinOn("own")
			free := c.take(w.all)
			var reply step.ModelReply
			in := modelStep()
			in.Flush = says("e0", "hello")
			v, err := w.env.ExecuteLocalActivity(w.all.CallModel(), in)
			require.NoError(t, err)
			require.NoError(t, v.Get(&reply))
			require.True(t, reply.Running, "an activity joins it")
			require.Eventually(t, func() bool { return c.waits(w.all) }, testenv.Patience, testenv.Tick)
			out := make(chan step.ModelReply, 1)
			go func() {
				joined, _ := w.callModel(in)
				out <- joined
			}()
			// It listens before or after it begins to wait.
			require.Eventually(t, func() bool {
				_ = w.stream.Notify(context.Background(), ref, stream.Notice{TraceID: "e1"})
				return len(out) == 1
			}, testenv.Patience, testenv.Tick)
			require.True(t, (<-out).Message.Interrupted)
			require.Empty(t, w.model.requests)
			require.Equal(t, "hello", stored[event.Message](w, "e0").Content, "what comes before the call is stored all the same")

			other := modelStep()
			other.Thread.ThreadID = "other"
			env, ended := w.newEnv(), make(chan error, 1)
			go func() {
				_, err := env.ExecuteActivity(step.ActivityCallModel, other)
				ended <- err
			}()
			require.Eventually(t, func() bool { return c.waits(w.all) }, testenv.Patience, testenv.Tick)
			free()
			require.NoError(t, <-ended)
			require.Len(t, w.model.requests, 1)
			require.Eventually(t, func() bool { return w.all.TurnsFree() == places }, testenv.Patience, testenv.Tick)
		})
	}
}

// TestLargeResults: every result has a bound, and says that it was cut.
func TestLargeResults(t *testing.T) {
	large := strings.Repeat("x", tool.MaxResult+1)
	cut := fmt.Sprintf("[… cut: this is only the beginning of %d bytes …]", len(large))
	for name, result := range map[string]func() (tool.Result, error){
		"text": func() (tool.Result, error) {
			return tool.Result{Output: large, Details: map[string]any{"x": large}}, nil
		},
		"error": func() (tool.Result, error) { return tool.Result{}, fmt.Errorf("%s", large[len("Error: "):]) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, nil, tool.MustFunc("look", "", func(context.Context, tool.Call, struct{}) (tool.Result, error) { return result() }))
			_, err := w.runTool(w.asked(call("c1", "look", "{}")))
			require.NoError(t, err)
			m := stored[event.Message](w, "c1.result")
			require.Len(t, m.Content, tool.MaxResult)
			require.True(t, strings.HasSuffix(m.Content, cut))
			require.Empty(t, m.Metadata)
		})
	}
	t.Run("of a sub-agent", func(t *testing.T) {
		w := newFixture(t, nil)
		w.spoke(event.Message{Content: large[:tool.MaxResult]}, event.Message{Content: large[tool.MaxResult:]})
		_, err := w.endDelegate(endStep(signals.TurnCompleted))
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(stored[event.Message](w, "c1.result").Content, cut))
	})
}

// TestSearchTakesNoPlace: a search before a model call may wait for providers, and holds up no calls of others meanwhile.
func TestSearchTakesNoPlace(t *testing.T) {
	var w *fixture
	var places, searches int
	w = newFixture(t, func(c *activities.Config) {
		who, err := c.Agents.Agent(t.Context(), "ns", "assistant")
		require.NoError(t, err)
		who.Knowledge.Passages = 3
		c.Agents = agent.Fixed{who}
		c.Store = teststore.Of(teststore.Before(c.Store, func(context.Context) error {
			searches++
			require.Eventually(t, func() bool { return w.all.TurnsFree() == places }, testenv.Patience, testenv.Tick)
			return nil
		}, "search_text"))
	})
	places = w.all.TurnsFree()
	_, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Positive(t, searches)
}
