package mcpserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// The statuses of a turn.
const (
	statusCompleted = "completed"
	statusWaiting   = "waiting_for_approval"
	statusInput     = "waiting_for_input"
	statusRunning   = "running"
	statusFailed    = "failed"
)

// reply is the last message of an agent in a turn.
type reply struct {
	Agent string `json:"agent" jsonschema:"The agent"`
	Text  string `json:"text" jsonschema:"Its final message"`

	id string
}

// turn folds the events of a thread into the state of the turn of one event.
type turn struct {
	event string // the posted event
	of    string // the event whose turn it is: another one if the posted event joined a turn

	said    map[string]reply // the last message of each agent
	replies []reply          // those that ended a run
	waiting map[string]bool  // calls that may wait for a person
	failure string
	ended   *event.StatusChange
	line    string
}

func newTurn(eventID string) *turn {
	return &turn{event: eventID, said: map[string]reply{}, waiting: map[string]bool{}}
}

// apply takes the next event, and returns a line about it if something new happens.
func (t *turn) apply(e event.AgentEvent) string {
	if t.of == "" {
		switch {
		case e.Type == event.EventMessage && e.MessageID == t.event,
			e.EndsTurn() && (e.EventID == t.event || slices.Contains(e.Status.Joined, t.event)):
			t.of = e.EventID
		default:
			return ""
		}
	}
	if e.EventID != t.of {
		return ""
	}
	line := t.fold(e)
	if line == t.line {
		return ""
	}
	t.line = cmp.Or(line, t.line)
	return line
}

func (t *turn) fold(e event.AgentEvent) string {
	switch e.Type {
	case event.EventThought:
		return e.Agent + " is thinking"
	case event.EventStream:
		return e.Agent + " is writing"
	case event.EventMessage:
		t.message(e)
	case event.EventToolCall:
		return fmt.Sprintf("%s calls %s", e.Agent, e.ToolName)
	case event.EventToolResult:
		delete(t.waiting, e.ToolCallID)
		if e.IsError {
			return e.ToolName + " has failed"
		}
		return e.ToolName + " has ended"
	case event.EventApprovalRequest:
		t.waiting[e.Request.ToolCallID] = true
		return fmt.Sprintf("%s waits for approval of %s", e.Request.Agent, e.Request.ToolName)
	case event.EventApproval:
		if e.Approval.Missing > 0 {
			return fmt.Sprintf("%s needs %d more approvals", e.Approval.ToolName, e.Approval.Missing)
		}
		delete(t.waiting, e.Approval.ToolCallID)
		return fmt.Sprintf("%s: %s by %s", e.Approval.ToolName, e.Approval.Decision, e.Approval.By)
	case event.EventInputRequest:
		t.waiting[e.Input.ToolCallID] = true
		return fmt.Sprintf("%s waits for input to %s", e.Input.Agent, e.Input.ToolName)
	case event.EventInputReceived:
		delete(t.waiting, e.Received.ToolCallID)
		if e.Received.Withdrawn {
			return e.Received.ToolName + " needs no input any more"
		}
		return fmt.Sprintf("%s has the input of %s", e.Received.ToolName, e.Received.By)
	case event.EventClientCall:
		return fmt.Sprintf("waits for a client to run %s", e.ClientCall.ToolName)
	case event.EventReset:
		return e.Agent + " begins again"
	case event.EventError:
		t.failure = e.Error
		return e.Agent + " has failed"
	case event.EventFinal:
		t.final(e)
	case event.EventStatus:
		return t.status(e.Status)
	case event.EventToolProgress, event.EventEnvironment, event.EventRetrieval, event.EventGap:
	}
	return ""
}

// message keeps the last message of an agent. A hook may change it later.
func (t *turn) message(e event.AgentEvent) {
	m := e.Message
	if m.SenderType != event.CreatedByAgent {
		return
	}
	r := reply{Agent: m.SenderID, Text: m.Content, id: m.ID}
	if i := slices.IndexFunc(t.replies, func(known reply) bool { return known.id == m.ID }); i >= 0 {
		t.replies[i] = r
	}
	t.said[m.SenderID] = r
}

func (t *turn) final(e event.AgentEvent) {
	for _, r := range t.said {
		if r.id == e.MessageID {
			t.replies = append(slices.DeleteFunc(t.replies, func(known reply) bool { return known.Agent == r.Agent }), r)
			return
		}
	}
}

func (t *turn) status(s *event.StatusChange) string {
	switch s.Status {
	case event.StatusTurnEnded:
		t.ended = s
		return "the turn has " + map[bool]string{true: "ended", false: "ended: " + s.Turn}[s.Turn == string(signals.TurnCompleted)]
	case event.StatusRetrying:
		return fmt.Sprintf("the model is not available: attempt %d failed, and is repeated", s.Retry.Attempts)
	}
	return ""
}

// result returns the result of a turn that has ended.
func (t *turn) result(out turnResult) turnResult {
	out.Status = statusCompleted
	out.Outcome = t.ended.Turn
	switch t.ended.Turn {
	case string(signals.TurnCompleted):
	case string(signals.TurnUnanswered):
		out.Status, out.Error = statusFailed, "no agent answers the message: name one with agent"
	default:
		out.Status = statusFailed
		out.Error = cut(cmp.Or(t.ended.Detail, t.failure, "the turn was "+t.ended.Turn), maxError)
	}
	return t.texts(out)
}

// texts adds what the agents said.
func (t *turn) texts(out turnResult) turnResult {
	var parts []string
	for _, r := range t.replies {
		part := r.Text
		if len(t.replies) > 1 {
			part = r.Agent + ": " + part
		}
		parts = append(parts, part)
	}
	text := strings.Join(parts, "\n\n")
	out.Truncated = len(text) > maxText
	out.Text = cut(text, maxText)
	if len(t.replies) > 1 && !out.Truncated {
		out.Replies = t.replies
	}
	return out
}
