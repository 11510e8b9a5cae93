package tests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// wait is a turn that waits for people or a client, in the thread of the drill with its name.
type wait struct {
	thread, agent, says string

	// answers are given one after the other. Each waits for its question; the turn ends after the last one.
	answers []func(t *testing.T, w *harness.Harness, thread string)

	// files have a line for each call that ran: the first answers[i] calls have run after i answers.
	files []string

	// lost is the message by which the turn differs after the store was restored.
	lost string
}

// waits are the waits of a drill. Each is begun before the first backup and answered after it; then it is begun again, and all
// answers but the last one are given before the second backup.
func waits() []wait {
	return []wait{
		{
			thread: "client", agent: "assistant", says: `use photo {"of":"a cat"}`,
			answers: []func(*testing.T, *harness.Harness, string){returnsPhoto},
		},
		{
			thread: "input", agent: "assistant", says: "use book {}", lost: lostInput,
			answers: []func(*testing.T, *harness.Harness, string){answersForm("when", check.Accepted(`{"day":"monday"}`)), answersForm("pay", check.Accepted(""))},
		},
		{
			thread: "quorum", agent: "careful", says: check.Touches("quorum"), files: []string{"quorum"},
			answers: []func(*testing.T, *harness.Harness, string){votes("ann", 0), votes("ben", 1)},
		},
		{
			thread: "pair", agent: "assistant", says: check.Touches("pair-1") + "\n" + check.Touches("pair-2"), files: []string{"pair-1", "pair-2"},
			answers: []func(*testing.T, *harness.Harness, string){approves("pair-1", 2), approves("pair-2", 1)},
		},
	}
}

// waitingAgents add to a team what the waits need.
func waitingAgents(team []agent.Agent) []agent.Agent {
	team[0].Tools = append(team[0].Tools, "photo", "book")
	return append(team, agent.Agent{
		Name: "careful", Instructions: "You are careful.", Model: "openai/stand-in", Tools: []string{"shell_cmd"},
		ApprovalTerms: approval.Terms{Approvers: []string{"ann", "ben", "cleo"}, Quorum: 2},
	})
}

// lostInput is the result of a call whose arguments and state no history has.
const lostInput = "tool book: Error: the arguments of this call were lost when the store was restored from a backup. Whether it ran is unknown; it was not run again.\n"

func waitingTools() []tool.Tool { return append(check.ClientTools(), &harness.Booking{}) }

// begin begins the wait, and returns the id of its event.
func (d wait) begin(t *testing.T, w *harness.Harness) string {
	t.Helper()
	id := w.Post(d.thread, d.says)
	require.Eventually(t, func() bool {
		out, err := w.Threads.Approvals(w.Ctx(), d.thread)
		return err == nil && len(out.Approvals)+len(out.Inputs)+len(out.ClientCalls) > 0
	}, testenv.Patience, testenv.Tick, "thread %s waits", d.thread)
	return id
}

// end gives answers and waits for the end of the turn. n turns have ended then.
func (d wait) end(t *testing.T, w *harness.Harness, eventID string, n int, answers ...func(*testing.T, *harness.Harness, string)) {
	t.Helper()
	d.answer(t, w, answers...)
	require.Equal(t, signals.TurnCompleted, w.Await(d.thread, eventID).Status, d.thread)
	for _, file := range d.files {
		require.Equal(t, strings.Repeat("made\n", n), check.Made(w, file), "each call ran once")
	}
}

func (d wait) answer(t *testing.T, w *harness.Harness, answers ...func(*testing.T, *harness.Harness, string)) {
	t.Helper()
	for _, answer := range answers {
		answer(t, w, d.thread)
	}
}

func returnsPhoto(t *testing.T, w *harness.Harness, thread string) {
	t.Helper()
	call := awaitAsked(t, w, thread, func(a signals.Approvals) []event.ClientCall { return a.ClientCalls })
	require.JSONEq(t, `{"of":"a cat"}`, call.Arguments)
	got, err := w.Threads.ToolResult(w.Ctx(), thread, signals.ToolResult{ToolCallID: call.ToolCallID, Output: "a photo", By: "browser"})
	require.NoError(t, check.Unrefused(err))
	require.Equal(t, signals.DecideAccepted, got)
}

func answersForm(question string, answer event.InputAnswer) func(*testing.T, *harness.Harness, string) {
	return func(t *testing.T, w *harness.Harness, thread string) {
		t.Helper()
		q := awaitAsked(t, w, thread, func(a signals.Approvals) []event.InputRequest {
			return slices.DeleteFunc(a.Inputs, func(q event.InputRequest) bool { return q.Questions[0].ID != question })
		})
		got, err := w.Threads.AnswerInput(w.Ctx(), thread, signals.InputAnswers{ToolCallID: q.ToolCallID, Round: q.Round, Answers: map[string]event.InputAnswer{question: answer}, By: "ann"})
		require.NoError(t, check.Unrefused(err))
		require.Equal(t, signals.DecideAccepted, got)
	}
}

// votes approves a call that has had some approvals.
func votes(by string, before int) func(*testing.T, *harness.Harness, string) {
	return func(t *testing.T, w *harness.Harness, thread string) {
		t.Helper()
		q := awaitAsked(t, w, thread, func(a signals.Approvals) []event.ApprovalRequest { return a.Approvals })
		assert.Len(t, q.Votes, before, "approvals so far")
		_, err := w.Threads.Decide(w.Ctx(), thread, signals.Decide{ToolCallID: q.ToolCallID, Decision: event.DecisionApprove, By: by})
		require.NoError(t, err)
	}
}

// approves approves one of n calls that wait.
func approves(file string, n int) func(*testing.T, *harness.Harness, string) {
	return func(t *testing.T, w *harness.Harness, thread string) {
		t.Helper()
		all := w.AwaitApproval(thread, n)
		i := slices.IndexFunc(all, func(q event.ApprovalRequest) bool { return strings.Contains(q.Arguments, file) })
		require.GreaterOrEqual(t, i, 0, "the call of %s waits: %v", file, all)
		require.Equal(t, signals.DecideAccepted, check.Approve(t, w, thread, all[i].ToolCallID))
	}
}

// awaitAsked waits for the one question of a kind.
func awaitAsked[T any](t *testing.T, w *harness.Harness, thread string, of func(signals.Approvals) []T) T {
	t.Helper()
	var found []T
	require.Eventually(t, func() bool {
		out, err := w.Threads.Approvals(w.Ctx(), thread)
		found = of(out)
		return err == nil && len(found) == 1
	}, testenv.Patience, testenv.Tick, "thread %s asks", thread)
	return found[0]
}
