package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/workflows"
)

// recordedRules are the rules of the stored histories.
func recordedRules() []rule.Rule {
	code := func(_ context.Context, _ rule.Context, e event.EnvEvent) error {
		if strings.Contains(string(e.Payload), "fail") {
			return errors.New("it cannot be")
		}
		return nil
	}
	wake := &rule.Agent{Name: "assistant", Prompt: "See to it."}
	return []rule.Rule{
		{Name: "burst", Events: []string{"burst.*"}, Priority: 20, Debounce: 300 * time.Millisecond, Agent: wake},
		{Name: "drip", Events: []string{"drip.*"}, Priority: 20, Throttle: 300 * time.Millisecond, Agent: wake},
		{Name: "code", Events: []string{"code.*"}, Priority: 20, Function: code, MaxAttempts: 2},
		{Name: "both", Events: []string{"both.*"}, Priority: 20, Function: code, Agent: wake},
		{Name: "sort", Events: []string{"sort.*"}, Priority: 20, Processor: "sorter"},
		{Name: "gone", Events: []string{"gone.*"}, Priority: 20, Processor: "nobody"},
		{
			Name: "tools", Events: []string{"tool.*"}, Priority: 20, Agent: wake,
			Where: []rule.Condition{{Field: "payload.toolName", Equals: "current_time"}},
		},
		{Name: "life", Events: []string{event.TypeSessionUpdated}, Priority: 60, Function: code},
	}
}

// sorter turns events into messages, for the rule "sort".
func sorter() hook.Processor {
	return hook.Processor{
		Name: "sorter", EventType: "nothing.else", OnFailure: hook.FailClosed, MaxAttempts: 1,
		Process: func(_ context.Context, e event.Event, _ hook.Deps) ([]hook.Produced, error) {
			said := string(e.(event.EnvEvent).Payload)
			if strings.Contains(said, "fail") {
				return nil, errors.New("it cannot be sorted")
			}
			return []hook.Produced{hook.Message(event.CreatedByUser, "sorter", "sorted "+said)}, nil
		},
	}
}

// recordedTools are the tools of the stored histories.
func recordedTools() []tool.Tool {
	in := func(fail error) func(context.Context, tool.Call, struct{}) (string, error) {
		return func(context.Context, tool.Call, struct{}) (string, error) { return `{"built":true}`, fail }
	}
	return []tool.Tool{
		tool.MustFunc("build", "Builds.", in(nil), tool.Background()),
		tool.MustFunc("broken", "Fails.", in(errors.New("disk full")), tool.Background()),
		tool.MustFunc("order", "Is completed from outside.", in(tool.ErrPending), tool.Background(), tool.Deadline(time.Hour)),
		tool.MustFunc("late", "Is never completed.", in(tool.ErrPending), tool.Background(), tool.Deadline(200*time.Millisecond)),
		tool.MustFunc("keep", "Outlives its thread.", in(tool.ErrPending), tool.Background(), tool.Detached()),
		tool.MustFunc("risky", "Asks.", in(nil), tool.NeedsApproval("it is risky")),
		&harness.Booking{},
	}
}

// allWorkers are workers on which every history must replay: with the recorded hooks and rules, and
// with others.
func allWorkers(t *testing.T) map[string]*workflows.Workflows {
	t.Helper()
	set := func(cfg rule.Config) *rule.Set {
		out, err := rule.NewSet(cfg)
		require.NoError(t, err)
		return out
	}
	recorded, err := hook.NewSet(hook.Config{Hooks: recordedHooks("threads"), Processors: append(recordedProcessors(), sorter())})
	require.NoError(t, err)
	out := map[string]*workflows.Workflows{}
	for name, hooks := range workersOf(t) {
		out[name] = &workflows.Workflows{NameStep: workflows.Unregistered, Hooks: hooks}
	}
	var others []rule.Rule
	for _, r := range recordedRules() {
		others = append(others, rule.Rule{Name: r.Name, Events: r.Events, Priority: r.Priority, Debounce: time.Hour})
	}
	function := func(context.Context, rule.Context, event.EnvEvent) error { return nil }
	for name, rules := range map[string]*rule.Set{
		"the same rules": set(rule.Config{Rules: recordedRules()}),
		"no rules":       set(rule.Config{WithoutDefaults: true}),
		"other rules":    set(rule.Config{Rules: others}),
		"one rule":       set(rule.Config{Rules: []rule.Rule{{Events: []string{"*"}, Priority: 1000, Function: function}}}),
	} {
		out[name] = &workflows.Workflows{NameStep: workflows.Unregistered, Hooks: recorded, Rules: rules}
	}
	return out
}

// newEventWorld builds a world with the rules and tools of the stored histories.
func newEventWorld(t *testing.T, o harness.Options) *harness.Harness {
	t.Helper()
	o.Tools = recordedTools()
	own := []string{
		"note", "current_time", "build", "broken", "order", "late", "keep", "call_agent", "task", "list_tasks", "get_task", "cancel_task", "book",
	}
	o.Agents = []agent.Agent{
		{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: own},
		{Name: "helper", Instructions: "You do it.", Model: "openai/stand-in", Tools: []string{"note", "risky", "order", "book"}},
	}
	o.Configure = func(c *threadmill.Config) {
		// Workers do not start with a rule whose processor they do not have.
		gone := sorter()
		gone.Name = "nobody"
		gone.Process = func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
			return nil, errors.New("it is gone")
		}
		c.Rules, c.Processors = recordedRules(), []hook.Processor{sorter(), gone}
	}
	return harness.New(t, o)
}

// lived is a thread with events, tasks and sub-agents.
type lived struct {
	*harness.Harness
	id string
}

// eventLives are those threads.
var eventLives = map[string]func(l lived){
	"event": liveEvent, "bursts": liveBursts, "burstsmoved": liveBurstsMoved, "code": liveCode, "sorted": liveSorted, "told": liveTold,
	"tasks": liveTasks, "taskmoved": liveTaskMoved, "taskended": liveTaskEnded,
	"sub": liveSub, "submoved": liveSubMoved, "substop": liveSubStopped, "subtask": liveSubTask, "subinput": liveSubInput,
}

// turn publishes an event and waits for the end of its turn.
func (l lived) turn(id, typ, payload string) signals.TurnResult {
	l.T.Helper()
	out, err := l.Threads.Turn(l.Ctx(), l.id, signals.EnvPost(event.EnvEvent{ID: id, Type: typ, Timestamp: 1_700_000_000_000, Payload: json.RawMessage(payload)}))
	require.NoError(l.T, err)
	return out
}

// say posts a message whose turn must complete.
func (l lived) say(lines ...string) {
	l.T.Helper()
	require.Equal(l.T, signals.TurnCompleted, l.Say(l.id, strings.Join(lines, "\n")).Status)
}

// calm waits until the thread has nothing left to do, and no task runs.
func (l lived) calm() {
	l.T.Helper()
	require.Eventually(l.T, func() bool {
		s, err := l.Threads.State(context.Background(), l.id)
		return err == nil && s.Status == signals.ThreadIdle && s.QueueLength == 0 && len(s.Held) == 0 && s.Tasks == 0
	}, testenv.Patience, testenv.Tick)
	check.Settle(l.Harness, l.id)
}

// moves makes the thread continue as new.
func (l lived) moves() {
	l.T.Helper()
	first := check.CurrentRun(l.Harness, l.id)
	require.Eventually(l.T, func() bool {
		_, err := l.Threads.Post(l.Ctx(), l.id, signals.UserMessage(l.id, "ann", "more"))
		return err == nil && check.CurrentRun(l.Harness, l.id) != first
	}, testenv.Patience, testenv.Tick)
}

// running is the id of the one running task of a tool.
func (l lived) running(tool string) string {
	l.T.Helper()
	var id string
	tasks, err := l.Threads.Tasks(l.Ctx(), l.id)
	require.NoError(l.T, err)
	for _, task := range tasks.Tasks {
		if task.Tool == tool && !task.State.Ended() {
			require.Empty(l.T, id)
			id = task.ID
		}
	}
	require.NotEmpty(l.T, id)
	return id
}

func (l lived) complete(c signals.CompleteTask) {
	l.T.Helper()
	out, err := l.Threads.CompleteTask(l.Ctx(), c)
	require.NoError(l.T, err)
	require.Equal(l.T, signals.TaskAccepted, out.Result)
}

func liveEvent(l lived) {
	require.Equal(l.T, signals.TurnCompleted, l.turn("e1", "file.changed", `{"path":"a.go"}`).Status)
	require.Equal(l.T, signals.TurnCompleted, l.turn("e2", event.TypeUserQuery, `{"content":"use note {}"}`).Status)
	require.Equal(l.T, signals.TurnCompleted, l.turn("e3", "stream.completed", `{}`).Status)
	require.NoError(l.T, l.Temporal.SignalWorkflow(l.Ctx(), signals.WorkflowID(l.TaskQueue, l.id), "", signals.SignalPost,
		event.EnvEvent{ID: "e1", Type: "file.changed", Timestamp: 1}))
	l.say("hello")
}

func liveBursts(l lived) {
	for i := range 3 {
		require.Equal(l.T, signals.TurnHeld, l.turn(fmt.Sprintf("b%d", i), "burst.a", fmt.Sprint(i)).Status)
	}
	l.calm()
	for i := range 3 {
		l.turn(fmt.Sprintf("d%d", i), "drip.a", fmt.Sprint(i))
	}
	l.calm()
}

// liveBurstsMoved continues as new while events are held back.
func liveBurstsMoved(l lived) {
	l.turn("d0", "drip.a", `0`)
	l.moves()
	l.turn("b0", "burst.a", `1`)
	l.calm()
	l.turn("b1", "burst.a", `2`)
	l.moves()
	l.calm()
}

func liveCode(l lived) {
	require.Equal(l.T, signals.TurnCompleted, l.turn("c1", "code.a", `1`).Status)
	require.Equal(l.T, signals.TurnFailed, l.turn("c2", "code.a", `"fail"`).Status)
	_, err := l.Threads.Retry(l.Ctx(), l.id, "c2", "ann")
	require.NoError(l.T, err)
	require.Equal(l.T, signals.TurnFailed, l.Await(l.id, "c2").Status)
	require.Equal(l.T, signals.TurnCompleted, l.turn("c3", "both.a", `1`).Status)
}

func liveSorted(l lived) {
	require.Equal(l.T, signals.TurnCompleted, l.turn("s1", "sort.a", `"hello"`).Status)
	require.Equal(l.T, signals.TurnFailed, l.turn("s2", "sort.a", `"fail"`).Status)
	require.Equal(l.T, signals.TurnFailed, l.turn("s3", "gone.a", `1`).Status)
}

// liveTold has rules for the ends of tools, and for changes of the thread.
func liveTold(l lived) {
	l.say("use current_time {}")
	l.calm()
	_, err := l.Threads.Update(l.Ctx(), l.id, signals.ThreadChange{Title: "Another title", By: "ann"})
	require.NoError(l.T, err)
	l.calm()
}

// liveTasks ends tasks in every way.
func liveTasks(l lived) {
	l.say("use build {}", "use broken {}", `use task {"tool":"order","title":"Tea"}`)
	l.complete(signals.CompleteTask{TaskID: l.running("order"), Result: json.RawMessage(`{"cup":1}`), By: "ann"})
	l.calm()
	l.say("use order {}")
	require.NoError(l.T, l.Temporal.SignalWorkflow(l.Ctx(), signals.WorkflowID(l.TaskQueue, l.id), "", signals.SignalCompleteTask,
		signals.CompleteTask{TaskID: l.running("order"), Error: "sold out"}))
	l.calm()
	l.say("use late {}")
	l.calm()
	l.say("use order {}", "use list_tasks {}")
	id := l.running("order")
	l.say(`use get_task {"taskId":"`+id+`"}`, `use cancel_task {"taskId":"`+id+`"}`, `use cancel_task {"taskId":"t9"}`)
	l.calm()
}

// liveTaskMoved continues as new while a task runs.
func liveTaskMoved(l lived) {
	l.say("use order {}")
	l.moves()
	check.Settle(l.Harness, l.id)
	out, err := l.Threads.CancelTask(l.Ctx(), signals.CancelTask{TaskID: l.running("order"), By: "ann"})
	require.NoError(l.T, err)
	require.Equal(l.T, signals.TaskAccepted, out.Result)
	l.calm()
}

// liveTaskEnded closes the thread while tasks run, one of which outlives it.
func liveTaskEnded(l lived) {
	l.say("use order {}", "use keep {}")
	kept := l.running("keep")
	require.NoError(l.T, l.Threads.Control(l.Ctx(), l.id, signals.Control{Action: signals.ControlClose, By: "ann"}))
	require.NoError(l.T, l.Temporal.GetWorkflow(l.Ctx(), signals.WorkflowID(l.TaskQueue, l.id), "").Get(l.Ctx(), nil))
	l.complete(signals.CompleteTask{TaskID: kept, Result: json.RawMessage(`1`), By: "ann"})
}

// liveSub asks sub-agents: one answers, one needs approval, one does not exist.
func liveSub(l lived) {
	l.say(`use call_agent {"agent":"helper","message":"use note {}"}`, `use call_agent {"agent":"helper","message":"hello"}`)
	posted := l.Post(l.id, `use call_agent {"agent":"helper","message":"use risky {}"}`+"\n"+`use call_agent {"agent":"nobody","message":"hello"}`)
	approveAll(l, 1)
	require.Equal(l.T, signals.TurnCompleted, l.Await(l.id, posted).Status)
}

// approveAll approves n calls.
func approveAll(l lived, n int) {
	l.T.Helper()
	for _, call := range l.AwaitApproval(l.id, n) {
		out, err := l.Threads.Decide(l.Ctx(), l.id, signals.Decide{ToolCallID: call.ToolCallID, Decision: event.DecisionApprove, By: "ann"})
		require.NoError(l.T, check.Unrefused(err))
		require.Equal(l.T, signals.DecideAccepted, out.Result)
	}
}

// liveSubMoved continues as new while a sub-agent works.
func liveSubMoved(l lived) {
	posted := l.Post(l.id, `use call_agent {"agent":"helper","message":"use risky {}"}`)
	l.AwaitApproval(l.id, 1)
	l.moves()
	approveAll(l, 1)
	l.Await(l.id, posted)
	l.calm()
}

// liveSubStopped interrupts the thread while a sub-agent works.
func liveSubStopped(l lived) {
	l.Post(l.id, `use call_agent {"agent":"helper","message":"use risky {}"}`)
	l.AwaitApproval(l.id, 1)
	require.NoError(l.T, l.Threads.Control(l.Ctx(), l.id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	l.calm()
	l.say("hello")
}

// liveSubTask runs sub-agents in the background, one of which starts a task itself.
func liveSubTask(l lived) {
	l.say(`use task {"agent":"helper","message":"use risky {}"}`, `use task {"agent":"helper","message":"use order {}"}`)
	approveAll(l, 1)
	l.calm()
}

// liveSubInput asks for input, and lets sub-agents ask: the answers are given in the thread, and in those of the sub-agents,
// before and after it continues as new. One is interrupted.
func liveSubInput(l lived) {
	answer := func(at string, round int, id string, answer event.InputAnswer) {
		l.T.Helper()
		var q event.InputRequest
		require.Eventually(l.T, func() bool {
			out, err := l.Threads.Approvals(l.Ctx(), at)
			if err != nil || len(out.Inputs) != 1 {
				return false
			}
			q = out.Inputs[0]
			return q.Round == round
		}, testenv.Patience, testenv.Tick)
		got, err := l.Threads.AnswerInput(l.Ctx(), at, signals.InputAnswers{ToolCallID: q.ToolCallID, Round: round, By: "ann", Answers: map[string]event.InputAnswer{id: answer}})
		require.NoError(l.T, check.Unrefused(err))
		require.Equal(l.T, signals.DecideAccepted, got)
	}
	day, paid := check.Accepted(`{"day":"monday"}`), check.Accepted("")
	posted := l.Post(l.id, "use book {}")
	answer(l.id, 1, "when", event.InputAnswer{Action: event.InputDecline})
	require.Equal(l.T, signals.TurnCompleted, l.Await(l.id, posted).Status)

	const asks = `use call_agent {"agent":"helper","message":"use book {}"}`
	posted = l.Post(l.id, asks)
	answer(l.id, 1, "when", day)
	answer(check.Sub(l.Harness, l.id, 1), 2, "pay", paid)
	require.Equal(l.T, signals.TurnCompleted, l.Await(l.id, posted).Status)

	posted = l.Post(l.id, asks)
	answer(l.id, 1, "when", day)
	l.moves()
	answer(l.id, 2, "pay", paid)
	l.Await(l.id, posted)

	l.Post(l.id, asks)
	require.Eventually(l.T, func() bool {
		s, err := l.Threads.State(l.Ctx(), l.id)
		return err == nil && s.Status == signals.ThreadWaitingApproval
	}, testenv.Patience, testenv.Tick)
	require.NoError(l.T, l.Threads.Control(l.Ctx(), l.id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	l.calm()
}

// recordEvents runs each life once and stores the histories of the threads, their tasks and their
// sub-agents.
func recordEvents(t *testing.T, o harness.Options) {
	t.Helper()
	w := newEventWorld(t, o)
	for name, live := range eventLives {
		id := w.Open("assistant")
		first := check.CurrentRun(w, id)
		live(lived{w, id})
		storeRuns(t, w, id, first, name)
		n := 0
		for _, events := range check.RunsOf(w, id, first) {
			n = storeStarted(t, w, events, name, n)
		}
	}
}

// storeStarted stores the histories of the tasks and sub-agents that a workflow has started,
// recursively. n counts them.
func storeStarted(t *testing.T, w *harness.Harness, events []*history.HistoryEvent, name string, n int) int {
	t.Helper()
	for _, e := range events {
		started := e.GetStartChildWorkflowExecutionInitiatedEventAttributes()
		if typ := started.GetWorkflowType().GetName(); typ != signals.TaskWorkflow && typ != signals.DelegateWorkflow {
			continue
		}
		// Only the end matters, not its status.
		_ = w.Temporal.GetWorkflow(w.Ctx(), started.GetWorkflowId(), "").Get(w.Ctx(), nil)
		below, err := check.RunHistory(w.Ctx(), w.Temporal, started.GetWorkflowId(), "")
		require.NoError(t, err)
		n++
		write(t, fmt.Sprintf("%s-%s%d", name, started.GetWorkflowType().GetName(), n), below)
		n = storeStarted(t, w, below, name, n)
	}
	return n
}
