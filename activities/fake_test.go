package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/internal/transcript/modelcontext"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/tool"
)

var ref = step.Ref{Namespace: "ns", ThreadID: "t1"}

// model is a provider with the replies of the test, which records its requests.
type model struct {
	mu       sync.Mutex
	requests []llm.Request
	answer   func(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error)
}

func (m *model) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	m.mu.Lock()
	m.requests = append(m.requests, req)
	m.mu.Unlock()
	if m.answer == nil {
		onDelta(llm.Delta{Text: "ok"})
		return llm.Response{Type: llm.TypeText, Content: "ok", Usage: event.Usage{InputTokens: 3, OutputTokens: 1}, Model: "small-1", Tier: "flex"}, nil
	}
	return m.answer(ctx, req, onDelta)
}

// fixture is the environment of activities.
type fixture struct {
	t      *testing.T
	all    *activities.Activities
	env    *testsuite.TestActivityEnvironment
	store  teststore.Store
	stream stream.Stream
	model  *model
}

func newFixture(t *testing.T, change func(*activities.Config), tools ...tool.Tool) *fixture {
	t.Helper()
	w := &fixture{t: t, stream: memory.New(memory.Config{}), model: &model{}}
	var err error
	w.store, err = sqlite.Open(context.Background(), sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(w.store.Close(), w.stream.Close())) })
	set, err := tool.NewSet(tools...)
	require.NoError(t, err)
	who := agent.Agent{Name: "assistant", Instructions: "You help.", Model: "fake/small", Tools: set.Names()}
	cfg := activities.Config{
		Agents: agent.Fixed{who, {Name: "bob", Model: "fake/small", Tools: set.Names()}}, Store: w.store, Stream: w.stream,
		Models: map[string]llm.Provider{"fake": w.model}, Tools: set, Logger: slog.New(slog.DiscardHandler),
		NoLocalSteps: true, // results tell no durations
	}
	if change != nil {
		change(&cfg)
	}
	a, err := activities.New(cfg)
	require.NoError(t, err)
	w.all = a
	w.env = w.newEnv()
	return w
}

// newEnv returns an environment that runs the activities.
func (w *fixture) newEnv() *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(testenv.Patience)
	w.all.Register(env)
	return env
}

// says is the workflow's unstored record of a person's message.
func says(id, content string) step.Flush {
	return step.Flush{Records: []event.Record{message(event.Message{
		ID: id, ThreadID: "t1", SenderID: "ann", SenderType: event.CreatedByUser, Role: event.RoleUser, Content: content,
	})}}
}

func message(m event.Message) event.Record {
	return event.NewRecord(m.ID, event.TypeMessage, "e1", "", time.Now(), m)
}

func modelStep() step.Model {
	return step.Model{Run: step.Run{Thread: ref, TraceID: "e1", EventID: "e1", MessageID: "e1.0.1", Flush: says("e1", "hello")}, ReplyTo: "e1", Step: 1}
}

func (w *fixture) callModel(in step.Model) (step.ModelReply, error) {
	var out step.ModelReply
	v, err := w.env.ExecuteActivity(step.ActivityCallModel, in)
	if err == nil {
		require.NoError(w.t, v.Get(&out))
		w.reproduces(in)
	}
	return out, err
}

// reproduces checks that the record of a model call tells what the model saw.
func (w *fixture) reproduces(in step.Model) {
	w.t.Helper()
	records, err := w.store.RecordsByID(context.Background(), in.Thread, recordid.LLMCall(in.MessageID))
	require.NoError(w.t, err)
	var call event.LLMCall
	if len(records) == 0 {
		return // interrupted before the first word
	}
	require.NoError(w.t, json.Unmarshal(records[0].Payload, &call))
	if call.Context == nil {
		return // stored by the test
	}
	req, exact, err := modelcontext.Reproduce(context.Background(), w.store, in.Thread, call)
	require.NoError(w.t, err)
	require.True(w.t, exact)
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	var made []string
	for _, r := range w.model.requests {
		made = append(made, encoded(w.t, r))
	}
	if len(made) > 0 { // the test may have a provider of its own
		require.Contains(w.t, made, encoded(w.t, req))
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

func (w *fixture) runTool(in step.Tool) (step.ToolReply, error) {
	var out step.ToolReply
	v, err := w.env.ExecuteActivity(step.ActivityRunTool, in)
	if err == nil {
		require.NoError(w.t, v.Get(&out))
	}
	return out, err
}

// retried runs an activity with Temporal's retries.
func (w *fixture) retried(name string, in any) error {
	w.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(testenv.Patience)
	// On a busy machine, a workflow may not be scheduled for a second, which would count as a
	// deadlock.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: testenv.Patience})
	w.all.Register(env)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, name, in).Get(ctx, nil)
	})
	require.True(w.t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

// asked stores a reply with these calls and returns the step that runs the first.
func (w *fixture) asked(calls ...event.ToolCall) step.Tool {
	w.t.Helper()
	w.append(store.Batch{Records: []event.Record{message(event.Message{
		ID: "e1.0.1", ThreadID: "t1", SenderID: "assistant", SenderType: event.CreatedByAgent, AgentID: "assistant", ToolCalls: calls,
	})}})
	return step.Tool{
		Run:        step.Run{Thread: ref, Agent: "assistant", TraceID: "e1", EventID: "e1", MessageID: "e1.0.1"},
		ToolCallID: calls[0].ID,
		ToolName:   calls[0].Function.Name,
	}
}

func call(id, name, arguments string) event.ToolCall {
	return event.ToolCall{ID: id, Function: event.Function{Name: name, Arguments: arguments}}
}

func (w *fixture) append(b store.Batch) {
	w.t.Helper()
	_, err := w.store.Append(context.Background(), ref, b)
	require.NoError(w.t, err)
}

func (w *fixture) records() []event.Record {
	w.t.Helper()
	out, err := w.store.Records(context.Background(), ref, store.Query{})
	require.NoError(w.t, err)
	return out
}

// ids are the ids of the records, without what model calls have in common.
func (w *fixture) ids() []string {
	out := []string{}
	for _, r := range w.records() {
		if r.Type != event.TypePrompt {
			out = append(out, r.ID)
		}
	}
	return out
}

func stored[T any](w *fixture, id string) T {
	w.t.Helper()
	var v T
	for _, r := range w.records() {
		if r.ID == id {
			require.NoError(w.t, json.Unmarshal(r.Payload, &v))
			return v
		}
	}
	w.t.Fatalf("no record %s in %v", id, w.ids())
	return v
}

func (w *fixture) toolLog(id string) store.ToolLog {
	w.t.Helper()
	log, err := w.store.ToolLog(context.Background(), ref, id)
	require.NoError(w.t, err)
	return log
}

// live returns the entries of the live stream so far.
func (w *fixture) live() []stream.Entry {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	sub, err := w.stream.Subscribe(ctx, ref, stream.From{})
	require.NoError(w.t, err)
	defer sub.Close()
	var out []stream.Entry
	for last := sub.Start().Last; last > 0 && (len(out) == 0 || out[len(out)-1].Offset < last); {
		e, err := sub.Next(ctx)
		require.NoError(w.t, err)
		out = append(out, e)
	}
	return out
}

// interrupt notifies the running step and waits until it is cancelled.
func (w *fixture) interrupt(ctx context.Context) { w.interruptAs(ctx, "e1") }

func (w *fixture) interruptAs(ctx context.Context, traceID string) {
	_ = w.stream.Notify(context.Background(), ref, stream.Notice{TraceID: "another"})
	_ = w.stream.Notify(context.Background(), ref, stream.Notice{TraceID: traceID})
	<-ctx.Done()
}

func appError(t *testing.T, err error) *temporal.ApplicationError {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	return app
}
