package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// The seed makes the order of the events the same in each run.
const (
	eventsSeed  = 61
	stormEvents = 500 // half of them are duplicates
	stormHands  = 8   // concurrent publishers
	stormHold   = 400 * time.Millisecond
)

// gusts are events in random order, each of them twice.
func gusts(n int) (out []event.EnvEvent) {
	for i := range n {
		out = append(out, event.EnvEvent{
			ID: fmt.Sprintf("e%d", i/2), Type: "file.changed", Timestamp: 1_700_000_000_000 + int64(i),
			Metadata: event.EnvMetadata{Source: event.SourceEnv}, Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i/2)),
		})
	}
	random := rand.New(rand.NewPCG(eventsSeed, 0))
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// blow publishes events by plain signals, from several goroutines. It returns the number of replies
// in another thread meanwhile.
func blow(w *harness.Harness, thread string, events []event.EnvEvent) (answers int64) {
	w.T.Helper()
	other := w.Open("assistant")
	ctx := w.Ctx()
	todo, over := make(chan event.EnvEvent), make(chan struct{})
	var hands, talk sync.WaitGroup
	var answered atomic.Int64
	talk.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			out, err := w.Threads.Turn(ctx, other, signals.UserMessage(other, "ann", "hello"))
			if assert.NoError(w.T, err) && assert.Equal(w.T, signals.TurnCompleted, out.Status) {
				answered.Add(1)
			}
		}
	})
	for range stormHands {
		hands.Go(func() {
			for e := range todo {
				assert.NoError(w.T, w.Temporal.SignalWorkflow(ctx, signals.WorkflowID(w.TaskQueue, thread), "", signals.SignalPost, e))
			}
		})
	}
	for _, e := range events {
		todo <- e
	}
	close(todo)
	hands.Wait()
	close(over)
	talk.Wait()
	return answered.Load()
}

// awaitCalm waits until a thread has nothing left to do, and holds nothing back.
func awaitCalm(w *harness.Harness, thread string) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		s, err := w.Threads.State(context.Background(), thread)
		return err == nil && s.Status == signals.ThreadIdle && s.QueueLength == 0 && len(s.Held) == 0
	}, testenv.Patience, testenv.Tick)
}

// landed are the events of a thread in Temporal's order, once each.
func landed(w *harness.Harness, thread, runID string) (ids []string) {
	w.T.Helper()
	seen := map[string]bool{}
	for _, events := range check.RunsOf(w, thread, runID) {
		for _, h := range events {
			a := h.GetWorkflowExecutionSignaledEventAttributes()
			if h.GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED || a.GetSignalName() != signals.SignalPost {
				continue
			}
			var e event.EnvEvent
			require.NoError(w.T, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &e))
			if !seen[e.ID] {
				seen[e.ID] = true
				ids = append(ids, e.ID)
			}
		}
	}
	return ids
}

// awakenings are the events that an agent handled, in order, and the number of events that they
// represent.
func awakenings(w *harness.Harness, thread string) (ids []string, stand int) {
	w.T.Helper()
	held := regexp.MustCompile(`Held back before it: (\d+) event`)
	for _, r := range check.AllRecords(w, thread) {
		id, observed := strings.CutSuffix(r.ID, ".observed")
		if !observed {
			continue
		}
		ids, stand = append(ids, id), stand+1
		if m := held.FindStringSubmatch(harness.Payload[event.Message](w, r).Content); m != nil {
			n, err := strconv.Atoi(m[1])
			require.NoError(w.T, err)
			stand += n
		}
	}
	return ids, stand
}

// requireEach checks that each event is stored once, and none was rejected.
func requireEach(t *testing.T, w *harness.Harness, thread string, came []string) {
	t.Helper()
	var got []string
	for _, r := range check.AllRecords(w, thread) {
		switch r.Type {
		case event.TypeEnv:
			got = append(got, r.ID)
		case event.TypeRejected, event.TypeError:
			t.Errorf("%s: %s", r.Type, r.Payload)
		}
	}
	require.Len(t, came, stormEvents/2)
	require.Equal(t, came, got, "S3-10 S3-A4 S3-A5 each is stored once, in the order in which they came")
}

// TestEventsInAStorm publishes hundreds of events to one thread concurrently, each of them twice.
//
//ci:replayed
func TestEventsInAStorm(t *testing.T) {
	if !harness.StickyOff() {
		t.Skip("takes long; it runs where every task is replayed: THREADMILL_STICKY=off go test -timeout 20m ./tests/...")
	}
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	watching := func(r rule.Rule) func(*threadmill.Config) {
		r.Name, r.Events, r.Priority = "watch", []string{"file.*"}, 20
		return func(c *threadmill.Config) { c.Rules = []rule.Rule{r} }
	}
	// storm returns the published events, and the time until all are handled.
	storm := func(t *testing.T, r rule.Rule, handled func() bool) (w *harness.Harness, id string, came []string, took time.Duration) {
		t.Helper()
		w = harness.New(t, harness.Options{Configure: watching(r)})
		id = w.Open("assistant")
		first := check.CurrentRun(w, id)
		began := time.Now()
		answers := blow(w, id, gusts(stormEvents))
		blew := time.Since(began)
		if handled != nil {
			require.Eventually(t, handled, testenv.Patience, testenv.Tick)
		}
		awaitCalm(w, id)
		took = time.Since(began)
		require.Positive(t, answers, "other threads are answered meanwhile")
		came = landed(w, id, first)
		requireEach(t, w, id, came)
		t.Logf("%d events came within %s; another thread was answered %d times", stormEvents, blew, answers)
		return w, id, came, took
	}

	t.Run("S3-61 debounced", func(t *testing.T) {
		w, id, came, took := storm(t, rule.Rule{Debounce: stormHold, Agent: &rule.Agent{}}, nil)
		woken, stand := awakenings(w, id)
		require.NotEmpty(t, woken)
		require.LessOrEqual(t, len(woken), int(took/stormHold)+1, "the agent is woken when there is quiet")
		require.Equal(t, came[len(came)-1], woken[len(woken)-1], "the last of them is handled")
		require.Equal(t, len(came), stand, "none is forgotten")
		require.Len(t, w.Messages(id), 4*len(woken), "three messages and a reply each time")
	})
	t.Run("S3-61 throttled", func(t *testing.T) {
		w, id, came, took := storm(t, rule.Rule{Throttle: stormHold, Agent: &rule.Agent{}}, nil)
		woken, stand := awakenings(w, id)
		require.Equal(t, came[0], woken[0], "the first of them is handled at once")
		require.Equal(t, came[len(came)-1], woken[len(woken)-1], "the last of them, too")
		require.LessOrEqual(t, len(woken), int(took/stormHold)+2, "and no more than one each time")
		require.Equal(t, len(came), stand, "none is forgotten")
	})
	t.Run("S3-11 one by one", func(t *testing.T) {
		var mu sync.Mutex
		var handled []string
		var running, most atomic.Int32
		_, _, came, _ := storm(t, rule.Rule{Function: func(_ context.Context, _ rule.Context, e event.EnvEvent) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			mu.Lock()
			defer mu.Unlock()
			handled = append(handled, e.ID)
			return nil
		}}, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(handled) >= stormEvents/2
		})
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, came, handled, "S3-11 S3-A4 in the order in which they came, no loss, no double")
		require.EqualValues(t, 1, most.Load(), "S3-12 never two at once")
	})
}
