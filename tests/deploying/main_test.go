// Package deploying tests what operators do and see: builds of workers that replace one another while threads run, traces and
// metrics.
package deploying

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// dynamic makes Temporal notice within seconds that a build has drained, and lets it know more than 100 of them.
var dynamic = map[string]any{
	"matching.maxVersionsInDeployment":                       200,
	"matching.wv.VersionDrainageStatusVisibilityGracePeriod": "1s",
	"matching.wv.VersionDrainageStatusRefreshInterval":       "1s",
}

// fleet is a world whose workers are builds of a deployment.
type fleet struct {
	*harness.Harness

	// look is the interval at which workers look at the deployment. Default: theirs.
	look time.Duration
}

func newFleet(t *testing.T, o harness.Options) fleet {
	o.Dynamic, o.NoWorker = dynamic, true
	return fleet{Harness: harness.New(t, o)}
}

// Start runs the workers of a build; "" = workers without a build. The threads of an odd build have one more command
// than those of others, so that no build can replay what another one of different parity has begun.
func (f fleet) Start(build string, odd bool, configure ...func(*threadmill.Config)) (stop func()) {
	f.T.Helper()
	return f.start(build, client.Options{Interceptors: interceptors(odd)}, configure...)
}

// interceptors are those of the client of a build.
func interceptors(odd bool) []interceptor.ClientInterceptor {
	if odd {
		return []interceptor.ClientInterceptor{&oddly{}}
	}
	return nil
}

func (f fleet) start(build string, options client.Options, configure ...func(*threadmill.Config)) (stop func()) {
	f.T.Helper()
	options.HostPort, options.Logger = f.Server.Addr(), sdklog.NewStructuredLogger(harness.Quiet)
	c, err := client.Dial(options)
	require.NoError(f.T, err)
	runtime := f.Beside(func(cfg *threadmill.Config) {
		cfg.Temporal, cfg.Deployment = c, threadmill.Deployment{Build: build}
		for _, change := range configure {
			change(cfg)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	if f.look > 0 {
		ctx = deployment.LookEvery(ctx, f.look)
	}
	done := make(chan error, 1)
	go func() { done <- runtime.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				f.T.Errorf("worker: %v", err)
			}
			c.Close()
		})
	}
	f.T.Cleanup(stop)
	return stop
}

func (f fleet) deployment() deployment.Deployment {
	return deployment.Deployment{Client: f.Temporal, Namespace: f.Server.Namespace(), Name: f.TaskQueue}
}

// Switch makes a build current, "" = workers without a build.
func (f fleet) Switch(build string) {
	f.T.Helper()
	check.MakeCurrent(f.Harness, f.TaskQueue, build)
}

// Moved posts to a thread until its answer comes from a run on the build: partitions of a task queue learn of a switch
// one after the other.
func (f fleet) Moved(thread, build string) {
	f.T.Helper()
	require.Eventually(f.T, func() bool {
		f.Say(thread, "where?")
		return check.BuildOf(f.Harness, thread) == build
	}, testenv.Patience, testenv.Tick, "thread %s is on build %q instead of %q", thread, check.BuildOf(f.Harness, thread), build)
}

// RequireSound fails if a workflow task of a thread failed, in any of its runs, from a given one on.
func (f fleet) RequireSound(thread, first string) (runs [][]*history.HistoryEvent) {
	f.T.Helper()
	runs = check.RunsOf(f.Harness, thread, first)
	for i, run := range runs {
		for _, e := range run {
			a := e.GetWorkflowTaskFailedEventAttributes()
			if a == nil || a.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND {
				continue // new events arrived meanwhile, and the task is repeated
			}
			require.Fail(f.T, "a workflow task failed", "thread %s, run %d, event %d: %s: %s", thread, i+1, e.GetEventId(), a.GetCause(), a.GetFailure().GetMessage())
		}
	}
	return runs
}

// requireOneAnswerEach requires that the store has one final answer for each posted message.
func (f fleet) requireOneAnswerEach(posted map[string][]string) {
	f.T.Helper()
	for thread, ids := range posted {
		asked, answers := map[string]int{}, map[string]int{}
		q := store.Query{Types: []string{event.TypeMessage}}
		for more := true; more; {
			records, err := f.Store.Records(f.Ctx(), f.Key(thread), q)
			require.NoError(f.T, err)
			for _, r := range records {
				var m event.Message
				require.NoError(f.T, json.Unmarshal(r.Payload, &m))
				switch {
				case m.Role == event.RoleUser:
					asked[r.EventID]++
				case m.Role == event.RoleAssistant && len(m.ToolCalls) == 0:
					answers[r.EventID]++
				}
				q.After = r.Seq
			}
			more = len(records) > 0
		}
		want := map[string]int{}
		for _, id := range ids {
			want[id] = 1
		}
		require.Equal(f.T, want, asked, "messages of thread %s", thread)
		require.Equal(f.T, want, answers, "answers in thread %s", thread)
	}
}

// oddly adds a command to the begin of each run of a thread whose id begins with a prefix.
type oddly struct {
	interceptor.InterceptorBase

	prefix string
}

func (o *oddly) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &oddInbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, prefix: o.prefix}
}

type oddInbound struct {
	interceptor.WorkflowInboundInterceptorBase

	prefix string
}

func (i *oddInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	info := workflow.GetInfo(ctx)
	id := info.WorkflowExecution.ID
	if typ := info.WorkflowType.Name; (typ == signals.ThreadWorkflow || typ == signals.DelegateWorkflow) && strings.HasPrefix(id[strings.LastIndex(id, "/")+1:], i.prefix) {
		workflow.SideEffect(ctx, func(workflow.Context) any { return "odd" })
	}
	return i.Next.ExecuteWorkflow(ctx, in)
}
