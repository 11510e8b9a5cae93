package deploying

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// deploymentsEnv is the variable with the number of deployments. Default 4.
const deploymentsEnv = "THREADMILL_DEPLOYMENTS"

// TestDeployments: under load, builds that cannot replay one another's threads replace one another. Each is ramped up
// first, and every tenth and the last one are rolled back. Each posted message gets exactly one answer, no workflow task fails, and builds drain.
func TestDeployments(t *testing.T) {
	t.Parallel()
	total := 4
	if set := os.Getenv(deploymentsEnv); set != "" {
		var err error
		total, err = strconv.Atoi(set)
		require.NoError(t, err, deploymentsEnv)
	}
	f := newFleet(t, harness.Options{Agents: check.Team("current_time")})
	f.look = time.Second
	d := &deployments{fleet: f, stops: map[string]func(){}}
	d.start(0)
	f.Switch("0")
	load := startLoad(f)
	stable, rolledBack := 0, 0
	for n := 1; n <= total; n++ {
		d.start(n)
		d.ramp(n)
		load.awaitAnswers(3)
		f.Switch(strconv.Itoa(n))
		load.awaitAnswers(5)
		if n%10 == 0 || n == total {
			rolledBack++
			t.Logf("%d deployments: %d turns", n, load.answered.Load())
			f.Switch(strconv.Itoa(stable))
			load.awaitAnswers(5)
			d.retire(n)
			continue
		}
		d.retire(stable)
		stable = n
	}
	load.end()
	d.drainAll(strconv.Itoa(stable))
	f.requireOneAnswerEach(load.posted)
	continued := d.requireSound()
	took := slices.Sorted(slices.Values(load.took))
	t.Logf("%d deployments, %d rolled back: %d turns, %d times a thread continued as new, median turn %s, 99th percentile %s",
		total, rolledBack, len(took), continued, took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond))
}

// deployments are the builds that run.
type deployments struct {
	fleet

	stops   map[string]func()
	retired []string
}

func (d *deployments) start(n int) {
	id := strconv.Itoa(n)
	d.stops[id] = d.Start(id, n%2 == 1)
}

// ramp sends half of the threads to a build.
func (d *deployments) ramp(n int) {
	d.T.Helper()
	handle := d.Temporal.WorkerDeploymentClient().GetHandle(d.TaskQueue)
	require.Eventually(d.T, func() bool {
		_, err := handle.SetRampingVersion(d.Ctx(), client.WorkerDeploymentSetRampingVersionOptions{BuildID: strconv.Itoa(n), Percentage: 50})
		return err == nil
	}, testenv.Patience, testenv.Tick)
}

// retire moves the idle threads away from a build, and stops that which was retired before it: Temporal's list of what runs on
// a build lags a little.
func (d *deployments) retire(n int) {
	d.T.Helper()
	id := strconv.Itoa(n)
	d.drain(id)
	d.retired = append(d.retired, id)
	if len(d.retired) > 1 {
		d.stops[d.retired[0]]()
		d.retired = d.retired[1:]
	}
}

// drain waits until nothing runs on a build.
func (d *deployments) drain(id string) {
	d.T.Helper()
	waker := &deployment.Waker{Deployment: d.deployment(), Build: id}
	var last any
	require.Eventually(d.T, func() bool {
		_, err := waker.Wake(d.Ctx())
		running, err2 := d.deployment().Running(d.Ctx(), id)
		status, err3 := d.deployment().Describe(d.Ctx())
		last = []any{err, err2, err3, running, status}
		return err == nil && err2 == nil && err3 == nil && status.Find(id).Status == deployment.Drained && running == deployment.Running{}
	}, testenv.Patience, 10*testenv.Tick, "draining build %s: %v", id, &last)
}

// drainAll requires that every build that Temporal knows has drained, but one.
func (d *deployments) drainAll(but string) {
	d.T.Helper()
	status, err := d.deployment().Describe(d.Ctx())
	require.NoError(d.T, err)
	for _, b := range status.Builds {
		if b.ID != but {
			d.drain(b.ID)
		}
	}
}

// requireSound fails if a workflow task of any run of any workflow failed. It returns how many runs continued as new.
func (d *deployments) requireSound() (continued int) {
	d.T.Helper()
	req := &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("TaskQueue = %q", d.TaskQueue)}
	for {
		page, err := d.Temporal.ListWorkflow(d.Ctx(), req)
		require.NoError(d.T, err)
		for _, info := range page.GetExecutions() {
			for _, e := range d.history(info.GetExecution()) {
				a := e.GetWorkflowTaskFailedEventAttributes()
				require.True(d.T, a == nil || a.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
					"%s: %s: %s", info.GetExecution(), a.GetCause(), a.GetFailure().GetMessage())
			}
			if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
				continued++
			}
		}
		if req.NextPageToken = page.GetNextPageToken(); len(req.NextPageToken) == 0 {
			return continued
		}
	}
}

// history returns the events of a run. A machine that stalls gets a second chance.
func (d *deployments) history(run *commonpb.WorkflowExecution) (events []*history.HistoryEvent) {
	d.T.Helper()
	read := func() (err error) {
		events, err = check.RunHistory(d.Ctx(), d.Temporal, run.GetWorkflowId(), run.GetRunId())
		return err
	}
	if err := read(); err != nil {
		d.T.Logf("reading the history of %s: %s", run, err)
		require.NoError(d.T, read())
	}
	return events
}

// load posts messages to threads, to each one after the other.
type load struct {
	fleet

	cancel   context.CancelFunc
	running  sync.WaitGroup
	answered atomic.Int64

	mu     sync.Mutex
	posted map[string][]string // the ids of messages, by thread
	took   []time.Duration
	failed []string
}

const loaded = 6 // threads under load

func startLoad(f fleet) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{fleet: f, cancel: cancel, posted: map[string][]string{}}
	for i := range loaded {
		thread := f.Open("assistant", "helper")
		l.running.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				if err := l.turn(thread, n); err != nil {
					l.mu.Lock()
					l.failed = append(l.failed, fmt.Sprintf("thread %s: %s", thread, err))
					l.mu.Unlock()
					return
				}
			}
		})
	}
	f.Open("assistant") // idle all along, with the threads of sub-agents
	f.T.Cleanup(cancel)
	return l
}

// turn posts a message, and waits for its answer.
func (l *load) turn(thread string, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	const approved = 4
	text := []string{
		"hello", "use current_time {}", "use note {}", check.Asks("helper", "use note {}"), `use shell_cmd {"command":"true"}`, "count 20 every 20ms",
	}[n%6]
	m := signals.UserMessage(thread, "ann", "@assistant\n"+text)
	m.ID = fmt.Sprintf("%s-m%d", thread, n)
	l.mu.Lock()
	l.posted[thread] = append(l.posted[thread], m.ID)
	l.mu.Unlock()
	begun := time.Now()
	if n%6 == approved {
		if _, err := l.Threads.Post(ctx, thread, m); err != nil {
			return fmt.Errorf("posting: %w", err)
		}
		if err := l.approve(ctx, thread); err != nil {
			return err
		}
	}
	out, err := l.Threads.Turn(ctx, thread, m)
	switch {
	case err != nil:
		return fmt.Errorf("turn of %q: %w", text, err)
	case out.Status != signals.TurnCompleted || out.Message == nil || len(out.AllReplies()) != 1:
		return fmt.Errorf("turn of %q: %+v", text, out)
	}
	l.mu.Lock()
	l.took = append(l.took, time.Since(begun))
	l.mu.Unlock()
	l.answered.Add(1)
	return nil
}

// approve approves the next call of a thread.
func (l *load) approve(ctx context.Context, thread string) error {
	for {
		waiting, err := l.Threads.Approvals(ctx, thread)
		if err != nil {
			return fmt.Errorf("asking for approvals: %w", err)
		}
		for _, one := range waiting.Approvals {
			_, err := l.Threads.Decide(ctx, thread, signals.Decide{ToolCallID: one.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
			if err != nil {
				return fmt.Errorf("deciding: %w", err)
			}
			return nil
		}
		select {
		case <-time.After(testenv.Tick):
		case <-ctx.Done():
			return fmt.Errorf("no call waits: %w", ctx.Err())
		}
	}
}

// awaitAnswers waits for some more answers of each thread, on average.
func (l *load) awaitAnswers(each int64) {
	l.T.Helper()
	goal := l.answered.Load() + each*loaded
	require.Eventually(l.T, func() bool {
		l.requireNoFailure()
		return l.answered.Load() >= goal
	}, testenv.Patience, testenv.Tick)
}

func (l *load) requireNoFailure() {
	l.T.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(l.T, l.failed)
}

func (l *load) end() {
	l.T.Helper()
	l.cancel()
	l.running.Wait()
	l.requireNoFailure()
}
