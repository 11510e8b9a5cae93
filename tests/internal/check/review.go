package check

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Review is a world in which a foreign hook workflow decides on events.
type Review struct {
	*harness.Harness

	// Hook is its name as a hook.
	Hook string
}

// Reviewed is the hook that decides on messages of people.
const Reviewed = "review"

// RequireBlocked checks that no call of the model for further messages contains what was blocked, and that each contains
// what has passed. A person lets these messages pass.
func (r Review) RequireBlocked(thread, blocked string, passed ...string) {
	r.T.Helper()
	before := r.Provider.Calls()
	for _, content := range []string{"and now", "and then"} {
		require.Equal(r.T, signals.TurnCompleted, r.Says(thread, content, foreign.Ruling{}).Status)
		last := ModelCalls(r.Harness)[r.Provider.Calls()-1].Raw
		for _, text := range passed {
			require.Contains(r.T, last, text)
		}
	}
	for _, call := range ModelCalls(r.Harness)[before:] {
		require.NotContains(r.T, call.Raw, blocked)
	}
}

// NewReview builds a world in which [Reviewed], changed by change if it is not nil, decides.
func NewReview(t *testing.T, o harness.Options, change func(*hook.Hook)) Review {
	t.Helper()
	o.Configure = func(c *threadmill.Config) {
		h := hook.InWorkflow(Reviewed, hook.Workflow{Type: foreign.Review, TaskQueue: ForeignQueue(c.TaskQueue)})
		h.Filter = hook.Filter{Types: []string{event.TypeMessage}, CreatedBy: []event.CreatedBy{event.CreatedByUser}}
		if change != nil {
			change(&h)
		}
		c.Hooks = []hook.Hook{h}
		stop, err := foreign.Work(c.Temporal, ForeignQueue(c.TaskQueue))
		require.NoError(t, err)
		t.Cleanup(stop)
	}
	return Review{harness.New(t, o), Reviewed}
}

// WorkflowID is the id of an event's hook workflow.
func (r Review) WorkflowID(thread, eventID string) string {
	return foreign.WorkflowID(r.TaskQueue, thread, eventID, r.Hook)
}

// Arrived waits until the hook workflow of an event has started, and returns its input.
func (r Review) Arrived(thread, eventID string) foreign.Request {
	r.T.Helper()
	var in foreign.Request
	require.Eventually(r.T, func() bool {
		v, err := r.Temporal.QueryWorkflow(r.Ctx(), r.WorkflowID(thread, eventID), "", foreign.Case)
		return err == nil && v.Get(&in) == nil
	}, testenv.Patience, testenv.Tick)
	return in
}

// Rule decides on an event, once its hook workflow has started.
func (r Review) Rule(thread, eventID string, ruling foreign.Ruling) {
	r.T.Helper()
	r.Arrived(thread, eventID)
	require.NoError(r.T, foreign.Rule(r.Ctx(), r.Temporal, r.WorkflowID(thread, eventID), ruling))
}

// Says posts a message, decides on it, and waits for the end of its turn.
func (r Review) Says(thread, content string, ruling foreign.Ruling) signals.TurnResult {
	r.T.Helper()
	posted := r.Post(thread, content)
	r.Rule(thread, posted, ruling)
	return r.Await(thread, posted)
}

// EndsAs waits until a workflow has ended with a status.
func (r Review) EndsAs(workflowID string, as enumspb.WorkflowExecutionStatus) {
	r.T.Helper()
	require.Eventually(r.T, func() bool {
		d, err := r.Temporal.DescribeWorkflowExecution(r.Ctx(), workflowID, "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus() == as
	}, testenv.Patience, testenv.Tick, "%s: %v", workflowID, as)
}

// DecisionOn waits for the record of the decision on an event.
func (r Review) DecisionOn(thread, eventID string) event.Interception {
	r.T.Helper()
	return decisionIn(r.Harness, thread, recordid.Interception(eventID))
}

// FailureOn is [Review.DecisionOn] for a decision that failed its event.
func (r Review) FailureOn(thread, eventID string) event.Interception {
	r.T.Helper()
	return decisionIn(r.Harness, thread, recordid.Interception(eventID)+".failed")
}

// Input is the JSON input of an event's hook workflow.
func (r Review) Input(thread, eventID string) string {
	r.T.Helper()
	events, err := RunHistory(r.Ctx(), r.Temporal, r.WorkflowID(thread, eventID), "")
	require.NoError(r.T, err)
	payloads := events[0].GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads()
	require.Len(r.T, payloads, 1)
	require.Equal(r.T, converter.MetadataEncodingJSON, string(payloads[0].GetMetadata()[converter.MetadataEncoding]))
	return string(payloads[0].GetData())
}

// Move posts events until the thread has continued as new. It returns their number.
func (r Review) Move(thread string) (posted int) {
	r.T.Helper()
	for begun := CurrentRun(r.Harness, thread); CurrentRun(r.Harness, thread) == begun; posted += 10 {
		for range 10 {
			_, err := r.Threads.PostSignal(r.Ctx(), thread, signals.Post{Type: "tick", Payload: []byte(`{}`)})
			require.NoError(r.T, err)
		}
	}
	return posted
}

// Idle waits until a thread has nothing left to do, and all of it is stored.
func (r Review) Idle(thread string) {
	r.T.Helper()
	Settle(r.Harness, thread)
}

// Terminate terminates a workflow like an operator.
func (r Review) Terminate(workflowID string) {
	r.T.Helper()
	require.NoError(r.T, r.Temporal.TerminateWorkflow(r.Ctx(), workflowID, "", "it hangs"))
}

// HooksOf is the id of the workflow that started an event's foreign hook workflow.
func (r Review) HooksOf(thread, eventID string) string {
	return signals.HookWorkflowID(r.TaskQueue, thread, eventID)
}

// RequireDecidedOnce checks that the records have one decision, and that the hook ran once.
func (r Review) RequireDecidedOnce(t *testing.T, thread, eventID string) {
	t.Helper()
	r.DecisionOn(thread, eventID)
	require.Len(t, OfType(r.Harness, thread, event.TypeHook), 1)
	require.Empty(t, OfType(r.Harness, thread, event.TypeRejected), "nobody has said anything that was not heard")
	for _, id := range []string{r.HooksOf(thread, eventID), r.WorkflowID(thread, eventID)} {
		r.EndsAs(id, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED) // they report to the thread before they end
	}
}

// RequireMoved decides on an event whose thread has continued as new, and checks the result.
func (r Review) RequireMoved(t *testing.T, id, posted string, ticks int) {
	t.Helper()
	state, err := r.Threads.State(r.Ctx(), id)
	require.NoError(t, err)
	require.Equal(t, signals.ThreadRunning, state.Status, "it waits still")
	require.Equal(t, posted, state.Turn.EventID)
	require.Zero(t, r.Provider.Calls())
	r.Rule(id, posted, foreign.Ruling{Content: "hello there"})
	AwaitMessages(r.Harness, id, 2)
	require.Equal(t, "hello there", r.Messages(id)[1].Content)
	r.RequireDecidedOnce(t, id, posted)
	r.Idle(id)
	came := 0
	for _, rec := range AllRecords(r.Harness, id) {
		if rec.Type == "tick" {
			came++
		}
	}
	require.Equal(t, ticks, came, "what came meanwhile is not lost")
	require.Equal(t, 1, r.Provider.Calls())
}

// AsksAgain waits until a thread that has continued as new has found the hook workflow again.
func (r Review) AsksAgain(thread string) {
	r.T.Helper()
	require.Eventually(r.T, func() bool {
		return slices.ContainsFunc(HistoryOf(r.Harness, thread, ""), func(e *history.HistoryEvent) bool {
			return e.GetEventType() == enumspb.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED
		})
	}, testenv.Patience, testenv.Tick)
	AwaitRest(r.Harness, thread)
}

// InTurn says texts, one after the other.
func (r Review) InTurn(thread string, said ...string) {
	for _, text := range said {
		r.Say(thread, text)
	}
}

// PostEvent posts a custom event.
func (r Review) PostEvent(thread, id, typ, payload string) {
	r.T.Helper()
	_, err := r.Threads.Post(r.Ctx(), thread, signals.Post{ID: id, Type: typ, Payload: []byte(payload)})
	require.NoError(r.T, err)
}

// ForeignQueue is the task queue of foreign hook workflows for threads on a task queue.
func ForeignQueue(queue string) string { return queue + "-foreign" }
