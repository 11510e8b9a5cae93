package threadclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// TestPostsBySignal: a post on which the thread has no say is kept by Temporal at once, and the thread is asked about others.
func TestPostsBySignal(t *testing.T) {
	rejects := hello("e1")
	rejects.OnBusy = event.OnBusyReject
	for name, tc := range map[string]struct {
		post  signals.Post
		known func(string) (bool, error)
		asked bool
	}{
		"a new event":                    {hello("e1"), func(string) (bool, error) { return false, nil }, false},
		"one that the store has":         {hello("e1"), func(id string) (bool, error) { return id == "e1", nil }, true},
		"while the store does not say":   {hello("e1"), func(string) (bool, error) { return false, errors.New("down") }, true},
		"one that a busy thread refuses": {rejects, func(string) (bool, error) { return false, nil }, true},
		"without a store":                {hello("e1"), nil, true},
		"without a store, with a new id": {hello(""), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := &oneThread{}
			cfg := Config{Temporal: o, Namespace: "acme"}
			if tc.known != nil {
				cfg.Known = func(_ context.Context, namespace, threadID, eventID string) (bool, error) {
					require.Equal(t, "acme/t1", namespace+"/"+threadID)
					return tc.known(eventID)
				}
			}
			c, err := New(cfg)
			require.NoError(t, err)
			out, err := c.Post(t.Context(), "t1", tc.post)
			require.NoError(t, err)
			require.Equal(t, signals.PostResult{EventID: out.EventID, Status: signals.PostQueued}, out)
			require.NotEmpty(t, out.EventID)
			if tc.asked {
				require.Equal(t, [][]string{{out.EventID}}, o.batches)
				require.Empty(t, o.kept)
			} else {
				require.Empty(t, o.batches)
				require.Equal(t, []string{out.EventID}, o.kept)
			}
		})
	}
}

// TestPostsBeyondTemporal: while Temporal confirms nothing, a process sends it a bounded number of posts. Those beyond wait a little and are
// told to come again; they are taken then.
func TestPostsBeyondTemporal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &oneThread{confirms: make(chan struct{})}
		c, err := New(Config{Temporal: o, Known: func(context.Context, string, string, string) (bool, error) { return false, nil }})
		require.NoError(t, err)
		post := func(i int) error {
			id := fmt.Sprintf("t%d", i)
			p := signals.UserMessage(id, "ann", "hello")
			p.ID = "e1"
			_, err := c.Post(t.Context(), id, p)
			return err
		}
		var sent sync.WaitGroup
		for i := range maxSignals {
			sent.Go(func() { assert.NoError(t, post(i)) })
		}
		synctest.Wait()
		began := time.Now()
		require.ErrorIs(t, post(maxSignals), signals.ErrOverloaded)
		require.Equal(t, signalPatience, time.Since(began))
		close(o.confirms)
		sent.Wait()
		require.NoError(t, post(maxSignals), "it was not sent")
		require.Len(t, o.kept, maxSignals+1)
	})
}

// TestPostedTwice: a process remembers what it has sent by signal, since the store may not have it yet.
func TestPostedTwice(t *testing.T) {
	o := &oneThread{says: func(signals.Post) signals.PostOutcome { return signals.PostOutcome{Status: signals.ConflictType} }}
	c, err := New(Config{Temporal: o, Known: func(context.Context, string, string, string) (bool, error) { return false, nil }})
	require.NoError(t, err)
	_, err = c.Post(t.Context(), "t1", hello("e1"))
	require.NoError(t, err)
	_, err = c.Post(t.Context(), "t1", hello("e1"))
	require.ErrorIs(t, err, signals.ErrConflict)
	other := signals.UserMessage("t2", "ann", "hello")
	other.ID = "e1"
	_, err = c.Post(t.Context(), "t2", other)
	require.NoError(t, err, "another thread")
}

// unopened is a Temporal that does not have the thread until it is started with a signal.
type unopened struct {
	*oneThread
	started int
}

func (*unopened) SignalWorkflow(context.Context, string, string, string, any) error {
	return serviceerror.NewNotFound("no such workflow")
}

func (*unopened) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewNotFound("no such workflow")
}

func (m *unopened) SignalWithStartWorkflow(context.Context, string, string, any, client.StartWorkflowOptions, any, ...any) (client.WorkflowRun, error) {
	m.started++
	return nil, nil
}

// TestPostedToAThreadThatIsNotThere: the same post then opens the thread, by signal, too.
func TestPostedToAThreadThatIsNotThere(t *testing.T) {
	o := &unopened{oneThread: &oneThread{}}
	c, err := New(Config{Temporal: o, Known: func(context.Context, string, string, string) (bool, error) { return false, nil }})
	require.NoError(t, err)
	_, err = c.Post(t.Context(), "t1", hello("e1"))
	require.ErrorIs(t, err, signals.ErrThreadNotFound)
	_, err = c.PostOrOpen(t.Context(), "t1", signals.Start{}, hello("e1"))
	require.NoError(t, err)
	require.Equal(t, 1, o.started)
	require.Empty(t, o.batches)
}

// TestSignalsHaveRoom: a process asks a thread before it sends more than the queue has room for.
func TestSignalsHaveRoom(t *testing.T) {
	o := &oneThread{room: 8 << 10}
	c, err := New(Config{Temporal: o})
	require.NoError(t, err)
	post := func(size int) {
		_, err := c.Post(t.Context(), "t1", signals.UserMessage("t1", "ann", strings.Repeat("x", size)))
		require.NoError(t, err)
	}
	sent := func() string { return fmt.Sprintf("%d by signal, %d asked", len(o.kept), len(o.batches)) }
	post(10 << 10)
	require.Equal(t, "1 by signal, 0 asked", sent())
	post(10 << 10)
	require.Equal(t, "1 by signal, 1 asked", sent(), "it takes more than one may send a thread that was never asked")
	post(10)
	post(10)
	post(10)
	require.Equal(t, "4 by signal, 1 asked", sent(), "a quarter of the room that the thread has told")
	post(10)
	require.Equal(t, "4 by signal, 2 asked", sent())
	o.says = func(signals.Post) signals.PostOutcome { return signals.PostOutcome{Status: signals.FullType} }
	post(10)
	post(10)
	post(10)
	_, err = c.Post(t.Context(), "t1", signals.UserMessage("t1", "ann", "hello"))
	require.ErrorIs(t, err, signals.ErrFull)
	_, err = c.Post(t.Context(), "t1", signals.UserMessage("t1", "ann", "hello"))
	require.ErrorIs(t, err, signals.ErrFull, "until it has room, it is asked each time")
	_, err = c.Post(t.Context(), "t2", signals.UserMessage("t2", "ann", "hello"))
	require.NoError(t, err, "another thread")
}

// TestAskedOnceClosed: what a process sends a thread after it has closed it is answered, so that nobody takes it for kept.
func TestAskedOnceClosed(t *testing.T) {
	o := &oneThread{says: func(signals.Post) signals.PostOutcome { return signals.PostOutcome{Status: signals.ClosedType} }}
	c, err := New(Config{Temporal: o})
	require.NoError(t, err)
	_, err = c.Post(t.Context(), "t1", signals.UserMessage("t1", "ann", "before"))
	require.NoError(t, err)
	require.NoError(t, c.Control(t.Context(), "t1", signals.Control{Action: signals.ControlClose, By: "ann"}))
	_, err = c.Post(t.Context(), "t1", signals.UserMessage("t1", "ann", "after"))
	require.ErrorIs(t, err, signals.ErrThreadClosed)
}
