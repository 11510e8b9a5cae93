package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// asking is a world whose agents have a tool that asks people.
type asking struct {
	*harness.Harness
	book *harness.Booking
}

func newAsking(t *testing.T) asking {
	t.Helper()
	book := &harness.Booking{}
	return asking{harness.New(t, harness.Options{Agents: check.Team("book"), Tools: []tool.Tool{book}}), book}
}

// asks waits until a thread has one request for input, of a round, and returns it.
func (w asking) asks(t *testing.T, thread string, round int) (q event.InputRequest) {
	t.Helper()
	require.Eventually(t, func() bool {
		out, err := w.Threads.Approvals(w.Ctx(), thread)
		if err != nil || len(out.Inputs) != 1 {
			return false
		}
		q = out.Inputs[0]
		return q.Round == round
	}, testenv.Patience, testenv.Tick, "a question of round %d in thread %s", round, thread)
	return q
}

// nothingWaits waits until a thread has no request for input.
func (w asking) nothingWaits(t *testing.T, thread string) {
	t.Helper()
	require.Eventually(t, func() bool {
		out, err := w.Threads.Approvals(w.Ctx(), thread)
		state, problem := w.Threads.State(w.Ctx(), thread)
		return err == nil && problem == nil && len(out.Inputs) == 0 && state.Status != signals.ThreadWaitingApproval
	}, testenv.Patience, testenv.Tick, "thread %s waits", thread)
}

// received waits until a thread has stored how a request for input ended, once.
func (w asking) received(t *testing.T, thread string, round int) (got event.InputReceived) {
	t.Helper()
	var found []event.InputReceived
	require.Eventually(t, func() bool {
		found = nil
		for _, r := range check.OfType(w.Harness, thread, event.TypeInputReceived) {
			if a := harness.Payload[event.InputReceived](w.Harness, r); a.Round == round {
				found = append(found, a)
			}
		}
		return len(found) > 0
	}, testenv.Patience, testenv.Tick, "an answer in thread %s", thread)
	return check.Only(t, found)
}

func (w asking) path(thread string, q event.InputRequest) string {
	return "/v1/threads/" + thread + "/tool-calls/" + q.ToolCallID + "/input"
}

const monday = `{"answers":{"when":{"action":"accept","content":{"day":"monday"}}},"by":"ann"}`

// TestInputOfASubAgent answers the questions of a tool of a sub-agent in the threads above it, over each entry
// point.
//
//ci:replayed only
func TestInputOfASubAgent(t *testing.T) {
	t.Parallel()
	w := newAsking(t)
	answers := func(content string) signals.InputAnswers {
		a := signals.InputAnswers{Round: 1, By: "ann", Answers: map[string]event.InputAnswer{"when": {Action: event.InputAccept, Content: json.RawMessage(content)}}}
		if content == "" {
			a.Round, a.Answers = 2, map[string]event.InputAnswer{"pay": {Action: event.InputAccept}}
		}
		return a
	}
	for how, answer := range map[string]func(t *testing.T, thread string, q event.InputRequest, content string){
		"update": func(t *testing.T, thread string, q event.InputRequest, content string) {
			t.Helper()
			a := answers(content)
			a.ToolCallID = q.ToolCallID
			got, err := w.Threads.AnswerInput(w.Ctx(), thread, a)
			require.NoError(t, check.Unrefused(err))
			require.Equal(t, signals.DecideAccepted, got)
		},
		"signal": func(t *testing.T, thread string, q event.InputRequest, content string) {
			t.Helper()
			a := answers(content)
			a.ToolCallID = q.ToolCallID
			for range 2 { // the second changes nothing
				require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", signals.SignalAnswerInput, a))
			}
		},
		"http": func(t *testing.T, thread string, q event.InputRequest, content string) {
			t.Helper()
			a := answers(content)
			status, out := check.Request(t, w.Harness, http.MethodPost, w.path(thread, q), map[string]any{"round": a.Round, "answers": a.Answers, "by": a.By})
			require.Equal(t, http.StatusOK, status, "%v", out)
			require.Equal(t, "accepted", out["result"])
		},
		"cli": func(t *testing.T, thread string, q event.InputRequest, content string) {
			t.Helper()
			args := []string{"answer", thread, q.ToolCallID, "--by", "ann"}
			if content != "" {
				args = append(args, "day=monday")
			}
			check.CLI{World: w.Harness}.Run(t, args...)
		},
	} {
		t.Run(how, func(t *testing.T) {
			id := w.Open()
			v := check.Watch(t, w.Harness, id, "")
			before := w.book.Runs.Load()
			posted := w.Post(id, check.Asks("manager", check.Asks("helper", "use book {}")))
			q := w.asks(t, id, 1)
			middle := check.Sub(w.Harness, id, 1)
			levels := []string{id, middle, check.Sub(w.Harness, middle, 1)}
			require.Equal(t, []string{"book", "helper", "When do you come?"}, []string{q.ToolName, q.Agent, q.Questions[0].Message})
			require.JSONEq(t, harness.DaySchema, string(q.Questions[0].Schema))
			for _, at := range levels {
				require.Equal(t, q, w.asks(t, at, 1), at)
				state, err := w.Threads.State(w.Ctx(), at)
				require.NoError(t, err)
				require.Equal(t, signals.ThreadWaitingApproval, state.Status, at)
				require.Eventually(t, func() bool {
					row, err := w.Store.Thread(w.Ctx(), w.Key(at))
					return err == nil && row.Activity == store.ActivityWaiting
				}, testenv.Patience, testenv.Tick, at)
			}
			frames := v.Until(t, func(f check.Frame) bool { return f.Event.Type == event.EventInputRequest })
			require.Equal(t, &q, frames[len(frames)-1].Event.Input, "viewers are asked")
			require.Eventually(t, func() bool {
				all, err := w.Threads.ListApprovals(w.Ctx(), threadclient.ApprovalsQuery{})
				mine := slices.DeleteFunc(all.Inputs, func(i threadclient.WaitingInput) bool { return i.Request.ToolCallID != q.ToolCallID })
				return err == nil && len(mine) == 1 && mine[0].ThreadID == id
			}, testenv.Patience, testenv.Tick, "it is listed once, at the top")

			answer(t, id, q, `{"day":"monday"}`)
			pay := w.asks(t, id, 2)
			require.Equal(t, "https://pay.example/42", pay.Questions[0].URL)
			answer(t, middle, w.asks(t, middle, 2), "")
			require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
			require.Contains(t, check.ResultIn(t, w.Harness, id, "call-agent").Content, `booked: secret state, {"day":"monday"}, paid: accept`)
			require.EqualValues(t, 3, w.book.Runs.Load()-before, "each answer counts once")
			for _, at := range levels {
				require.JSONEq(t, `{"day":"monday"}`, string(w.received(t, at, 1).Answers["when"].Content))
				require.Equal(t, "ann", w.received(t, at, 2).By)
				for _, r := range append(check.OfType(w.Harness, at, event.TypeInputRequest), check.OfType(w.Harness, at, event.TypeInputReceived)...) {
					require.Equal(t, posted, r.TraceID)
				}
				require.Len(t, check.OfType(w.Harness, at, event.TypeInputRequest), 2)
			}
			for _, r := range check.OfType(w.Harness, id, event.TypeInputRequest) {
				require.Equal(t, posted, r.EventID, "it belongs to the turn")
				require.NotContains(t, string(r.Payload), "secret state", "which belongs to the tool")
			}
			frames = v.Until(t, check.IsFinal)
			require.Equal(t, 2, check.Count(frames, event.EventInputReceived), "viewers hear of the answers")
			w.nothingWaits(t, id)
		})
	}
}

// TestAnswersToSubAgents answers what does not fit, twice, elsewhere, and too late.
func TestAnswersToSubAgents(t *testing.T) {
	t.Parallel()
	w := newAsking(t)
	// waiting begins a turn whose sub-agent asks.
	waiting := func(t *testing.T) (id, posted string, q event.InputRequest) {
		t.Helper()
		id = w.Open()
		posted = w.Post(id, check.Asks("helper", "use book {}"))
		return id, posted, w.asks(t, id, 1)
	}
	send := func(t *testing.T, thread string, q event.InputRequest, body string) (status int, out map[string]any) {
		t.Helper()
		return check.Request(t, w.Harness, http.MethodPost, w.path(thread, q), json.RawMessage(body))
	}

	t.Run("values that do not fit get the error that the sub-agent's thread gives", func(t *testing.T) {
		id, posted, q := waiting(t)
		for body, want := range map[string]int{
			`{"answers":{"when":{"action":"accept","content":{"day":"sunday"}}},"by":"ann"}`: http.StatusUnprocessableEntity,
			`{"answers":{"when":{"action":"accept","content":{"seats":0}}},"by":"ann"}`:      http.StatusUnprocessableEntity,
			`{"answers":{"when":{"action":"accept"}},"by":"ann"}`:                            http.StatusUnprocessableEntity,
			`{"answers":{"other":{"action":"decline"}},"by":"ann"}`:                          http.StatusUnprocessableEntity,
			`{"answers":{"when":{"action":"decline"}},"by":"helper"}`:                        http.StatusForbidden,
			`{"answers":{"when":{"action":"decline"}},"by":"assistant"}`:                     http.StatusForbidden,
			`{"round":2,"answers":{"when":{"action":"decline"}},"by":"ann"}`:                 http.StatusNotFound,
		} {
			status, above := send(t, id, q, body)
			require.Equal(t, want, status, "%s: %v", body, above)
			if want == http.StatusUnprocessableEntity {
				child := check.Sub(w.Harness, id, 1)
				_, below := send(t, child, q, body)
				require.Equal(t, strings.ReplaceAll(fmt.Sprint(below), child, id), fmt.Sprint(above), body)
			}
		}
		status, out := send(t, id, q, `{"answers":{"when":{"action":"decline"}},"by":"ann"}`)
		require.Equal(t, http.StatusOK, status, "%v", out)
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
		require.Contains(t, check.ResultIn(t, w.Harness, id, "call-agent").Content, "not booked: decline")
	})
	t.Run("by a signal, values that do not fit: it asks again", func(t *testing.T) {
		id, _, q := waiting(t)
		require.NoError(t, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, id), "", signals.SignalAnswerInput, signals.InputAnswers{
			ToolCallID: q.ToolCallID, By: "ann", Answers: map[string]event.InputAnswer{"when": {Action: event.InputAccept, Content: json.RawMessage(`{"day":"sunday"}`)}},
		}))
		require.Contains(t, w.asks(t, id, 2).Questions[0].Message, "The last answer was not valid: day: must be one of")
	})
	t.Run("answered below: it no longer waits above, and again is already_resolved or a conflict", func(t *testing.T) {
		id, _, q := waiting(t)
		v := check.Watch(t, w.Harness, id, "")
		below := check.Sub(w.Harness, id, 1)
		status, out := send(t, below, q, monday)
		require.Equal(t, http.StatusOK, status, "%v", out)
		heard := v.Until(t, func(f check.Frame) bool { return f.Event.Type == event.EventInputReceived })
		require.Equal(t, "ann", heard[len(heard)-1].Event.Received.By)
		for _, at := range []string{id, below} {
			w.asks(t, at, 2)
			status, out = send(t, at, q, monday)
			require.Equal(t, http.StatusOK, status, "%v", out)
			require.Equal(t, "already_resolved", out["result"])
			status, out = send(t, at, q, `{"answers":{"when":{"action":"decline"}},"by":"ann"}`)
			require.Equal(t, http.StatusConflict, status, "%v", out)
		}
	})
	t.Run("many at once, in both threads: one counts", func(t *testing.T) {
		id, _, q := waiting(t)
		below := check.Sub(w.Harness, id, 1)
		before := w.book.Runs.Load()
		results := make(chan signals.DecideOutcome, 8)
		for i := range cap(results) {
			at := []string{id, below}[i%2]
			a := signals.InputAnswers{ToolCallID: q.ToolCallID, By: "ann", Answers: map[string]event.InputAnswer{
				"when": {Action: event.InputAccept, Content: json.RawMessage([]string{`{"day":"monday"}`, `{"day":"tuesday"}`}[i/2%2])},
			}}
			go func() {
				got, err := w.Threads.AnswerInput(w.Ctx(), at, a)
				assert.NoError(t, check.Unrefused(err))
				results <- got
			}()
		}
		count := map[signals.DecideOutcome]int{}
		for range cap(results) {
			count[<-results]++
		}
		require.Positive(t, count[signals.DecideAccepted])
		require.Equal(t, cap(results)/2, count[signals.DecideConflict], "%v", count)
		w.asks(t, id, 2)
		require.EqualValues(t, 1, w.book.Runs.Load()-before)
		require.Equal(t, w.received(t, below, 1), w.received(t, id, 1))
	})
	for name, stop := range map[string]func(t *testing.T, id, below string){
		"the thread is interrupted": func(t *testing.T, id, _ string) {
			t.Helper()
			require.NoError(t, w.Threads.Control(w.Ctx(), id, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		},
		"the sub-agent is interrupted": func(t *testing.T, _, below string) {
			t.Helper()
			require.NoError(t, w.Threads.Control(w.Ctx(), below, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
		},
		"the sub-agent is terminated": func(t *testing.T, _, below string) {
			t.Helper()
			require.NoError(t, w.Temporal.TerminateWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, below), "", "test"))
		},
	} {
		t.Run(name+": the question is withdrawn", func(t *testing.T) {
			id, posted, q := waiting(t)
			stop(t, id, check.Sub(w.Harness, id, 1))
			w.Await(id, posted)
			got := w.received(t, id, 1)
			require.True(t, got.Withdrawn)
			require.Empty(t, got.Answers)
			status, out := send(t, id, q, monday)
			require.Equal(t, http.StatusNotFound, status, "%v", out)
			w.nothingWaits(t, id)
			row, err := w.Store.Thread(w.Ctx(), w.Key(id))
			require.NoError(t, err)
			require.NotEqual(t, store.ActivityWaiting, row.Activity)
			check.RequireSettled(t, w.Harness, id)
		})
	}
	t.Run("a message instead, in the sub-agent's thread: the question is withdrawn while the sub-agent goes on", func(t *testing.T) {
		id, posted, _ := waiting(t)
		post := signals.NewPost("", event.NewMessage{ThreadID: check.Sub(w.Harness, id, 1), SenderID: "ann", SenderType: event.CreatedByUser, Content: "say never mind"})
		post.OnWaiting = event.OnWaitingCancel
		_, err := w.Threads.Post(w.Ctx(), check.Sub(w.Harness, id, 1), post)
		require.NoError(t, err)
		require.True(t, w.received(t, id, 1).Withdrawn)
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	})
}

// TestMessagesWhileASubAgentAsks: the thread goes on while its sub-agent waits for input, also with a new worker.
//
//ci:replayed only
func TestMessagesWhileASubAgentAsks(t *testing.T) {
	t.Parallel()
	w := asking{harness.New(t, harness.Options{Agents: check.Team("book"), Tools: []tool.Tool{&harness.Booking{}}, NoWorker: true}), nil}
	stop := w.StartWorker()
	id := w.Open()
	posted := w.Post(id, check.Asks("helper", "use book {}"))
	q := w.asks(t, id, 1)
	require.Equal(t, signals.TurnCompleted, w.Say(id, "are you there?").Status)
	stop()
	w.StartWorker()
	require.Equal(t, signals.TurnCompleted, w.Say(id, "still?").Status)
	status, out := check.Request(t, w.Harness, http.MethodPost, w.path(id, q), json.RawMessage(`{"answers":{"when":{"action":"decline"}},"by":"ann"}`))
	require.Equal(t, http.StatusOK, status, "%v", out)
	require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
	require.Equal(t, posted, check.Only(t, check.OfType(w.Harness, id, event.TypeInputReceived)).EventID, "the turn that waited")
	check.RequireSettled(t, w.Harness, id)
}
