package activities_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tool"
)

// never is the time after which something happens in a test that it must not wait for.
const never = time.Hour

// local is a fixture whose model waits until it is released.
type local struct {
	*fixture
	reached, released chan struct{}
	cancelled         chan error
}

func newLocal(t *testing.T, hold, join time.Duration) *local {
	w := &local{
		fixture: newFixture(t, func(c *activities.Config) { c.NoLocalSteps = false }),
		reached: make(chan struct{}, 10), released: make(chan struct{}), cancelled: make(chan error, 1),
	}
	w.all.SetHold(hold, join)
	w.all.JoinOn("own")
	w.model.answer = func(ctx context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
		onDelta(llm.Delta{Text: "half"})
		w.reached <- struct{}{}
		select {
		case <-w.released:
			return llm.Response{Type: llm.TypeText, Content: "half and all"}, nil
		case <-ctx.Done():
			w.cancelled <- context.Cause(ctx)
			return llm.Response{Type: llm.TypeText, Content: "half"}, ctx.Err()
		}
	}
	return w
}

// begin runs the step as a local activity, and returns its result.
func (w *local) begin(in step.Model) <-chan step.ModelReply {
	out := make(chan step.ModelReply, 1)
	go func() {
		var reply step.ModelReply
		v, err := w.env.ExecuteLocalActivity(w.all.CallModel(), in)
		if assert.NoError(w.t, err) && assert.NoError(w.t, v.Get(&reply)) {
			out <- reply
		}
		close(out)
	}()
	return out
}

func TestLocalStep(t *testing.T) {
	t.Run("that is quick holds the workflow task to its end", func(t *testing.T) {
		w := newLocal(t, never, never)
		out := w.begin(modelStep())
		close(w.released)
		reply := <-out
		require.Equal(t, "half and all", reply.Message.Content)
		require.False(t, reply.Running)
		require.Positive(t, reply.Took)
	})
	t.Run("that takes longer is joined by an activity", func(t *testing.T) {
		w := newLocal(t, time.Millisecond, never)
		reply := <-w.begin(modelStep())
		require.Equal(t, step.Underway{Running: true, JoinOn: "own"}, reply.Underway)
		<-w.reached
		close(w.released)
		reply, err := w.callModel(modelStep())
		require.NoError(t, err)
		require.Equal(t, "half and all", reply.Message.Content)
		require.Len(t, w.model.requests, 1, "the model is not called again")
		require.Equal(t, []string{"", "half"}, w.pieces(), "viewers see the reply once")
	})
	t.Run("that fails after it was joined reports its error once", func(t *testing.T) {
		w := newLocal(t, time.Millisecond, never)
		w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
			w.reached <- struct{}{}
			<-w.released
			return llm.Response{}, &llm.Error{Provider: "fake", Message: "no"}
		}
		require.True(t, (<-w.begin(modelStep())).Running)
		close(w.released)
		_, err := w.callModel(modelStep())
		require.ErrorContains(t, err, "no")
		require.Len(t, w.model.requests, 1)
	})
	t.Run("lets the workflow task go when something has arrived", func(t *testing.T) {
		w := newLocal(t, never, never)
		out := w.begin(modelStep())
		<-w.reached
		require.NoError(t, w.stream.Notify(context.Background(), ref, stream.Notice{Arrived: true}))
		require.True(t, (<-out).Running)
		require.Empty(t, w.cancelled, "it goes on")
		close(w.released)
		reply, err := w.callModel(modelStep())
		require.NoError(t, err)
		require.Equal(t, "half and all", reply.Message.Content)
	})
	t.Run("that nobody joins is given up", func(t *testing.T) {
		w := newLocal(t, never, time.Millisecond)
		out := w.begin(modelStep())
		<-w.reached // before the millisecond begins, in which a machine that stalls does not come so far
		require.NoError(t, w.stream.Notify(context.Background(), ref, stream.Notice{Arrived: true}))
		require.True(t, (<-out).Running)
		require.Error(t, <-w.cancelled)
	})
	t.Run("is joined by a second run of its workflow task", func(t *testing.T) {
		w := newLocal(t, time.Millisecond, never)
		require.True(t, (<-w.begin(modelStep())).Running)
		<-w.reached
		require.True(t, (<-w.begin(modelStep())).Running, "the first run and its result were lost")
		close(w.released)
		reply, err := w.callModel(modelStep())
		require.NoError(t, err)
		require.Equal(t, "half and all", reply.Message.Content)
		require.Len(t, w.model.requests, 1)
	})
	t.Run("is drained before the worker stops", func(t *testing.T) {
		w := newLocal(t, never, never)
		out := w.begin(modelStep())
		<-w.reached
		drained := make(chan struct{})
		go func() {
			w.all.Drain()
			close(drained)
		}()
		require.Eventually(t, func() bool {
			another := modelStep()
			another.MessageID, another.Agent = "e2.0.1", "nobody" // fails at once if it runs
			_, err := w.newEnv().ExecuteLocalActivity(w.all.CallModel(), another)
			return err != nil && strings.Contains(err.Error(), "The worker is stopping")
		}, testenv.Patience, time.Millisecond, "steps no longer run as local activities")
		require.Empty(t, drained)
		require.True(t, (<-w.begin(modelStep())).Running, "one that runs here goes on")
		close(w.released)
		require.Equal(t, "half and all", (<-out).Message.Content)
		<-drained
	})
	t.Run("is an activity if nothing could join it", func(t *testing.T) {
		w := newLocal(t, never, never)
		w.all.JoinOn("")
		_, err := w.env.ExecuteLocalActivity(w.all.CallModel(), modelStep())
		require.ErrorContains(t, err, "an activity runs it")
		require.Empty(t, w.model.requests)
	})
	t.Run("that panics is an error", func(t *testing.T) {
		w := newFixture(t, func(c *activities.Config) { c.Agents = broken{} })
		w.all.JoinOn("own")
		_, err := w.env.ExecuteLocalActivity(w.all.CallModel(), modelStep())
		require.ErrorContains(t, err, "the step panicked: broken")
	})
	t.Run("counts the attempts that viewers have seen", func(t *testing.T) {
		w := newLocal(t, never, never)
		seen := event.AgentEvent{Type: event.EventStream, Content: "h", MessageID: "e1.0.1", Attempt: 4}
		require.NoError(t, w.stream.Publish(context.Background(), ref, stream.Entry{Event: &seen}))
		in := modelStep()
		in.Shown = true
		out := w.begin(in)
		close(w.released)
		<-out
		require.Equal(t, []string{"h", "reset 5", "", "half"}, w.pieces())
	})
	t.Run("leaves retries to the thread", func(t *testing.T) {
		w := newLocal(t, never, never)
		w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
			return llm.Response{}, &llm.Error{Provider: "fake", Message: "busy", Retryable: true, RetryAfter: time.Second}
		}
		in := modelStep()
		in.Now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		reply := <-w.begin(in)
		require.NotNil(t, reply.Outage)
		require.WithinRange(t, reply.Outage.NextAttemptAt, in.Now.Add(time.Second), in.Now.Add(testenv.Patience), "by the thread's clock")
		require.EqualValues(t, step.TookUnknown, reply.Took)
	})
}

// TestLocalToolIsStartedOnce: Temporal does not count the runs of a lost workflow task, so the second run of a tool is an
// activity, if it may run again at all.
func TestLocalToolIsStartedOnce(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		echo := &raw{def: tool.Definition{Name: "echo", Idempotent: idempotent}, do: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Output: "done"}, nil
		}}
		w := newFixture(t, nil, echo)
		w.all.JoinOn("own")
		in := w.asked(call("c1", "echo", `{}`))
		w.append(store.Batch{ToolStart: &store.ToolLog{ToolCallID: "c1", ToolName: "echo", StartedAt: time.Now(), Attempt: 1}})
		v, err := w.env.ExecuteLocalActivity(w.all.RunTool(), in)
		if idempotent {
			require.ErrorContains(t, err, "an activity runs it again")
			again, err := w.runTool(in)
			require.NoError(t, err)
			require.Equal(t, "done", again.Result)
			continue
		}
		require.NoError(t, err)
		var reply step.ToolReply
		require.NoError(t, v.Get(&reply))
		require.Equal(t, "unknown", reply.Status)
		require.Zero(t, echo.runs.Load())
	}
}

// broken is a source of agents that panics.
type broken struct{ agent.Source }

func (broken) Agent(context.Context, string, string) (agent.Agent, error) { panic("broken") }

// pieces are the texts and resets that viewers have received.
func (w *local) pieces() (out []string) {
	for _, e := range w.live() {
		switch {
		case e.Event == nil:
		case e.Event.Type == event.EventReset:
			out = append(out, fmt.Sprintf("reset %d", e.Event.Attempt))
		case e.Event.Type == event.EventStream:
			out = append(out, e.Event.Content)
		}
	}
	return out
}
