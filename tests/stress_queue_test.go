package tests

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
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/world"
)

// Of the storm in a queue. The seed makes events and moments the same in each run; what
// the kills hit is not.
const (
	queueSeed    = 38
	queueEvents  = 800
	queueLate    = 200                    // are posted when some have been processed
	queueHands   = 8                      // post at the same time
	queueKills   = 5                      // while they do
	queueLongest = 300 * time.Millisecond // of a life in which events are processed
)

// barriers are events that hold the thread up until the test lets it go on: the first
// comes alone, the others have priorities of their own among those of the storm.
var barriers = []signals.Post{
	{ID: "b0", Type: "barrier"},
	{ID: "b1", Type: "barrier", Priority: 80},
	{ID: "b2", Type: "barrier", Priority: 60},
	{ID: "b3", Type: "barrier", Priority: 40},
	{ID: "b4", Type: "barrier", Priority: 20},
}

// flood makes the posts of n events: messages that a model answers, jobs that a processor
// makes a message of, and events that nothing follows from; of mixed priorities, some with
// a ttl that runs out, some two or three times, and then also with another priority.
func flood(random *rand.Rand, thread, wave string, n int) (posts []signals.Post) {
	for i := range n {
		p := signals.Post{ID: fmt.Sprintf("%s%d", wave, i), Type: "tick", Payload: json.RawMessage(`{}`)}
		switch random.IntN(20) {
		case 0:
			p = message(thread, p.ID, "say "+p.ID)
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

// postAll posts from several hands at once. It calls after with how many were posted so
// far; meanwhile the hands go on for a while.
func (k *killing) postAll(thread string, posts []signals.Post, after func(posted int)) {
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

// awaitQueue waits until n events wait in a thread, and for as long as their ttl may last.
func (k *killing) awaitQueue(thread string, n int) {
	k.T.Helper()
	require.Eventually(k.T, func() bool {
		state, err := k.Threads.State(k.Ctx(), thread)
		return err == nil && state.QueueLength == n
	}, waitLong, waitTick)
	k.pause(10 * time.Millisecond)
}

// pause lets some time pass, as the storm has it.
func (k *killing) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// restart kills the worker and starts another one.
func (k *killing) restart() {
	k.T.Helper()
	k.worker.Kill()
	k.start(k.victim)
}

// TestQueueInAStorm posts a thousand events to one thread at the same time, while its worker
// is killed again and again: they come out in their order, once each.
func TestQueueInAStorm(t *testing.T) {
	if !world.StickyOff() {
		t.Skip("takes long; it runs where every task is replayed: THREADMILL_STICKY=off go test -timeout 20m ./tests/...")
	}
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	random := rand.New(rand.NewPCG(queueSeed, 0))
	// A task that was lost with its worker is given to another one sooner than usual.
	k := newKilling(t, world.Options{Dynamic: map[string]any{"history.defaultWorkflowTaskTimeout": 5 * time.Second}}, func(v *victim) { v.Hasty = true })
	k.start(k.victim)
	id := k.Open()
	first, kills := run(k.World, id), 0
	kill := func() {
		k.restart()
		kills++
	}

	_, err := k.Threads.PostSignal(k.Ctx(), id, barriers[0])
	require.NoError(t, err)
	k.arrived(id, "b0")
	early := append(flood(random, id, "e", queueEvents), barriers[1:]...)
	k.postAll(id, early, func(posted int) {
		if posted%(len(early)/queueKills) == 0 {
			kill()
		}
	})
	k.awaitQueue(id, queueEvents+len(barriers)-1)
	kill()

	// One of the kills is sure to hit something.
	job := k.hold("job", "")
	k.rule(id, "b0", foreign.Ruling{})
	arrives(t, job, "a job")
	kill()
	k.arrived(id, "b1")
	before := k.queueLength(id)
	late := append(flood(random, id, "l", queueLate), early[:queueLate]...)
	k.postAll(id, late, func(int) {})
	k.awaitQueue(id, before+queueLate)
	for _, b := range barriers[1:4] {
		k.rule(id, b.ID, foreign.Ruling{})
		k.pause(time.Duration(random.Int64N(int64(queueLongest))))
		kill()
	}
	k.rule(id, "b4", foreign.Ruling{})
	settle(k.World, id)

	require.Equal(t, 10, kills)
	arrived, lost := k.arrivals(id, first)
	require.Greater(t, len(arrived), queueEvents+queueLate, "some were posted twice")
	want, expired := inOrder(arrived)
	require.NotEmpty(t, expired)
	lost += k.requireOrder(t, id, want, expired)
	t.Logf("%d events came in order, %d expired, %d steps were hit", len(want), len(expired), lost)
	require.Positive(t, lost, "the storm must hit something")
}

// queueLength is how many events wait in a thread.
func (k *killing) queueLength(thread string) int {
	k.T.Helper()
	state, err := k.Threads.State(k.Ctx(), thread)
	require.NoError(k.T, err)
	return state.QueueLength
}

// arrivals returns the posts of a thread in the order in which Temporal has them, over all
// runs of its workflow, and how many of its tasks were lost with a worker.
func (k *killing) arrivals(thread, runID string) (posts []signals.Post, lost int) {
	k.T.Helper()
	for _, events := range runsOf(k.World, thread, runID) {
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

// inOrder says what has to come of posts in the order of their arrival: the first of each
// id counts; what has the highest priority comes first, of equals what came first, if its
// time has not run out. Each message is followed by its reply, and each job by the message
// that is made of it.
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
	// It was alone when it came.
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

// requireOrder checks what the records of a thread say. It returns how many activities were
// lost with a worker.
func (k *killing) requireOrder(t *testing.T, thread string, want, expired []string) (lost int) {
	t.Helper()
	var got, gone []string
	calls, made := 0, 0
	for _, r := range allRecords(k.World, thread) {
		late, isLate := strings.CutSuffix(r.ID, ".expired")
		switch {
		case isLate:
			gone = append(gone, late)
		case r.Type == event.TypeLLMCall:
			calls++
		case r.Type == event.TypeHook && strings.HasSuffix(r.ID, ".hook"):
			if world.Payload[event.Interception](k.World, r).Outcome == event.OutcomeOverwritten {
				made++
			}
		case r.Type == event.TypeMessage:
			m := world.Payload[event.Message](k.World, r)
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
	return k.Provider.Calls() - calls + len(k.reports) - made
}

// allRecords returns a thread's records, however many.
func allRecords(w *world.World, thread string) (out []event.Record) {
	w.T.Helper()
	for after := int64(0); ; after = out[len(out)-1].Seq {
		page, err := w.Store.Records(w.Ctx(), w.Key(thread), store.Query{After: after, Limit: store.MaxLimit})
		require.NoError(w.T, err)
		out = append(out, page...)
		if len(page) < store.MaxLimit {
			return out
		}
	}
}
