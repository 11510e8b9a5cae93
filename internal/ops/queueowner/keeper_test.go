package queueowner

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// temporal is a Temporal with one task queue.
type temporal struct {
	client.Client

	mu      sync.Mutex
	runs    int
	memo    *commonpb.Memo // of the run; nil = none runs
	polls   map[string]time.Time
	running int64
}

func (s *temporal) WorkflowService() workflowservice.WorkflowServiceClient { return service{state: s} }

// service is its workflow service.
type service struct {
	workflowservice.WorkflowServiceClient
	state *temporal
}

func (s *temporal) run() string { return fmt.Sprint("run-", s.runs) }

func (c service) DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == 0 {
		return nil, serviceerror.NewNotFound("none")
	}
	info := &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{RunId: s.run()}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED}
	if s.memo != nil {
		info.Status, info.Memo = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, s.memo
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
}

func (c service) TerminateWorkflowExecution(_ context.Context, in *workflowservice.TerminateWorkflowExecutionRequest, _ ...grpc.CallOption) (*workflowservice.TerminateWorkflowExecutionResponse, error) {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memo == nil || in.GetWorkflowExecution().GetRunId() != s.run() {
		return nil, serviceerror.NewNotFound("it has ended")
	}
	s.memo = nil
	return &workflowservice.TerminateWorkflowExecutionResponse{}, nil
}

func (c service) StartWorkflowExecution(_ context.Context, in *workflowservice.StartWorkflowExecutionRequest, _ ...grpc.CallOption) (*workflowservice.StartWorkflowExecutionResponse, error) {
	s := c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memo != nil {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("it runs", "", "")
	}
	s.runs++
	s.memo = in.GetMemo()
	return &workflowservice.StartWorkflowExecutionResponse{}, nil
}

func (s *temporal) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &workflowservice.DescribeTaskQueueResponse{}
	for identity, at := range s.polls {
		out.Pollers = append(out.Pollers, &taskqueuepb.PollerInfo{Identity: identity, LastAccessTime: timestamppb.New(at)})
	}
	return out, nil
}

func (s *temporal) CountWorkflow(context.Context, *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &workflowservice.CountWorkflowExecutionsResponse{Count: s.running}, nil
}

// process is a process with workers.
type process struct {
	*Keeper
	t       *testing.T
	name    string
	hooks   atomic.Value
	polling atomic.Bool
	stop    context.CancelFunc
	ended   chan error
}

func (s *temporal) process(t *testing.T, name, program, records, build, hooks string) *process {
	p := &process{t: t, name: name, ended: make(chan error, 1)}
	p.hooks.Store(hooks)
	p.Keeper = &Keeper{Client: s, Queue: "mill", Build: build, Logger: slog.New(slog.DiscardHandler), Mine: func(context.Context) (Owner, error) {
		return Owner{Program: program, Store: records, Guards: map[string]Guards{build: {"hooks": p.hooks.Load().(string)}}}, nil
	}}
	return p
}

// begin runs the process, whose workers poll each second.
func (p *process) begin() *process {
	ctx, cancel := context.WithCancel(p.t.Context())
	p.stop = cancel
	s := p.Client.(*temporal)
	go func() {
		p.ended <- p.Serve(ctx, func(ctx context.Context) error {
			identity, err := p.WorkerIdentity(ctx)
			require.NoError(p.t, err)
			identity = p.name + identity // another process
			p.polling.Store(true)
			defer p.polling.Store(false)
			for ctx.Err() == nil {
				s.mu.Lock()
				s.polls[identity] = time.Now()
				s.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
			return nil
		})
	}()
	return p
}

// after waits until all have looked.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func polling(all ...*process) string {
	var out []string
	for _, p := range all {
		if p.polling.Load() {
			out = append(out, p.name)
		}
	}
	return strings.Join(out, " ")
}

func TestServe(t *testing.T) {
	for name, play := range map[string]func(*testing.T, *temporal){
		"workers of one configuration share a queue": func(t *testing.T, s *temporal) {
			a, b := s.process(t, "a", "p", "db", "", "x").begin(), s.process(t, "b", "p", "db", "", "x").begin()
			after(time.Minute)
			require.Equal(t, "a b", polling(a, b))
			require.Equal(t, 1, s.runs)
		},
		"a later configuration takes it, and leaves it to the first one": func(t *testing.T, s *temporal) {
			s.running = 1
			a, b := s.process(t, "a", "p", "db", "", "x").begin(), s.process(t, "b", "p", "db", "", "x").begin()
			after(time.Minute)
			c := s.process(t, "c", "p", "db", "", "y").begin()
			after(10 * time.Second)
			require.Equal(t, "c", polling(a, b, c))
			require.Contains(t, a.Problem(t.Context()), "the workers of this process pause")
			c.stop()
			after(time.Minute)
			require.Empty(t, polling(a, b, c), "it may only be slow")
			after(time.Minute)
			require.Equal(t, "a b", polling(a, b, c))
			require.Empty(t, a.Problem(t.Context()))
		},
		"workers whose file changes one after the other go on": func(t *testing.T, s *temporal) {
			a, b := s.process(t, "a", "p", "db", "", "x").begin(), s.process(t, "b", "p", "db", "", "x").begin()
			after(time.Minute)
			a.hooks.Store("y")
			after(4 * time.Second)
			require.Equal(t, "a b", polling(a, b))
			b.hooks.Store("y")
			after(time.Minute)
			require.Equal(t, "a b", polling(a, b))
			a.hooks.Store("z")
			after(10 * time.Second)
			require.Equal(t, "a", polling(a, b), "the file of b has not changed")
			b.hooks.Store("z")
			after(10 * time.Second)
			require.Equal(t, "a b", polling(a, b))
		},
		"builds have guards of their own": func(t *testing.T, s *temporal) {
			a, b := s.process(t, "a", "p", "db", "1", "x").begin(), s.process(t, "b", "p", "db", "2", "y").begin()
			c := s.process(t, "c", "p", "db", "", "z").begin()
			after(time.Minute)
			require.Equal(t, "a b c", polling(a, b, c))
		},
		"another program waits for the end of all workers and workflows": func(t *testing.T, s *temporal) {
			s.running = 3
			a := s.process(t, "a", "p", "db", "", "x").begin()
			after(time.Minute)
			require.ErrorContains(t, <-s.process(t, "b", "q", "db", "", "x").begin().ended, "which polls it as a")
			a.stop()
			after(2 * time.Minute)
			require.ErrorContains(t, <-s.process(t, "b", "q", "db", "", "x").begin().ended, "which has 3 open workflows there")
			s.running = 0
			b := s.process(t, "b", "q", "db", "", "x").begin()
			after(time.Minute)
			require.Equal(t, "b", polling(a, b))
			require.ErrorIs(t, <-s.process(t, "a", "p", "db", "", "x").begin().ended, ErrForeign)
		},
		"a queue that was taken is not taken back": func(t *testing.T, s *temporal) {
			s.running = 3
			a, b := s.process(t, "a", "p", "db", "", "x").begin(), s.process(t, "b", "q", "db", "", "x")
			after(time.Minute)
			b.Take = true
			b.begin()
			after(time.Minute)
			require.Equal(t, "b", polling(a, b))
			b.stop()
			after(time.Hour)
			require.Empty(t, polling(a, b), "a person has decided")
		},
		"of programs that start at once one polls": func(t *testing.T, s *temporal) {
			var all []*process
			for i := range 20 {
				all = append(all, s.process(t, fmt.Sprint(i), fmt.Sprint("p", i), "db", "", "x").begin())
			}
			after(time.Minute)
			require.Len(t, strings.Fields(polling(all...)), 1)
		},
		"workers that end by themselves are not started again": func(t *testing.T, s *temporal) {
			a, ran := s.process(t, "a", "p", "db", "", "x"), 0
			require.NoError(t, a.Serve(t.Context(), func(context.Context) error { ran++; return nil }))
			require.Equal(t, 1, ran)
		},
		"a queue that nobody has any more is had again": func(t *testing.T, s *temporal) {
			a := s.process(t, "", "p", "db", "", "x").begin()
			after(time.Minute)
			s.mu.Lock()
			s.memo = nil
			s.mu.Unlock()
			after(time.Minute)
			require.True(t, a.polling.Load())
			require.Equal(t, 2, s.runs)
			a.stop()
			after(time.Second)
			require.Nil(t, s.memo, "nothing is left there")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, &temporal{polls: map[string]time.Time{}}) })
		})
	}
}

func TestProgram(t *testing.T) {
	require.Contains(t, Program(), "internal/ops/queueowner")
	for path, want := range map[string]string{"example.com/shop/cmd/refunds": "refunds", "example.com/refunds/v2": "refunds", "example.com/x/tests.test": "tests", "v2": "v2"} {
		require.Equal(t, want, Name(path))
	}
}

func TestDiffer(t *testing.T) {
	require.Equal(t, "approvals, hooks", differ(Guards{"approvals": "1", "hooks": "1", "rules": "1"}, Guards{"hooks": "2", "rules": "1"}))
}

func TestManyBuilds(t *testing.T) {
	o := Owner{Guards: map[string]Guards{}}
	for i := range 3 * maxBuilds {
		build := fmt.Sprint(i)
		o = o.with(Owner{Guards: map[string]Guards{build: {"hooks": build}}}, build)
		require.Equal(t, build, o.Guards[build]["hooks"])
		require.LessOrEqual(t, len(o.Guards), maxBuilds)
	}
}
