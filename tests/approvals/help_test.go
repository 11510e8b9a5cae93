package approvals

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// office is a world whose tool calls need approval. It checks that every transcript of its model is
// valid for all providers.
type office struct{ *harness.Harness }

func newOffice(t *testing.T, o harness.Options) office {
	t.Helper()
	w := harness.New(t, o)
	t.Cleanup(func() { assert.Empty(t, w.Provider.Violations(), "every provider takes the transcripts") })
	return office{w}
}

// talk is a thread of an office.
type talk struct {
	office
	t  *testing.T
	id string
}

func (o office) talk(t *testing.T, agents ...string) talk {
	t.Helper()
	return talk{o, t, o.Open(agents...)}
}

func (c talk) post(lines ...string) string { return c.Post(c.id, strings.Join(lines, "\n")) }

// asks makes the agent call one tool that needs approval, and returns the request.
func (c talk) asks(lines ...string) (posted string, q event.ApprovalRequest) {
	c.t.Helper()
	posted = c.post(lines...)
	require.Eventually(c.t, func() bool {
		out, err := c.Threads.Approvals(c.Ctx(), c.id)
		if err == nil && len(out.Approvals) == 1 {
			q = out.Approvals[0]
		}
		return q.ToolCallID != "" || c.over(posted)
	}, testenv.Patience, testenv.Tick)
	require.NotEmpty(c.t, q.ToolCallID, "nobody was asked: %s", lines)
	c.rests()
	return posted, c.AwaitApproval(c.id, 1)[0]
}

// rests waits until the thread has handled everything so far. Until then, a query may return other
// times than the records have.
func (c talk) rests() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		found, err := c.Temporal.DescribeWorkflowExecution(c.Ctx(), signals.WorkflowID(c.TaskQueue, c.id), "")
		return err == nil && found.GetPendingWorkflowTask() == nil
	}, testenv.Patience, testenv.Tick)
}

// expires makes the agent call one tool that needs approval, lets the request expire, and returns
// the result of the turn and the request. The request is looked up afterwards, because it may
// expire while a busy machine looks for it.
func (c talk) expires(lines ...string) (out signals.TurnResult, q event.ApprovalRequest) {
	c.t.Helper()
	out = check.Await(c.t, c.Harness, c.id, c.post(lines...))
	asked := check.OfType(c.Harness, c.id, event.TypeApprovalRequest)
	require.NotEmpty(c.t, asked, "nobody was asked: %s", lines)
	return out, harness.Payload[event.ApprovalRequest](c.Harness, asked[0])
}

// over reports whether a turn has ended, as the thread's last.
func (c talk) over(posted string) bool {
	stored, err := c.Store.RecordsByID(c.Ctx(), c.Key(c.id), posted)
	if err != nil || len(stored) == 0 {
		return false
	}
	state, err := c.Threads.State(c.Ctx(), c.id)
	return err == nil && state.Status == signals.ThreadIdle
}

// again waits for a new request about a call.
func (c talk) again(q event.ApprovalRequest) event.ApprovalRequest {
	c.t.Helper()
	var found event.ApprovalRequest
	require.Eventually(c.t, func() bool {
		out, err := c.Threads.Approvals(c.Ctx(), c.id)
		for _, one := range out.Approvals {
			if one.ToolCallID == q.ToolCallID && one.Round > q.Round {
				found = one
			}
		}
		return err == nil && found.Round > 0
	}, testenv.Patience, testenv.Tick, "call %s is asked about in a round after %d", q.ToolCallID, q.Round)
	return found
}

// granting is ann's approval of a request for the session.
func granting(q event.ApprovalRequest) signals.Decide {
	d := check.Approving(q)
	d.Scope = event.ScopeSession
	return d
}

// decides decides by update, and requires an outcome.
func (c talk) decides(want signals.DecideOutcome, d signals.Decide) signals.DecideResult {
	c.t.Helper()
	out, err := c.Threads.Decide(c.Ctx(), c.id, d)
	require.NoError(c.t, check.Unrefused(err))
	require.Equal(c.t, want, out.Result)
	require.Equal(c.t, out.Err(c.id, d.ToolCallID), err)
	require.Equal(c.t, want == signals.DecideNotAllowed, errors.Is(err, signals.ErrNotAllowed))
	require.Equal(c.t, want == signals.DecideNotPending, errors.Is(err, signals.ErrNotPending))
	return out
}

// decidesByHTTP decides over the API, and requires a status and an outcome.
func (c talk) decidesByHTTP(status int, want signals.DecideOutcome, d signals.Decide) {
	c.t.Helper()
	got, out := check.Request(c.t, c.Harness, http.MethodPost, "/v1/threads/"+c.id+"/approvals/"+d.ToolCallID, bodyOf(d))
	require.Equal(c.t, status, got, out)
	require.Equal(c.t, string(want), out["result"])
}

// bodyOf is a decision as the body of a request: the call is in the path.
func bodyOf(d signals.Decide) map[string]any {
	body := map[string]any{"decision": d.Decision, "by": d.By}
	for name, text := range map[string]string{
		"scope": string(d.Scope), "agent": d.Agent, "toolName": d.ToolName, "workingDirectory": d.WorkingDirectory, "digest": d.Digest,
	} {
		if text != "" {
			body[name] = text
		}
	}
	if len(d.ToolArgs) > 0 {
		body["toolArgs"] = d.ToolArgs
	}
	if d.Round > 0 {
		body["round"] = d.Round
	}
	return body
}

// signals sends a signal like a plain Temporal client.
func (c talk) signals(name string, payload any) {
	c.t.Helper()
	require.NoError(c.t, c.Temporal.SignalWorkflow(c.Ctx(), signals.WorkflowID(c.TaskQueue, c.id), "", name, payload))
}

// completes waits until a turn has completed.
func (c talk) completes(posted string) {
	c.t.Helper()
	out := check.Await(c.t, c.Harness, c.id, posted)
	require.Equal(c.t, signals.TurnCompleted, out.Status, out.Error)
}

// runsUnasked makes the agent call tools that need no approval.
func (c talk) runsUnasked(lines ...string) {
	c.t.Helper()
	asked := len(check.OfType(c.Harness, c.id, event.TypeApprovalRequest))
	c.completes(c.post(lines...))
	require.Len(c.t, check.OfType(c.Harness, c.id, event.TypeApprovalRequest), asked, "nobody is asked")
}

// denied makes the agent call one tool that needs approval, and denies it.
func (c talk) denied(lines ...string) {
	c.t.Helper()
	posted, q := c.asks(lines...)
	c.decides(signals.DecideAccepted, check.Denying(q))
	c.completes(posted)
}

// result returns the result of a call.
func (c talk) result(q event.ApprovalRequest) event.Message {
	c.t.Helper()
	return c.resultOf(q.ToolCallID)
}

// resultOf waits for the result of a call. After an interrupt, results may be stored after the end
// of the turn is known.
func (c talk) resultOf(call string) (found event.Message) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		var stored bool
		found, stored = check.Results(c.Harness, c.id)[call]
		return stored
	}, testenv.Patience, testenv.Tick, "call %s has a result", call)
	return found
}

// undecided checks that a call still waits, without any decision.
func (c talk) undecided(q event.ApprovalRequest) {
	c.t.Helper()
	require.Equal(c.t, q.ToolCallID, c.AwaitApproval(c.id, 1)[0].ToolCallID)
	require.Empty(c.t, check.ApprovalsOf(c.Harness, c.id, q.ToolCallID))
	require.NotContains(c.t, check.Results(c.Harness, c.id), q.ToolCallID)
}

// lastShown is the last model call's input.
func (c talk) lastShown() string {
	c.t.Helper()
	calls := check.ModelCalls(c.Harness)
	require.NotEmpty(c.t, calls)
	return calls[len(calls)-1].Raw
}

// audited waits until signals have left n audit records, and returns their reasons.
func (c talk) audited(n int) (problems []string) {
	c.t.Helper()
	var records []event.Record
	require.Eventually(c.t, func() bool {
		records = check.OfType(c.Harness, c.id, event.TypeRejected)
		return len(records) >= n
	}, testenv.Patience, testenv.Tick, "%d audit records", n)
	for _, r := range records {
		problems = append(problems, harness.Payload[event.Rejected](c.Harness, r).Problem)
	}
	require.Len(c.t, problems, n)
	return problems
}

// argumentsSeen are the arguments of a spy's calls in a thread, in order.
func argumentsSeen(s *check.Spy, thread string) (out []string) {
	for _, call := range s.Seen() {
		if call.ThreadID == thread {
			out = append(out, call.Arguments)
		}
	}
	return out
}

// redefined is a spy whose definition can change while the worker runs.
type redefined struct {
	*check.Spy
	lock   sync.Mutex
	change func(*tool.Definition)
}

func newRedefined(name string, change func(*tool.Definition)) *redefined {
	return &redefined{Spy: check.NewSpy(name, tool.NeedsApproval("")), change: change}
}

func (r *redefined) redefine(change func(*tool.Definition)) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.change = change
}

// Definition implements [tool.Tool].
func (r *redefined) Definition() tool.Definition {
	r.lock.Lock()
	defer r.lock.Unlock()
	d := r.Spy.Definition()
	if r.change != nil {
		r.change(&d)
	}
	return d
}
