package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// fakes replace the activities: they keep stored records, and return the responses of the test.
type fakes struct {
	t  *testing.T
	mu sync.Mutex

	records []event.Record
	known   map[string]bool
	row     step.Row
	models  []step.Model
	tools   []string
	notices []step.Notify

	asked   []step.Hook
	planned []step.Plan

	handled []step.Event
	worked  []step.Task
	ends    []step.End

	// hook replaces a hook or processor that is a function; by default events pass.
	hook func(in step.Hook, name string) said
	// plan replaces the planning; by default stored calls run without approval.
	plan func(step.Plan) (step.PlanReply, error)
	// model replaces the model; by default it ends the run.
	model func(context.Context, step.Model) (step.ModelReply, error)
	// tool replaces a tool; by default it succeeds.
	tool func(context.Context, step.Tool) (step.ToolReply, error)
	// result is the decision of inline hooks on a tool's result; by default it passes.
	result func(step.Tool) *step.HookDecision
	// function replaces a rule's function; by default it succeeds.
	function func(context.Context, step.Event) error
	// work replaces the run of a background task; by default it completes.
	work func(context.Context, step.Task) (step.TaskReply, error)
	// end replaces the end of a sub-agent's thread; by default there is an answer.
	end func(step.End) (step.EndReply, error)
	// onWaiting is the agents' setting.
	onWaiting event.OnWaiting

	// noticed is closed with the first notice.
	noticed chan struct{}
}

func newFakes(t *testing.T) *fakes {
	return &fakes{t: t, known: map[string]bool{}, noticed: make(chan struct{})}
}

func (f *fakes) flush(in step.Flush, more ...event.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range append(append([]event.Record(nil), in.Records...), more...) {
		if !f.known[r.ID] {
			f.known[r.ID] = true
			f.records = append(f.records, r)
		}
	}
	if in.Row != nil {
		f.row = *in.Row
	}
}

func (f *fakes) callModel(ctx context.Context, in step.Model) (step.ModelReply, error) {
	f.flush(in.Flush)
	f.mu.Lock()
	f.models = append(f.models, in)
	f.mu.Unlock()
	reply, err := reply(in, "ok"), error(nil)
	if f.model != nil {
		reply, err = f.model(ctx, in)
	}
	if err != nil || reply.Outage != nil || reply.Route != nil {
		return reply, err
	}
	reply.OnWaiting = f.onWaiting
	stored := []event.Record{event.NewRecord(in.MessageID, event.TypeMessage, in.TraceID, in.EventID, time.Now(), reply.Message)}
	if len(reply.Calls) > 0 {
		calls := event.ToolCallEvent{ThreadID: in.Thread.ThreadID, AgentName: reply.Agent}
		for _, p := range reply.Calls {
			calls.ToolCalls = append(calls.ToolCalls, event.ToolCall{ID: p.ID, Function: event.Function{Name: p.Name, Arguments: p.Arguments}})
		}
		stored = append(stored, event.NewRecord(recordid.Calls(in.MessageID), event.TypeToolCall, in.TraceID, in.EventID, time.Now(), calls))
	}
	if len(reply.Calls) == 0 && !reply.Message.Interrupted && !in.Gated && !reply.Gated {
		stored = append(stored, event.NewRecord(in.MessageID+".final", event.TypeFinal, in.TraceID, in.EventID, time.Now(), event.Final{}))
		m := event.Message{SenderID: reply.Agent, SenderType: event.CreatedByAgent, AgentID: reply.Agent, Content: reply.Message.Content}
		if in.Ends != "" && len(addressing.Answering(in.Agents, m)) == 0 {
			reply.EndStored = true
			stored = append(stored, event.NewRecord(in.Ends, event.TypeTurnEnded, in.TraceID, in.EventID, time.Now(),
				event.TurnEnded{EventID: in.EventID, Joined: in.Joined, Status: "completed"}))
		}
	}
	f.flush(step.Flush{}, stored...)
	return reply, nil
}

func (f *fakes) runTool(ctx context.Context, in step.Tool) (step.ToolReply, error) {
	f.flush(in.Flush)
	f.mu.Lock()
	f.tools = append(f.tools, in.ToolCallID)
	f.mu.Unlock()
	if f.tool != nil {
		if reply, err := f.tool(ctx, in); err != nil {
			return reply, err
		}
	}
	f.flush(step.Flush{}, event.NewRecord(recordid.Result(in.ToolCallID), event.TypeMessage, in.TraceID, in.EventID, time.Now(),
		event.Message{ID: recordid.Result(in.ToolCallID), SenderType: event.CreatedByTool, ToolCallID: in.ToolCallID, Content: "ran"}))
	out := step.ToolReply{ToolCallID: in.ToolCallID, Status: "succeeded"}
	if f.result != nil {
		out.Decision = f.result(in)
	}
	return out, nil
}

func (f *fakes) record(_ context.Context, in step.Record) error {
	f.flush(in.Flush)
	return nil
}

func (f *fakes) notify(_ context.Context, in step.Notify) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.notices) == 0 {
		close(f.noticed)
	}
	f.notices = append(f.notices, in)
	return nil
}

// cutOff is a model call that ends on a notice. The test environment, unlike a server, ignores its
// result.
func (f *fakes) cutOff() (step.ModelReply, error) {
	<-f.noticed
	return step.ModelReply{}, temporal.NewCanceledError()
}

// awaitNotices waits for n notices and returns them.
func (f *fakes) awaitNotices(n int) (out []step.Notify) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		out = append([]step.Notify(nil), f.notices...)
		return len(out) >= n
	}, testenv.Patience, time.Millisecond)
	return out
}

// reply is a model's reply with tool calls.
func reply(in step.Model, content string, calls ...step.PlannedCall) step.ModelReply {
	agent := in.Agent
	if agent == "" {
		agent = "assistant"
	}
	return step.ModelReply{
		Agent: agent, Model: "demo/demo", MaxSteps: 5, Calls: calls, Usage: event.Usage{InputTokens: 1, OutputTokens: 1},
		Message: event.Message{ID: in.MessageID, ThreadID: in.Thread.ThreadID, SenderType: event.CreatedByAgent, SenderID: agent, AgentID: agent, Content: content},
	}
}

// script replies with calls in the first step, and with text in the second.
func script(calls ...step.PlannedCall) func(context.Context, step.Model) (step.ModelReply, error) {
	return func(_ context.Context, in step.Model) (step.ModelReply, error) {
		if in.Step == 1 {
			return reply(in, "", calls...), nil
		}
		return reply(in, "done"), nil
	}
}

// messages are the stored messages as "id: content".
func (f *fakes) messages() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, r := range f.records {
		if r.Type != event.TypeMessage {
			continue
		}
		var m event.Message
		require.NoError(f.t, json.Unmarshal(r.Payload, &m))
		out = append(out, r.ID+": "+m.Content)
	}
	return out
}

func (f *fakes) types() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]string, 0, len(f.records))
	for _, r := range f.records {
		out = append(out, r.Type)
	}
	return out
}

func stored[T any](f *fakes, typ string) []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []T
	for _, r := range f.records {
		if r.Type == typ {
			var v T
			require.NoError(f.t, json.Unmarshal(r.Payload, &v))
			out = append(out, v)
		}
	}
	return out
}

// fixture is a thread in the test environment.
type fixture struct {
	*testsuite.TestWorkflowEnvironment
	*fakes
	at time.Duration
}

func newFixture(t *testing.T) *fixture { return fixtureWith(t, newFakes(t)) }

func fixtureWith(t *testing.T, f *fakes) *fixture { return hookedWorld(t, f, nil) }

// hookedWorld is a world with hooks and processors.
func hookedWorld(t *testing.T, f *fakes, set *hook.Set) *fixture {
	t.Helper()
	return worldOf(t, f, &workflows.Workflows{Hooks: set})
}

func worldOf(t *testing.T, f *fakes, all *workflows.Workflows) *fixture {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &fixture{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), fakes: f}
	w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: signals.WorkflowID("ns", "t1"), TaskQueue: "q"})
	require.NoError(t, w.SetTypedSearchAttributesOnStart(temporal.NewSearchAttributes(searchattr.Open("ns", nil)...)))
	w.SetTestTimeout(testenv.Patience)
	// The numbers of tasks and sub-agents start from here.
	w.SetStartTime(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	// On a busy machine, a workflow may not be scheduled for a second, which would count as a
	// deadlock.
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: testenv.Patience})
	all.Register(w)
	for name, fn := range map[string]any{
		step.ActivityCallModel: f.callModel, step.ActivityRunTool: f.runTool,
		step.ActivityRecord: f.record, step.ActivityNotify: f.notify,
		step.ActivityRunHooks: f.runHooks, step.ActivityPlanCalls: f.planCalls, step.ActivityLoadEvent: f.loadEvent,
		step.ActivityHandleEvent: f.handleEvent, step.ActivityRunTask: f.runTask, step.ActivityEndDelegate: f.endDelegate,
	} {
		w.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
	return w
}

// then runs do a minute after the previous action, in the thread's time.
func (w *fixture) then(do func()) {
	w.at += time.Minute
	w.RegisterDelayedCallback(do, w.at)
}

func (w *fixture) post(id, content string) { w.SignalWorkflow(signals.SignalPost, says(id, content)) }

func (w *fixture) control(action signals.ControlAction) {
	w.SignalWorkflow(signals.SignalControl, signals.Control{Action: action, By: "ann", Reason: "test"})
}

func (w *fixture) decide(id string, d event.Decision, reason string) {
	w.SignalWorkflow(signals.SignalDecide, signals.Decide{ToolCallID: id, Decision: d, Reason: reason, By: "ann"})
}

// run runs the thread until it is closed, after all other actions.
func (w *fixture) run(in workflows.Input) {
	w.t.Helper()
	w.then(func() { w.control(signals.ControlClose) })
	w.ExecuteWorkflow(signals.ThreadWorkflow, in)
	require.True(w.t, w.IsWorkflowCompleted())
	require.NoError(w.t, w.GetWorkflowError())
	require.Equal(w.t, "closed", w.row.Status)
}

// leave runs the thread until it continues as new, and returns the next input.
func (w *fixture) leave(in workflows.Input) workflows.Input {
	w.t.Helper()
	w.ExecuteWorkflow(signals.ThreadWorkflow, in)
	return w.continued()
}

// continued returns the input of a workflow that has continued as new.
func (w *fixture) continued() workflows.Input {
	w.t.Helper()
	require.True(w.t, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.t, w.GetWorkflowError(), &next)
	var out workflows.Input
	require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &out))
	require.NotNil(w.t, out.State)
	return out
}

func (w *fixture) query(name string, out any) {
	w.t.Helper()
	v, err := w.QueryWorkflow(name)
	require.NoError(w.t, err)
	require.NoError(w.t, v.Get(out))
}

func (w *fixture) state() (out signals.State) {
	w.query(signals.QueryState, &out)
	return out
}

func (w *fixture) approvals() (out signals.Approvals) {
	w.query(signals.QueryApprovals, &out)
	return out
}

// update sends an update; its result is filled in later.
func (w *fixture) update(name string, arg any) *answer {
	a := &answer{}
	w.UpdateWorkflow(name, fmt.Sprintf("u%p", a), a, arg)
	return a
}

// answer is the result of an update.
type answer struct {
	accepted, done bool
	rejected, err  error
	result         any
}

func (a *answer) Accept()          { a.accepted = true }
func (a *answer) Reject(err error) { a.rejected = err }
func (a *answer) Complete(result any, err error) {
	a.done, a.result, a.err = true, result, err
}

func says(id, content string) signals.Post {
	return signals.NewPost(id, event.NewMessage{ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Content: content})
}

func asks(id string) step.PlannedCall {
	return step.PlannedCall{ID: id, Name: "shell_cmd", NeedsApproval: true, Arguments: `{"command":"ls"}`}
}

func plain(id string) step.PlannedCall { return step.PlannedCall{ID: id, Name: "note"} }

func quick(id string) step.PlannedCall {
	return step.PlannedCall{ID: id, Name: "current_time", Quick: true}
}
