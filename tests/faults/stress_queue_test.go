package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// The seed makes the events and the times of the kills the same in each run; what they hit is not.
const (
	queueSeed    = 38
	queueEvents  = 800
	queueLate    = 200                    // posted after some have been processed
	queueHands   = 8                      // concurrent clients
	queueKills   = 5                      // while they post
	queueLongest = 300 * time.Millisecond // of a life in which events are processed
)

// barriers are events that stop the thread until the test releases it: the first comes alone, the
// others have priorities among those of the storm.
var barriers = []signals.Post{
	{ID: "b0", Type: "barrier"},
	{ID: "b1", Type: "barrier", Priority: 80},
	{ID: "b2", Type: "barrier", Priority: 60},
	{ID: "b3", Type: "barrier", Priority: 40},
	{ID: "b4", Type: "barrier", Priority: 20},
}

// flood returns the posts of n events: messages that a model answers, jobs that a processor turns
// into messages, and events without effects; of mixed priorities, some with a ttl that passes, some
// two or three times, and then also with another priority.
func flood(random *rand.Rand, thread, wave string, n int) (posts []signals.Post) {
	for i := range n {
		p := signals.Post{ID: fmt.Sprintf("%s%d", wave, i), Type: "tick", Payload: json.RawMessage(`{}`)}
		switch random.IntN(20) {
		case 0:
			p = check.Message(thread, p.ID, "say "+p.ID)
		case 1:
			p.Type, p.Payload = "job", json.RawMessage(fmt.Sprintf(`{"name":%q}`, p.ID))
		case 2, 3, 4:
			p.TTL = 1
		case 5:
			p.TTL = time.Hour.Milliseconds()
		}
		for range max(1, random.IntN(5)-1) {
			// Those of barriers are the multiples of 20.
			if p.Priority == 0 || random.IntN(4) == 0 {
				p.Priority = 20*random.IntN(5) + 1 + random.IntN(19)
			}
			posts = append(posts, p)
		}
	}
	random.Shuffle(len(posts), func(i, j int) { posts[i], posts[j] = posts[j], posts[i] })
	return posts
}

// postAll posts from several goroutines. It calls after with the number of posts so far; meanwhile
// they continue for a while.
func (k killed) postAll(thread string, posts []signals.Post, after func(posted int)) {
	k.T.Helper()
	todo, done := make(chan signals.Post), make(chan bool, len(posts)/queueKills/2)
	var hands sync.WaitGroup
	ctx := k.T.Context()
	for range queueHands {
		hands.Go(func() {
			for p := range todo {
				_, err := k.Threads.PostSignal(ctx, thread, p)
				done <- assert.NoError(k.T, err)
			}
		})
	}
	hands.Go(func() {
		defer close(todo)
		for _, p := range posts {
			todo <- p
		}
	})
	for i := range posts {
		<-done
		after(i + 1)
	}
	hands.Wait()
}

// awaitQueue waits until n events, and those of posts that do not expire, are pending in a thread.
func (k killed) awaitQueue(thread string, n int, posts []signals.Post) {
	k.T.Helper()
	stay := map[string]bool{}
	for _, p := range posts {
		if p.TTL != 1 {
			stay[p.ID] = true
		}
	}
	require.Eventually(k.T, func() bool {
		state, err := k.Threads.State(k.Ctx(), thread)
		return err == nil && state.QueueLength == n+len(stay)
	}, testenv.Patience, testenv.Tick)
}

// pause waits for a time of the storm.
func (k killed) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// restart kills the worker and starts another one.
func (k killed) restart() {
	k.T.Helper()
	k.Kill()
	k.Start()
}

// TestQueueInAStorm posts a thousand events to one thread concurrently, while its worker is killed
// again and again: they are processed in order, once each.
//
//ci:replayed
func TestQueueInAStorm(t *testing.T) {
	if !harness.StickyOff() {
		t.Skip("takes long; it runs where every task is replayed: THREADMILL_STICKY=off go test -timeout 20m ./tests/...")
	}
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	random := rand.New(rand.NewPCG(queueSeed, 0))
	// A task that was lost with its worker is retried sooner than by default.
	k := killed{killing.New(t, harness.Options{Dynamic: map[string]any{"history.defaultWorkflowTaskTimeout": 5 * time.Second}})}
	k.Worker.Hasty = true
	k.Start()
	id := k.Open()
	first, kills := check.CurrentRun(k.Harness, id), 0
	kill := func() {
		k.restart()
		kills++
	}

	_, err := k.Threads.PostSignal(k.Ctx(), id, barriers[0])
	require.NoError(t, err)
	k.Arrived(id, "b0")
	early := append(flood(random, id, "e", queueEvents), barriers[1:]...)
	k.postAll(id, early, func(posted int) {
		if posted%(len(early)/queueKills) == 0 {
			kill()
		}
	})
	k.awaitQueue(id, 0, early)
	kill()

	// At least one of the kills hits something.
	job := k.Hold("job", "")
	k.Rule(id, "b0", foreign.Ruling{})
	check.Arrives(t, job, "a job")
	kill()
	k.Arrived(id, "b1")
	before := k.queueLength(id)
	late := flood(random, id, "l", queueLate)
	k.postAll(id, slices.Concat(late, early[:queueLate]), func(int) {})
	k.awaitQueue(id, before, late)
	for _, b := range barriers[1:4] {
		k.Rule(id, b.ID, foreign.Ruling{})
		k.pause(time.Duration(random.Int64N(int64(queueLongest))))
		kill()
	}
	k.Rule(id, "b4", foreign.Ruling{})
	check.Settle(k.Harness, id)

	require.Equal(t, 10, kills)
	arrived, lost := k.arrivals(id, first)
	require.Greater(t, len(arrived), queueEvents+queueLate, "some were posted twice")
	want, expired := inOrder(arrived)
	require.NotEmpty(t, expired)
	lost += k.requireOrder(t, id, want, expired)
	t.Logf("%d events came in order, %d expired, %d steps were hit", len(want), len(expired), lost)
	require.Positive(t, lost, "the storm must hit something")
}

// queueLength is the number of pending events in a thread.
func (k killed) queueLength(thread string) int {
	k.T.Helper()
	state, err := k.Threads.State(k.Ctx(), thread)
	require.NoError(k.T, err)
	return state.QueueLength
}

// arrivals returns the posts of a thread in Temporal's order, over all runs of its workflow, and
// the number of its tasks that were lost with a worker.
func (k killed) arrivals(thread, runID string) (posts []signals.Post, lost int) {
	k.T.Helper()
	for _, events := range check.RunsOf(k.Harness, thread, runID) {
		for _, e := range events {
			if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT {
				lost++
			}
			if a := e.GetWorkflowExecutionSignaledEventAttributes(); a.GetSignalName() == signals.SignalPost {
				var p signals.Post
				require.NoError(k.T, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &p))
				posts = append(posts, p)
			}
		}
	}
	return posts, lost
}

// inOrder returns the expected order of processing for posts in the order of arrival: the first of
// each id counts; the highest priority comes first, equal ones in order of arrival, unless the ttl
// has passed. Each message is followed by its reply, and each job by its message.
func inOrder(arrived []signals.Post) (out, expired []string) {
	seen := map[string]bool{}
	var queue, later []signals.Post
	for _, p := range arrived {
		switch {
		case seen[p.ID]:
		case strings.HasPrefix(p.ID, "l"):
			later = append(later, p)
		default:
			queue = append(queue, p)
		}
		seen[p.ID] = true
	}
	// It arrived alone.
	out, queue = []string{queue[0].ID}, queue[1:]
	for len(queue) > 0 {
		next := 0
		for i, p := range queue {
			if p.Priority > queue[next].Priority {
				next = i
			}
		}
		p := queue[next]
		queue = slices.Delete(queue, next, next+1)
		switch {
		case p.TTL == 1:
			expired = append(expired, p.ID)
			continue
		case p.Type == event.TypeMessage:
			out = append(out, p.ID, "say "+p.ID)
		case p.Type == "job":
			out = append(out, p.ID, "made of "+p.ID)
		default:
			out = append(out, p.ID)
		}
		if p.ID == "b1" {
			queue = append(queue, later...)
		}
	}
	return out, expired
}

// requireOrder checks the records of a thread. It returns the number of activities that were lost
// with a worker.
func (k killed) requireOrder(t *testing.T, thread string, want, expired []string) (lost int) {
	t.Helper()
	var got, gone []string
	calls, made := 0, 0
	for _, r := range check.AllRecords(k.Harness, thread) {
		late, isLate := strings.CutSuffix(r.ID, ".expired")
		switch {
		case isLate:
			gone = append(gone, late)
		case r.Type == event.TypeLLMCall:
			calls++
		case r.Type == event.TypeHook && strings.HasSuffix(r.ID, ".hook"):
			if harness.Payload[event.Interception](k.Harness, r).Outcome == event.OutcomeOverwritten {
				made++
			}
		case r.Type == event.TypeMessage:
			m := harness.Payload[event.Message](k.Harness, r)
			if m.SenderType == event.CreatedByUser {
				got = append(got, r.ID)
				continue
			}
			got = append(got, m.Content)
		case r.Type == "tick" || r.Type == "job" || r.Type == "barrier":
			got = append(got, r.ID)
		case r.Type == event.TypeRejected || r.Type == event.TypeError:
			t.Errorf("%s: %s", r.Type, r.Payload)
		}
	}
	require.Equal(t, want, got, "S2-38 the highest priority first, of equals the first; S2-51 once each")
	require.ElementsMatch(t, expired, gone, "S2-39 what has waited too long is expired, and never processed")
	return k.Provider.Calls() - calls + k.Reported() - made
}
