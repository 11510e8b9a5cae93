package threadclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// oneThread is a Temporal with one thread, which answers updates when it is let.
type oneThread struct {
	client.Client

	// gate lets updates through. nil = at once.
	gate chan struct{}

	// confirms lets signals through. nil = at once.
	confirms chan struct{}

	// says is the result of a post. nil = queued.
	says func(signals.Post) signals.PostOutcome

	// room is what a thread tells of its queue.
	room int

	// silent is a thread for which no worker runs; task is its workflow task. Temporal cannot
	// describe a hidden one.
	silent  bool
	hidden  bool
	task    enumspb.PendingWorkflowTaskState
	history int64

	mu      sync.Mutex
	batches [][]string
	kept    []string
	turns   int
	most    int
	done    chan struct{} // lets turns end
}

func (o *oneThread) UpdateWorkflow(ctx context.Context, u client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if u.UpdateName == signals.UpdateTurn {
		return o.turn(ctx)
	}
	var posts []signals.Post
	switch arg := u.Args[0].(type) {
	case signals.Post:
		posts = []signals.Post{arg}
	case signals.PostBatch:
		posts = arg.Posts
	}
	var ids []string
	var out signals.PostBatchResult
	for _, p := range posts {
		ids = append(ids, p.ID)
		r := signals.PostOutcome{EventID: p.ID, Status: signals.PostQueued}
		if o.says != nil {
			r = o.says(p)
		}
		out.Results = append(out.Results, r)
	}
	o.mu.Lock()
	o.batches = append(o.batches, ids)
	o.mu.Unlock()
	if o.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if o.gate != nil {
		<-o.gate
	}
	if len(posts) > 1 {
		return answered{out}, nil
	}
	if r := out.Results[0]; r.Status != signals.PostQueued && r.Status != signals.PostDuplicate {
		return nil, temporal.NewNonRetryableApplicationError(r.Error, r.Status, nil)
	}
	return answered{signals.PostResult{EventID: ids[0], Status: out.Results[0].Status, Room: o.room}}, nil
}

func (o *oneThread) turn(ctx context.Context) (client.WorkflowUpdateHandle, error) {
	o.mu.Lock()
	o.turns++
	o.most = max(o.most, o.turns)
	o.mu.Unlock()
	select {
	case <-o.done:
	case <-ctx.Done():
	}
	o.mu.Lock()
	o.turns--
	o.mu.Unlock()
	return answered{signals.TurnResult{Status: signals.TurnCompleted}}, ctx.Err()
}

func (o *oneThread) SignalWorkflow(ctx context.Context, _, _, name string, arg any) error {
	if o.confirms != nil {
		select {
		case <-o.confirms:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := arg.(signals.Post); ok {
		o.kept = append(o.kept, p.ID)
	}
	return nil
}

func (o *oneThread) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if o.hidden {
		return nil, serviceerror.NewUnavailable("busy")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		ExecutionConfig:       &workflowpb.WorkflowExecutionConfig{TaskQueue: &taskqueuepb.TaskQueue{Name: "mill"}},
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{HistoryLength: o.history, Execution: &commonpb.WorkflowExecution{}},
		PendingWorkflowTask:   &workflowpb.PendingWorkflowTaskInfo{State: o.task},
	}, nil
}

func (o *oneThread) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}

// answered is an update with its result.
type answered struct{ result any }

func (answered) WorkflowID() string { return "" }
func (answered) RunID() string      { return "" }
func (answered) UpdateID() string   { return "" }
func (a answered) Get(_ context.Context, out any) error {
	if out == nil {
		return nil
	}
	data, err := converter.GetDefaultDataConverter().ToPayload(a.result)
	if err != nil {
		return err
	}
	return converter.GetDefaultDataConverter().FromPayload(data, out)
}

func laneClient(t *testing.T, o *oneThread) *Client {
	t.Helper()
	c, err := New(Config{Temporal: o, Namespace: "acme"})
	require.NoError(t, err)
	return c
}

func hello(id string) signals.Post {
	p := signals.UserMessage("t1", "ann", "hello")
	p.ID = id
	return p
}

func TestPostsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oneThread{gate: make(chan struct{})}
		c := laneClient(t, o)
		var posts sync.WaitGroup
		post := func(id string) {
			posts.Go(func() {
				got, err := c.Post(t.Context(), "t1", hello(id))
				assert.NoError(t, err) //nolint:testifylint // not on the goroutine of the test
				assert.Equal(t, signals.PostResult{EventID: id, Status: signals.PostQueued}, got)
			})
			synctest.Wait()
		}
		var want []string
		for i := range 1 + signals.MaxBatchPosts + 2 {
			id := fmt.Sprintf("e%d", i)
			post(id)
			want = append(want, id)
		}
		for range 3 {
			o.gate <- struct{}{}
		}
		posts.Wait()
		n := signals.MaxBatchPosts
		require.Equal(t, [][]string{want[:1], want[1 : 1+n], want[1+n:]}, o.batches, "one update at a time, in order")
		synctest.Wait()
		require.Empty(t, c.posts.lanes.of, "nothing is left of it")
		require.Zero(t, c.posts.lanes.bytes)
	})
}

func TestPostsOfABatchHaveResultsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := map[string]string{
			"e1": signals.PostQueued, "e2": signals.PostDuplicate, "e3": signals.RefusedType, "e4": signals.FullType,
			"e5": signals.BusyType, "e6": signals.ClosedType,
		}
		o := &oneThread{gate: make(chan struct{}), says: func(p signals.Post) signals.PostOutcome {
			if status[p.ID] == "" {
				return signals.PostOutcome{EventID: p.ID, Status: signals.PostQueued}
			}
			return signals.PostOutcome{EventID: p.ID, Status: status[p.ID], Error: "payload: no"}
		}}
		c := laneClient(t, o)
		go func() { _, _ = c.Post(t.Context(), "t1", hello("e0")) }()
		synctest.Wait()
		var mu sync.Mutex
		got := map[string]error{}
		for id := range status {
			go func() {
				_, err := c.Post(t.Context(), "t1", hello(id))
				mu.Lock()
				defer mu.Unlock()
				got[id] = err
			}()
		}
		synctest.Wait()
		close(o.gate)
		synctest.Wait()
		require.Len(t, o.batches, 2)
		require.NoError(t, got["e1"])
		require.NoError(t, got["e2"])
		require.ErrorIs(t, got["e3"], signals.ErrRefused)
		require.ErrorContains(t, got["e3"], "payload: no")
		require.ErrorIs(t, got["e4"], signals.ErrFull)
		require.ErrorIs(t, got["e5"], signals.ErrBusy)
		require.ErrorIs(t, got["e6"], signals.ErrThreadClosed)
	})
}

func TestPostsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oneThread{gate: make(chan struct{})}
		c := laneClient(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 1 + maxLanePosts {
			go func() { _, _ = c.Post(ctx, "t1", hello(fmt.Sprintf("e%d", i))) }()
			synctest.Wait()
		}
		_, err := c.Post(t.Context(), "t1", hello("more"))
		require.ErrorIs(t, err, signals.ErrOverloaded)
		cancel()
		synctest.Wait()
		close(o.gate)
		synctest.Wait()
		require.Equal(t, [][]string{{"e0"}}, o.batches, "those whose callers have gone are not sent")
		_, err = c.Post(t.Context(), "t1", hello("more"))
		require.NoError(t, err)

		big := hello("big")
		big.Payload = signals.UserMessage("t1", "ann", strings.Repeat("x", 250<<10)).Payload
		o.gate = make(chan struct{})
		errs := make(chan error, 3+maxLaneBytes/len(big.Payload))
		for i := range cap(errs) {
			big.ID = fmt.Sprintf("big%d", i)
			go func(p signals.Post) {
				_, err := c.Post(t.Context(), "t1", p)
				errs <- err
			}(big)
			synctest.Wait()
		}
		require.NotEmpty(t, errs)
		require.ErrorIs(t, <-errs, signals.ErrOverloaded)
		close(o.gate)
		synctest.Wait()
		for _, batch := range o.batches[2:] {
			require.LessOrEqual(t, len(batch), 2, "each update has at most %d bytes", signals.MaxBatchBytes)
		}
	})
}

func TestPostsToAThreadWithoutAWorker(t *testing.T) {
	const started = enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED
	for name, test := range map[string]struct {
		thread *oneThread
		onBusy event.OnBusy
		kept   bool
		reason string
	}{
		"Temporal keeps them":                       {thread: &oneThread{silent: true}, kept: true},
		"but not when a worker is about to take it": {thread: &oneThread{silent: true, task: started}, reason: "busy"},
		"nor more than history has room for":        {thread: &oneThread{silent: true, history: maxSilentEvents + 1}, reason: `no worker is polling task queue "mill"`},
		"nor what may be rejected":                  {thread: &oneThread{silent: true}, onBusy: event.OnBusyReject, reason: `no worker is polling task queue "mill"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := laneClient(t, test.thread)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				p := hello("e1")
				p.OnBusy = test.onBusy
				begun := time.Now()
				got, err := c.Post(ctx, "t1", p)
				if test.kept {
					require.NoError(t, err)
					require.Equal(t, signals.PostResult{EventID: "e1", Status: signals.PostQueued}, got)
					require.Equal(t, answerPatience, time.Since(begun))
					_, err = c.Post(ctx, "t1", hello("e2"))
					require.NoError(t, err)
					require.Equal(t, answerPatience, time.Since(begun), "the next one need not wait as long")
					require.Equal(t, []string{"e1", "e2"}, test.thread.kept)
				} else {
					var silent *UnansweredError
					require.ErrorAs(t, err, &silent)
					require.Contains(t, silent.Reason, test.reason)
					require.Empty(t, test.thread.kept)
				}
				<-time.After(answerWithin) // the update under way ends
			})
		})
	}
	t.Run("nor of a thread that Temporal cannot describe: it may only be slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := &oneThread{gate: make(chan struct{}), hidden: true}
			c := laneClient(t, o)
			time.AfterFunc(2*answerPatience, func() { close(o.gate) })
			got, err := c.Post(t.Context(), "t1", hello("e1"))
			require.NoError(t, err)
			require.Equal(t, signals.PostResult{EventID: "e1", Status: signals.PostQueued}, got)
			require.Empty(t, o.kept)
		})
	})
	t.Run("nor of callers that have gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := &oneThread{silent: true}
			c := laneClient(t, o)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := c.Post(ctx, "t1", hello("e1"))
			require.ErrorIs(t, err, context.Canceled)
			<-time.After(answerWithin)
			require.Empty(t, o.kept)
		})
	})
}

func TestTurnsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &oneThread{done: make(chan struct{})}
		c := laneClient(t, o)
		var turns sync.WaitGroup
		for i := range 3 * turnsInFlight {
			turns.Go(func() {
				out, err := c.Turn(t.Context(), "t1", hello(fmt.Sprintf("e%d", i)))
				assert.NoError(t, err) //nolint:testifylint // not on the goroutine of the test
				assert.Equal(t, signals.TurnCompleted, out.Status)
			})
			synctest.Wait()
		}
		require.Equal(t, turnsInFlight, o.turns)
		require.Len(t, o.batches, 2*turnsInFlight, "the others are posted meanwhile")
		close(o.done)
		turns.Wait()
		require.Equal(t, turnsInFlight, o.most)
		synctest.Wait()
		require.Empty(t, c.posts.lanes.of)
	})
}

func TestPendingTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m := listClient(t)
		for range turnsInFlight {
			onTurn(m, update{result: signals.TurnResult{Status: signals.TurnCompleted}}, nil)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for i := range turnsInFlight {
			_, err := c.StartTurn(ctx, "t1", hello(fmt.Sprintf("e%d", i)))
			require.NoError(t, err)
		}
		posted := takes(t, m, nil)
		turn, err := c.StartTurn(t.Context(), "t1", hello("late"))
		require.NoError(t, err)
		require.Equal(t, "late", posted.ID)
		cancel() // nobody waits for the first ones any more
		synctest.Wait()
		m.ExpectedCalls = nil
		onTurn(m, update{result: signals.TurnResult{Status: signals.TurnCompleted}}, nil)
		begun := time.Now()
		out, err := turn.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, signals.TurnCompleted, out.Status)
		require.Less(t, time.Since(begun), turnPatience)
	})
}

func TestUnansweredReason(t *testing.T) {
	c, m := listClient(t)
	m.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewDeadlineExceeded("late"))
	m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/t1", "").Return(nil, serviceerror.NewUnavailable("down"))
	_, err := c.SetStatus(t.Context(), "t1", signals.SetStatus{})
	var silent *UnansweredError
	require.ErrorAs(t, err, &silent)
	require.Equal(t, "Temporal cannot be reached", silent.Reason)
	var late *serviceerror.DeadlineExceeded
	require.ErrorAs(t, err, &late)
}

func TestMissingThread(t *testing.T) {
	status := func(s enumspb.WorkflowExecutionStatus) *workflowservice.DescribeWorkflowExecutionResponse {
		return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: s}}
	}
	for _, tt := range []struct {
		name      string
		described *workflowservice.DescribeWorkflowExecutionResponse
		err       error
		want      error // nil: it may be there
	}{
		{name: "not there", err: serviceerror.NewNotFound("no such workflow"), want: signals.ErrThreadNotFound},
		{name: "closed", described: status(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), want: signals.ErrThreadClosed},
		{name: "opened meanwhile", described: status(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), want: signals.ErrThreadNotFound},
		{name: "unknown", err: serviceerror.NewDeadlineExceeded("late")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, m := listClient(t)
			m.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("no such workflow"))
			m.On("DescribeWorkflowExecution", mock.Anything, "thread/acme/t1", "").Return(tt.described, tt.err)
			m.On("DescribeTaskQueue", mock.Anything, mock.Anything, mock.Anything).Return(nil, serviceerror.NewUnavailable("down")).Maybe()
			_, err := c.SetStatus(t.Context(), "t1", signals.SetStatus{})
			if tt.want != nil {
				require.ErrorIs(t, err, tt.want)
				return
			}
			var silent *UnansweredError
			require.ErrorAs(t, err, &silent)
			for _, claim := range []error{signals.ErrThreadNotFound, signals.ErrThreadClosed} {
				require.NotErrorIs(t, err, claim)
			}
		})
	}
}
