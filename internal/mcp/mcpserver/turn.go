package mcpserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/turn"
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

// awaited folds the events of a thread into the state of the turn of one event.
type awaited struct {
	event string // the posted event
	of    string // the event whose turn it is: another one if the posted event joined a turn

	said    map[string]reply // the last message of each agent
	replies []reply          // those that ended a run
	calls   turn.Calls
	failure string
	ended   *event.StatusChange
	line    string
}

func newTurn(eventID string) *awaited { return &awaited{event: eventID, said: map[string]reply{}} }

// waiting returns the calls that may wait for a person.
func (t *awaited) waiting() map[string]bool {
	out := map[string]bool{}
	for _, c := range t.calls.Waiting() {
		if c.Client == nil {
			out[c.ID] = true
		}
	}
	return out
}

// apply takes the next event, and returns a line about it if something new happens.
func (t *awaited) apply(e event.AgentEvent) string {
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
	t.calls.Apply(e)
	line := t.fold(e)
	if line == t.line {
		return ""
	}
	t.line = cmp.Or(line, t.line)
	return line
}

func (t *awaited) fold(e event.AgentEvent) string {
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
		if e.IsError {
			return e.ToolName + " has failed"
		}
		return e.ToolName + " has ended"
	case event.EventApprovalRequest:
		return fmt.Sprintf("%s waits for approval of %s", e.Request.Agent, e.Request.ToolName)
	case event.EventApproval:
		if e.Approval.Missing > 0 {
			return fmt.Sprintf("%s needs %d more approvals", e.Approval.ToolName, e.Approval.Missing)
		}
		return fmt.Sprintf("%s: %s by %s", e.Approval.ToolName, e.Approval.Decision, e.Approval.By)
	case event.EventInputRequest:
		return fmt.Sprintf("%s waits for input to %s", e.Input.Agent, e.Input.ToolName)
	case event.EventInputReceived:
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
func (t *awaited) message(e event.AgentEvent) {
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

func (t *awaited) final(e event.AgentEvent) {
	for _, r := range t.said {
		if r.id == e.MessageID {
			t.replies = append(slices.DeleteFunc(t.replies, func(known reply) bool { return known.Agent == r.Agent }), r)
			return
		}
	}
}

func (t *awaited) status(s *event.StatusChange) string {
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
func (t *awaited) result(out turnResult) turnResult {
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
func (t *awaited) texts(out turnResult) turnResult {
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
