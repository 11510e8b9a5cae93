package mcpserver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
)

// said is a message of an agent or, if it has the id of event e, the message of the person.
func said(id, agent, text string) event.AgentEvent {
	m := &event.Message{ID: id, SenderID: agent, SenderType: event.CreatedByAgent, Content: text}
	if id == "e" {
		m.SenderType = event.CreatedByUser
	}
	return event.AgentEvent{Type: event.EventMessage, EventID: "e", MessageID: id, Agent: agent, Message: m}
}

func final(id string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventFinal, EventID: "e", MessageID: id}
}

func over(how signals.TurnStatus, detail string, joined ...string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventStatus, EventID: "e", Status: &event.StatusChange{Status: event.StatusTurnEnded, Turn: string(how), Detail: detail, Joined: joined}}
}

func asks(call string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventApprovalRequest, EventID: "e", Request: &event.ApprovalRequest{ToolCallID: call, ToolName: "sh", Agent: "bot"}}
}

func decided(call string, missing int) event.AgentEvent {
	return event.AgentEvent{Type: event.EventApproval, EventID: "e", Approval: &event.Approval{ToolCallID: call, ToolName: "sh", Decision: event.DecisionApprove, By: "ann", Missing: missing}}
}

func questions(call string) event.AgentEvent {
	return event.AgentEvent{Type: event.EventInputRequest, EventID: "e", Input: &event.InputRequest{ToolCallID: call, ToolName: "form", Agent: "bot"}}
}

func received(call string, withdrawn bool) event.AgentEvent {
	return event.AgentEvent{Type: event.EventInputReceived, EventID: "e", Received: &event.InputReceived{ToolCallID: call, ToolName: "form", By: "ann", Withdrawn: withdrawn}}
}

// TestTurnResult: the result is what ended the runs of the turn, and nothing of other turns.
func TestTurnResult(t *testing.T) {
	other := func(e event.AgentEvent) event.AgentEvent { e.EventID = "x"; return e }
	failed := event.AgentEvent{Type: event.EventError, EventID: "e", Agent: "bot", Error: "broken"}
	for name, tt := range map[string]struct {
		events []event.AgentEvent
		want   turnResult
	}{
		"an answer":                   {[]event.AgentEvent{said("e", "ann", "hi"), said("m", "bot", "hello"), final("m"), over(signals.TurnCompleted, "")}, turnResult{Status: statusCompleted, Outcome: "completed", Text: "hello"}},
		"what is said on the way":     {[]event.AgentEvent{said("e", "ann", "hi"), said("m1", "bot", "wait"), said("m2", "bot", "done"), final("m2"), over(signals.TurnCompleted, "")}, turnResult{Status: statusCompleted, Outcome: "completed", Text: "done"}},
		"a hook changes it later":     {[]event.AgentEvent{said("e", "ann", "hi"), said("m", "bot", "secret"), final("m"), said("m", "bot", "***"), over(signals.TurnCompleted, "")}, turnResult{Status: statusCompleted, Outcome: "completed", Text: "***"}},
		"an agent that answers twice": {[]event.AgentEvent{said("e", "ann", "hi"), said("m1", "bot", "a"), final("m1"), said("m2", "bot", "b"), final("m2"), over(signals.TurnCompleted, "")}, turnResult{Status: statusCompleted, Outcome: "completed", Text: "b"}},
		"two agents": {
			[]event.AgentEvent{said("e", "ann", "hi"), said("m1", "bot", "a"), final("m1"), said("m2", "clerk", "b"), final("m2"), over(signals.TurnCompleted, "")},
			turnResult{Status: statusCompleted, Outcome: "completed", Text: "bot: a\n\nclerk: b", Replies: []reply{{"bot", "a", "m1"}, {"clerk", "b", "m2"}}},
		},
		"another turn":           {[]event.AgentEvent{other(said("y", "bot", "no")), said("e", "ann", "hi"), other(said("z", "bot", "no")), other(final("z")), other(over(signals.TurnFailed, "")), over(signals.TurnCompleted, "")}, turnResult{Status: statusCompleted, Outcome: "completed"}},
		"only its end is left":   {[]event.AgentEvent{over(signals.TurnCompleted, "")}, turnResult{Status: statusCompleted, Outcome: "completed"}},
		"the turn failed":        {[]event.AgentEvent{said("e", "ann", "hi"), failed, over(signals.TurnFailed, "")}, turnResult{Status: statusFailed, Outcome: "failed", Error: "broken"}},
		"the end says why":       {[]event.AgentEvent{said("e", "ann", "hi"), failed, over(signals.TurnFailed, "too long")}, turnResult{Status: statusFailed, Outcome: "failed", Error: "too long"}},
		"nobody says why":        {[]event.AgentEvent{said("e", "ann", "hi"), over(signals.TurnInterrupted, "")}, turnResult{Status: statusFailed, Outcome: "interrupted", Error: "the turn was interrupted"}},
		"nobody answers":         {[]event.AgentEvent{said("e", "ann", "hi"), over(signals.TurnUnanswered, "")}, turnResult{Status: statusFailed, Outcome: "unanswered", Error: "no agent answers the message: name one with agent"}},
		"an answer that is long": {[]event.AgentEvent{said("e", "ann", "hi"), said("m", "bot", strings.Repeat("x", maxText+1)), final("m"), over(signals.TurnCompleted, "")}, turnResult{Status: statusCompleted, Outcome: "completed", Truncated: true, Text: strings.Repeat("x", maxText) + "… (1 more bytes)"}},
	} {
		t.Run(name, func(t *testing.T) {
			turn := newTurn("e")
			for i, e := range tt.events {
				require.Nil(t, turn.ended, i)
				turn.apply(e)
			}
			require.NotNil(t, turn.ended)
			require.Equal(t, tt.want, turn.result(turnResult{}))
		})
	}
	t.Run("a message that joined another turn", func(t *testing.T) {
		turn := newTurn("j")
		turn.apply(event.AgentEvent{Type: event.EventMessage, EventID: "e", MessageID: "j", Message: &event.Message{ID: "j", SenderType: event.CreatedByUser}})
		turn.apply(said("m", "bot", "both"))
		turn.apply(final("m"))
		turn.apply(over(signals.TurnCompleted, "", "j"))
		require.Equal(t, "both", turn.result(turnResult{}).Text)
		late := newTurn("j")
		late.apply(over(signals.TurnCompleted, "", "i"))
		require.Nil(t, late.ended)
		late.apply(over(signals.TurnCompleted, "", "i", "j"))
		require.NotNil(t, late.ended)
	})
}

// TestTurnWaits: a call waits from its request until its decision, answer or result.
func TestTurnWaits(t *testing.T) {
	result := event.AgentEvent{Type: event.EventToolResult, EventID: "e", ToolCallID: "c", ToolName: "sh"}
	again := asks("c")
	again.Request.Round = 2
	for _, tt := range []struct {
		events []event.AgentEvent
		waits  bool
		line   string
	}{
		{[]event.AgentEvent{asks("c")}, true, "bot waits for approval of sh"},
		{[]event.AgentEvent{asks("c"), decided("c", 1)}, true, "sh needs 1 more approvals"},
		{[]event.AgentEvent{asks("c"), decided("c", 0)}, false, "sh: approve by ann"},
		{[]event.AgentEvent{asks("c"), decided("c", 0), again}, true, "bot waits for approval of sh"},
		{[]event.AgentEvent{asks("c"), result}, false, "sh has ended"},
		{[]event.AgentEvent{questions("c")}, true, "bot waits for input to form"},
		{[]event.AgentEvent{questions("c"), received("c", false)}, false, "form has the input of ann"},
		{[]event.AgentEvent{questions("c"), received("c", true)}, false, "form needs no input any more"},
		{[]event.AgentEvent{asks("c"), decided("other", 0)}, true, "sh: approve by ann"},
	} {
		turn := newTurn("e")
		turn.apply(said("e", "ann", "hi"))
		line := ""
		for _, e := range tt.events {
			line = turn.apply(e)
		}
		require.Equal(t, tt.waits, turn.waiting()["c"], tt.line)
		require.Equal(t, tt.line, line)
	}
	t.Run("the same line is told once in a row", func(t *testing.T) {
		turn := newTurn("e")
		turn.apply(said("e", "ann", "hi"))
		piece := event.AgentEvent{Type: event.EventStream, EventID: "e", Agent: "bot"}
		require.Equal(t, "bot is writing", turn.apply(piece))
		require.Empty(t, turn.apply(piece))
		require.Empty(t, turn.apply(said("m", "bot", "x")))
		require.Empty(t, turn.apply(piece), "what has no line does not count")
		require.Equal(t, "bot is thinking", turn.apply(event.AgentEvent{Type: event.EventThought, EventID: "e", Agent: "bot"}))
		require.Equal(t, "bot is writing", turn.apply(piece))
	})
}

func TestLimit(t *testing.T) {
	for _, tt := range []struct {
		seconds     int
		limit, want time.Duration
	}{{0, time.Hour, DefaultWait}, {7, time.Hour, 7 * time.Second}, {3600, time.Minute, time.Minute}, {0, time.Second, time.Second}} {
		require.Equal(t, tt.want, (&server{waitLimit: tt.limit}).limit(tt.seconds))
	}
}

// TestWait: a wait ends with the turn, when a person has to act, with its time or with the server, and says how to continue.
func TestWait(t *testing.T) {
	wait := func(t *testing.T, h *httpAPI, prepare ...func(*server)) (out turnResult, took time.Duration, err error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, h)
			for _, p := range prepare {
				p(s)
			}
			begun := time.Now()
			out, err = s.wait(t.Context(), newCall(), turnOf{thread: "t", event: "e"}, time.Minute)
			took = time.Since(begun)
		})
		return out, took, err
	}
	continues := `Call wait_for_turn with thread "t" and event "e" for its result.`
	t.Run("the turn ends", func(t *testing.T) {
		out, took, err := wait(t, &httpAPI{events: stream(t, said("e", "ann", "hi"), said("m", "bot", "hello"), final("m"), over(signals.TurnCompleted, ""))})
		require.NoError(t, err)
		require.Equal(t, turnResult{Thread: "t", Event: "e", Status: statusCompleted, Outcome: "completed", Text: "hello"}, out)
		require.Zero(t, took)
	})
	t.Run("the time is over", func(t *testing.T) {
		out, took, err := wait(t, &httpAPI{events: stream(t, said("e", "ann", "hi"), said("m", "bot", "so far"), final("m"))})
		require.NoError(t, err)
		require.Equal(t, turnResult{Thread: "t", Event: "e", Status: statusRunning, Text: "so far", Next: "The turn goes on. " + continues}, out)
		require.Equal(t, time.Minute, took)
	})
	t.Run("the server ends", func(t *testing.T) {
		out, took, err := wait(t, &httpAPI{events: stream(t, said("e", "ann", "hi"))}, func(s *server) {
			closing, cancel := context.WithCancel(context.Background())
			time.AfterFunc(3*time.Second, cancel)
			s.closing = closing
		})
		require.NoError(t, err)
		require.Equal(t, statusRunning, out.Status)
		require.Equal(t, 3*time.Second, took)
	})
	t.Run("a person has to decide", func(t *testing.T) {
		h := &httpAPI{events: stream(t, said("e", "ann", "hi"), asks("c"), asks("past")), answers: map[string]any{
			"GET /threads/t/approvals": signals.Approvals{Approvals: []event.ApprovalRequest{{ToolCallID: "other"}, {ToolCallID: "c", Arguments: "{}"}}},
		}}
		out, took, err := wait(t, h)
		require.NoError(t, err)
		require.Equal(t, statusWaiting, out.Status)
		require.Len(t, out.Approvals, 1)
		require.Equal(t, "c", out.Approvals[0].ToolCallID)
		require.Contains(t, out.Next, `with decide_approval, if that is the caller. Then call wait_for_turn with thread "t" and event "e"`)
		require.Equal(t, settleTime, took, "a request that is read from the past may be followed by its decision")
	})
	t.Run("a person has to answer", func(t *testing.T) {
		h := &httpAPI{events: stream(t, said("e", "ann", "hi"), questions("c")), answers: map[string]any{
			"GET /threads/t/approvals": signals.Approvals{Inputs: []event.InputRequest{{ToolCallID: "c", Round: 2}}},
		}}
		out, _, err := wait(t, h)
		require.NoError(t, err)
		require.Equal(t, statusInput, out.Status)
		require.Equal(t, 2, out.Inputs[0].Round)
		require.Contains(t, out.Next, "with answer_input")
	})
	t.Run("one that nobody waits for is none", func(t *testing.T) {
		h := &httpAPI{events: stream(t, said("e", "ann", "hi"), asks("c")), answers: map[string]any{"GET /threads/t/approvals": signals.Approvals{}}}
		out, took, err := wait(t, h)
		require.NoError(t, err)
		require.Equal(t, statusRunning, out.Status)
		require.Equal(t, time.Minute, took)
		require.Equal(t, 1, h.count("GET /threads/t/approvals"))
	})
	t.Run("a decision that follows at once", func(t *testing.T) {
		h := &httpAPI{events: stream(t, said("e", "ann", "hi"), asks("c"), decided("c", 0))}
		out, _, err := wait(t, h)
		require.NoError(t, err)
		require.Equal(t, statusRunning, out.Status)
		require.Zero(t, h.count("GET /threads/t/approvals"))
	})
	t.Run("approvals that cannot be read are read again", func(t *testing.T) {
		h := &httpAPI{events: stream(t, said("e", "ann", "hi"), asks("c")), answers: map[string]any{"GET /threads/t/approvals": errors.New("lost")}}
		out, took, err := wait(t, h, func(*server) {
			time.AfterFunc(3*time.Second, func() {
				h.answer("GET /threads/t/approvals", signals.Approvals{Approvals: []event.ApprovalRequest{{ToolCallID: "c"}}})
			})
		})
		require.NoError(t, err)
		require.Equal(t, statusWaiting, out.Status)
		require.Equal(t, settleTime+2*askAgain, took)
	})
	t.Run("the thread is closed", func(t *testing.T) {
		out, err := (&waiter{server: newServer(t, &httpAPI{}), turn: newTurn("e"), thread: "t"}).stopped(t.Context(), api.ErrClosed)
		require.NoError(t, err)
		require.Equal(t, statusFailed, out.Status)
		require.Contains(t, out.Error, "the thread is closed, and the turn has no end")
	})
	t.Run("the API refuses", func(t *testing.T) {
		_, _, err := wait(t, &httpAPI{answers: map[string]any{"GET /threads/t/events": refused{http.StatusForbidden, "no"}}})
		require.EqualError(t, err, "not permitted: no")
	})
	t.Run("the server is lost: who has posted nothing learns so, and who has waits", func(t *testing.T) {
		h := &httpAPI{answers: map[string]any{"GET /threads/t/events": errors.New("refused")}}
		_, took, err := wait(t, h)
		require.ErrorIs(t, err, api.ErrUnreachable)
		require.Zero(t, took)
		synctest.Test(t, func(t *testing.T) {
			out, err := newServer(t, h).wait(t.Context(), newCall(), turnOf{thread: "t", event: "e", posted: true}, time.Minute)
			require.NoError(t, err)
			require.Equal(t, statusRunning, out.Status)
		})
	})
}
