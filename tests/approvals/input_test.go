package approvals

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// asksInput makes the agent call the tool, and returns its question.
func (c talk) asksInput() (posted string, q event.InputRequest) {
	c.t.Helper()
	posted = c.post("use book {}")
	return posted, c.awaitInput(1)
}

func (c talk) awaitInput(round int) (q event.InputRequest) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		out, err := c.Threads.Approvals(c.Ctx(), c.id)
		if err != nil || len(out.Inputs) != 1 {
			return false
		}
		q = out.Inputs[0]
		return q.Round == round
	}, testenv.Patience, testenv.Tick, "a question of round %d", round)
	return q
}

func (c talk) answersInput(want signals.DecideOutcome, q event.InputRequest, answers map[string]event.InputAnswer) {
	c.t.Helper()
	got, err := c.Threads.AnswerInput(c.Ctx(), c.id, signals.InputAnswers{ToolCallID: q.ToolCallID, Round: q.Round, Answers: answers, By: "ann"})
	require.NoError(c.t, check.Unrefused(err))
	require.Equal(c.t, want, got)
}

// TestToolsAskPeople lets a tool ask for input. Nothing runs while it waits, and the tool runs again with
// the answer.
//
//ci:replayed
func TestToolsAskPeople(t *testing.T) {
	t.Parallel()
	book := &harness.Booking{}
	o := newOffice(t, harness.Options{NoWorker: true, Tools: []tool.Tool{book}})
	stop := o.StartWorker()
	t.Run("two questions, across a new worker", func(t *testing.T) {
		c := o.talk(t)
		before := book.Runs.Load()
		posted, q := c.asksInput()
		require.Equal(t, []string{"book", "assistant", "When do you come?"}, []string{q.ToolName, q.Agent, q.Questions[0].Message})
		require.JSONEq(t, harness.DaySchema, string(q.Questions[0].Schema))
		require.Eventually(t, func() bool {
			row, err := c.Store.Thread(c.Ctx(), c.Key(c.id))
			return err == nil && row.Activity == store.ActivityWaiting
		}, testenv.Patience, testenv.Tick)
		require.Equal(t, store.ToolWaiting, check.Only(t, check.ToolLogs(c.Harness, c.id)).Status)
		state, err := c.Threads.State(c.Ctx(), c.id)
		require.NoError(t, err)
		require.Equal(t, signals.ThreadWaitingApproval, state.Status)
		require.Eventually(t, func() bool {
			all, err := c.Threads.ListApprovals(c.Ctx(), threadclient.ApprovalsQuery{})
			return err == nil && len(all.Inputs) == 1 && all.Inputs[0].ThreadID == c.id
		}, testenv.Patience, testenv.Tick, "it is listed")

		stop()
		stop = o.StartWorker()
		c.answersInput(signals.DecideAccepted, q, map[string]event.InputAnswer{"when": check.Accepted(`{"day":"monday"}`)})
		pay := c.awaitInput(2)
		require.Equal(t, "https://pay.example/42", pay.Questions[0].URL)
		c.answersInput(signals.DecideAlreadyResolved, q, map[string]event.InputAnswer{"when": check.Accepted(`{"day":"monday"}`)})
		c.answersInput(signals.DecideConflict, q, map[string]event.InputAnswer{"when": {Action: event.InputDecline}})
		c.answersInput(signals.DecideAccepted, pay, map[string]event.InputAnswer{"pay": check.Accepted("")})
		c.completes(posted)
		require.Equal(t, `booked: secret state, {"day":"monday"}, paid: accept`, c.resultOf(q.ToolCallID).Content)
		require.EqualValues(t, 3, book.Runs.Load()-before)
		require.Equal(t, store.ToolSucceeded, check.Only(t, check.ToolLogs(c.Harness, c.id)).Status)
		check.RequireSettled(t, c.Harness, c.id)
		frames := check.Watch(t, c.Harness, c.id, "").Until(t, func(f check.Frame) bool { return f.Event.EndsTurn() })
		shown, err := json.Marshal(frames)
		require.NoError(t, err)
		require.NotContains(t, string(shown), `"state":"secret`, "the state belongs to the tool")
	})
	t.Run("over the API, with values that do not fit", func(t *testing.T) {
		c := o.talk(t)
		posted, q := c.asksInput()
		path := "/v1/threads/" + c.id + "/tool-calls/" + q.ToolCallID + "/input"
		for body, want := range map[string]string{
			`{"answers":{"when":{"action":"accept","content":{"day":"sunday"}}},"by":"ann"}`: "day: must be one of",
			`{"answers":{"when":{"action":"accept","content":{"seats":0}}},"by":"ann"}`:      "day: is required",
			`{"answers":{"when":{"action":"accept"}},"by":"ann"}`:                            "answers.when.content",
			`{"answers":{"other":{"action":"decline"}},"by":"ann"}`:                          "answers.when: is required",
			`{"answers":{},"by":"ann"}`:                                                      "answers: is required",
			`{"answers":{"when":{"action":"decline","content":{}}},"by":"ann"}`:              "belongs to the action accept",
		} {
			status, out := check.Request(t, c.Harness, http.MethodPost, path, json.RawMessage(body))
			require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", body, out)
			require.Contains(t, fmt.Sprint(out), want, body)
		}
		status, out := check.Request(t, c.Harness, http.MethodPost, path, map[string]any{"round": 2, "answers": map[string]any{"when": map[string]any{"action": "decline"}}})
		require.Equal(t, http.StatusNotFound, status, fmt.Sprint(out))
		status, out = check.Request(t, c.Harness, http.MethodPost, path, map[string]any{"answers": map[string]any{"when": map[string]any{"action": "decline"}}, "by": "assistant"})
		require.Equal(t, http.StatusForbidden, status, fmt.Sprint(out))
		status, out = check.Request(t, c.Harness, http.MethodPost, path, map[string]any{"answers": map[string]any{"when": map[string]any{"action": "decline"}}, "by": "ann"})
		require.Equal(t, http.StatusOK, status, fmt.Sprint(out))
		c.completes(posted)
		require.Equal(t, "not booked: decline", c.resultOf(q.ToolCallID).Content)
	})
	t.Run("by a signal with values that do not fit: it asks again", func(t *testing.T) {
		c := o.talk(t)
		_, q := c.asksInput()
		before := book.Runs.Load()
		c.signals(signals.SignalAnswerInput, signals.InputAnswers{ToolCallID: q.ToolCallID, Answers: map[string]event.InputAnswer{"when": check.Accepted(`{"day":"sunday"}`)}, By: "ann"})
		again := c.awaitInput(2)
		require.Contains(t, again.Questions[0].Message, "When do you come?\n\nThe last answer was not valid: day: must be one of")
		require.Equal(t, before, book.Runs.Load(), "the tool does not see it")
		c.answersInput(signals.DecideAccepted, again, map[string]event.InputAnswer{"when": {Action: event.InputCancel}})
		require.Eventually(t, func() bool { return len(check.Results(c.Harness, c.id)) == 1 }, testenv.Patience, testenv.Tick)
	})
	t.Run("interrupted", func(t *testing.T) {
		c := o.talk(t)
		_, q := c.asksInput()
		require.NoError(t, c.Threads.Control(c.Ctx(), c.id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		require.Eventually(t, func() bool { return len(check.Results(c.Harness, c.id)) == 1 }, testenv.Patience, testenv.Tick)
		got, err := c.Threads.AnswerInput(c.Ctx(), c.id, signals.InputAnswers{ToolCallID: q.ToolCallID, Answers: map[string]event.InputAnswer{"when": check.Accepted(`{"day":"monday"}`)}, By: "ann"})
		require.NoError(t, check.Unrefused(err))
		require.Equal(t, signals.DecideNotPending, got)
		check.RequireSettled(t, c.Harness, c.id)
	})
	stop()
}

// TestPageInputOfASubAgent answers the questions of a sub-agent's tool in the page of its parent thread, which shows whose they are.
func TestPageInputOfASubAgent(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Tools: []tool.Tool{&harness.Booking{}}, Agents: check.Team("book")})
	id := w.Open()
	w.Post(id, check.Asks("helper", "use book {}"))
	b := browser.New(t)
	p := b.Open(browser.ThreadPage(w.API.URL, id))
	list := b.Open(w.API.URL + "/#/approvals")
	for _, page := range []*browser.Tab{p, list} {
		page.Sees(".approval.input header", "book of helper asks")
		page.Sees(".approval.input .reason", "When do you come?")
	}
	p.Click(".approval.input button", "Decline")
	p.Sees(".line.tool .result", "not booked: decline")
	p.Until(`document.querySelector(".approval.input") === null`)
	list.Sees("tm-approvals [role=status]", "Nothing waits for you.")

	other := w.Open()
	w.Post(other, check.Asks("helper", "use book {}"))
	p = b.Open(browser.ThreadPage(w.API.URL, other))
	p.Sees(".approval.input .reason", "When do you come?")
	require.NoError(t, w.Threads.Control(w.Ctx(), check.Sub(w, other, 1), signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	p.Until(`document.querySelector(".approval.input") === null`)
	p.Sees(".line.tool .decision", "No answer is needed any more")
}

// TestPageInput answers a tool's questions in the page: in the thread, and in the list of what waits.
func TestPageInput(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{
		Tools:  []tool.Tool{&harness.Booking{}},
		Agents: []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"book"}}},
	})
	id := w.Open()
	w.Post(id, "use book {}")
	b := browser.New(t)
	p := b.Open(browser.ThreadPage(w.API.URL, id))
	p.Sees(".approval.input .reason", "When do you come?")
	p.Sees(".approval.input button", "Send") // the fields are loaded
	browser.Evaluate[struct{}](p, `(() => {
		const form = document.querySelector(".approval.input");
		form.querySelector("select").value = "1";
		form.querySelector("input[type=number]").value = "0";
		return {};
	})()`)
	p.Click(".approval.input button", "Send")
	p.Until(`document.querySelector(".approval.input :invalid") !== null`)
	browser.Evaluate[struct{}](p, `(() => { document.querySelector(".approval.input input[type=number]").value = "2"; return {}; })()`)
	p.Click(".approval.input button", "Send")

	list := b.Open(w.API.URL + "/#/approvals")
	list.Sees(".approval.input .reason", "Please pay.")
	require.Equal(t, "https://pay.example/42", browser.Evaluate[string](list, `document.querySelector(".approval.input a").href`))
	list.Click(".approval.input button", "I have done this")
	p.Sees(".line.tool .result", `booked: secret state, {"day":"tuesday","seats":2}, paid: accept`)
	list.Sees("tm-approvals [role=status]", "Nothing waits for you.")
	assert.NotEmpty(t, p.Lines())
}
