// Package agui writes the turns of a thread as runs of AG-UI 1.0, made of the chunks of package
// uistream.
package agui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/builtin"
	"github.com/threadmill/threadmill/internal/uistream"
)

// Event is an event of AG-UI.
type Event struct {
	Type            string      `json:"type"`
	ThreadID        string      `json:"threadId,omitempty"`
	RunID           string      `json:"runId,omitempty"`
	ProtocolVersion string      `json:"protocolVersion,omitempty"`
	MessageID       string      `json:"messageId,omitempty"`
	Role            string      `json:"role,omitempty"`
	Name            string      `json:"name,omitempty"`
	Delta           string      `json:"delta,omitempty"`
	ToolCallID      string      `json:"toolCallId,omitempty"`
	ToolCallName    string      `json:"toolCallName,omitempty"`
	ParentMessageID string      `json:"parentMessageId,omitempty"`
	Content         *string     `json:"content,omitempty"`
	Value           any         `json:"value,omitempty"`
	Message         string      `json:"message,omitempty"`
	Messages        *[]*Message `json:"messages,omitempty"`
	Snapshot        any         `json:"snapshot,omitempty"`
	Outcome         *Outcome    `json:"outcome,omitempty"`

	SubagentRunID    string `json:"subagentRunId,omitempty"`
	ParentToolCallID string `json:"parentToolCallId,omitempty"`
}

// Outcome says why a run ended.
type Outcome struct {
	Type               string      `json:"type"`
	PendingToolCallIDs []string    `json:"pendingToolCallIds,omitempty"`
	Interrupts         []Interrupt `json:"interrupts,omitempty"`
}

// Interrupt is a decision that a run waits for.
type Interrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message,omitempty"`
	ToolCallID     string          `json:"toolCallId"`
	ResponseSchema json.RawMessage `json:"responseSchema"`
	ExpiresAt      string          `json:"expiresAt,omitempty"`
	Metadata       any             `json:"metadata,omitempty"`
}

// customRetrieval names the event with what the agent of a reply was given.
const customRetrieval = "threadmill.retrieval"

// answerSchema describes the payload that answers an interrupt.
const answerSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"},` +
	`"editedArgs":{"type":"object"},"scope":{"enum":["once","session","pattern"]},"pattern":{"type":"object"}},"required":["approved"]}`

// Run writes one run.
type Run struct {
	threadID, runID string
	known           map[string]bool // messages and calls that the client has
	agent           string
	parts           map[string]int // text and reasoning messages of a reply
	open            map[string]string
	waiting         []*event.ApprovalRequest
	inputs          []*event.InputRequest
	calls           []string // without a result, in order
	subAgents       []string // calls of sub-agents that go on
}

// NewRun returns a run whose client has the messages and tool calls with these ids.
func NewRun(threadID, runID string, known map[string]bool) *Run {
	return &Run{threadID: threadID, runID: runID, known: known, parts: map[string]int{}, open: map[string]string{}}
}

// Events returns the events of a chunk.
func (r *Run) Events(c uistream.Chunk) []Event {
	switch c.Type {
	case "start":
		return []Event{{Type: "RUN_STARTED", ThreadID: r.threadID, RunID: r.runID, ProtocolVersion: "1.0"}}
	case "start-step", "finish-step", "abort", "source-document":
		return nil
	case "data-agent":
		r.agent = c.Data.(map[string]string)["name"]
		return nil
	case "text-start":
		return r.begin(c.ID, Event{Type: "TEXT_MESSAGE_START", Role: "assistant", Name: r.agent})
	case "text-delta":
		return r.piece(c.ID, Event{Type: "TEXT_MESSAGE_CONTENT", Delta: c.Delta})
	case "text-end":
		return r.piece(c.ID, Event{Type: "TEXT_MESSAGE_END"})
	case "reasoning-start":
		id := c.ID + ".thought"
		return append(r.begin(id, Event{Type: "REASONING_START"}), r.piece(id, Event{Type: "REASONING_MESSAGE_START", Role: "reasoning"})...)
	case "reasoning-delta":
		return r.piece(c.ID+".thought", Event{Type: "REASONING_MESSAGE_CONTENT", Delta: c.Delta})
	case "reasoning-end":
		id := c.ID + ".thought"
		return append(r.piece(id, Event{Type: "REASONING_MESSAGE_END"}), r.piece(id, Event{Type: "REASONING_END"})...)
	case "data-input":
		r.inputs = append(r.inputs, c.Data.(*event.InputRequest))
		return nil
	case "tool-input-available", "tool-input-error":
		if c.ToolName == uistream.RequestInput && r.asks(c.ToolCallID) {
			return nil // the interrupt has it
		}
		return r.call(c)
	case "tool-output-available", "tool-output-error":
		if r.answered(c.ToolCallID) {
			return nil
		}
		return r.output(c)
	case "tool-output-denied":
		return append(r.subAgentEnds(c.ToolCallID, "denied"), r.result(c.ToolCallID, "denied")...)
	case "tool-approval-request":
		return nil // data-approval has more
	case "data-approval":
		r.waiting = append(r.waiting, c.Data.(*event.ApprovalRequest))
		return nil
	case "data-retrieval":
		if r.known[c.ID] {
			return nil // the client has the reply, and what its agent was given
		}
		return []Event{{Type: "CUSTOM", Name: customRetrieval, Value: c.Data}}
	case "error":
		return []Event{{Type: "RUN_ERROR", Message: c.ErrorText}}
	case "finish":
		return r.finish(c)
	}
	if name, isData := strings.CutPrefix(c.Type, "data-"); isData {
		return []Event{{Type: "CUSTOM", Name: "threadmill." + name, Value: c.Data}}
	}
	return nil
}

func (r *Run) output(c uistream.Chunk) []Event {
	content := text(c.Output)
	if c.Type == "tool-output-error" {
		content = c.ErrorText
	}
	return append(r.subAgentEnds(c.ToolCallID, c.ErrorText), r.result(c.ToolCallID, content)...)
}

// begin opens a message under an id that the run has not used yet.
func (r *Run) begin(id string, e Event) []Event {
	r.parts[id]++
	e.MessageID = id
	if n := r.parts[id]; n > 1 {
		e.MessageID = fmt.Sprintf("%s.%d", id, n)
	}
	r.open[id] = e.MessageID
	if r.known[e.MessageID] {
		return nil
	}
	return []Event{e}
}

func (r *Run) piece(id string, e Event) []Event {
	e.MessageID = r.open[id]
	if r.known[e.MessageID] || strings.HasSuffix(e.Type, "_CONTENT") && e.Delta == "" {
		return nil
	}
	return []Event{e}
}

func (r *Run) call(c uistream.Chunk) []Event {
	if slices.Contains(r.calls, c.ToolCallID) {
		return []Event{{Type: "CUSTOM", Name: "threadmill.call-changed", Value: map[string]any{"toolCallId": c.ToolCallID, "input": c.Input}}}
	}
	r.calls = append(r.calls, c.ToolCallID)
	begins := r.subAgentBegins(c)
	if r.known[c.ToolCallID] {
		return begins
	}
	var out []Event
	if r.agent != "" && c.Reply != "" && r.parts[c.Reply] == 0 { // a reply without text says whose it is
		out = append(r.begin(c.Reply, Event{Type: "TEXT_MESSAGE_START", Role: "assistant", Name: r.agent}), r.piece(c.Reply, Event{Type: "TEXT_MESSAGE_END"})...)
	}
	out = append(out, Event{Type: "TOOL_CALL_START", ToolCallID: c.ToolCallID, ToolCallName: c.ToolName, ParentMessageID: c.Reply})
	if args := text(c.Input); args != "" {
		out = append(out, Event{Type: "TOOL_CALL_ARGS", ToolCallID: c.ToolCallID, Delta: args})
	}
	return append(append(out, Event{Type: "TOOL_CALL_END", ToolCallID: c.ToolCallID}), begins...)
}

// subAgentBegins announces the sub-agent that a call asks.
func (r *Run) subAgentBegins(c uistream.Chunk) []Event {
	var asked builtin.AgentArguments
	if c.ToolName != builtin.CallAgent && c.ToolName != builtin.CallAgentHyphen || r.known[ResultID(c.ToolCallID)] || json.Unmarshal(c.Input, &asked) != nil || asked.Agent == "" {
		return nil
	}
	r.subAgents = append(r.subAgents, c.ToolCallID)
	return []Event{{Type: "SUBAGENT_STARTED", SubagentRunID: c.ToolCallID, Name: asked.Agent, ParentToolCallID: c.ToolCallID, ParentMessageID: c.Reply}}
}

func (r *Run) subAgentEnds(callID, problem string) []Event {
	i := slices.Index(r.subAgents, callID)
	if i < 0 {
		return nil
	}
	r.subAgents = slices.Delete(r.subAgents, i, i+1)
	if problem != "" {
		return []Event{{Type: "SUBAGENT_ERROR", SubagentRunID: callID, Message: problem}}
	}
	return []Event{{Type: "SUBAGENT_FINISHED", SubagentRunID: callID, Outcome: &Outcome{Type: "success"}}}
}

func (r *Run) result(callID, content string) []Event {
	r.calls = slices.DeleteFunc(r.calls, func(id string) bool { return id == callID })
	id := ResultID(callID)
	if r.known[id] {
		return nil
	}
	return []Event{{Type: "TOOL_CALL_RESULT", MessageID: id, ToolCallID: callID, Content: &content, Role: "tool"}}
}

// ResultID returns the id of the message with the result of a call.
func ResultID(callID string) string { return callID + ".result" }

func (r *Run) finish(c uistream.Chunk) []Event {
	out := Event{Type: "RUN_FINISHED", ThreadID: r.threadID, RunID: r.runID, Outcome: &Outcome{Type: "success"}}
	switch {
	case c.FinishReason == "error":
		return nil // RUN_ERROR was the end
	case c.MessageMetadata != nil && c.MessageMetadata.Turn == "interrupted":
		out.Outcome.Type = "cancelled"
	case c.FinishReason == "tool-calls":
		for _, q := range r.waiting {
			if r.waits(q) {
				out.Outcome.Type = "interrupt"
				out.Outcome.Interrupts = append(out.Outcome.Interrupts, interrupt(q))
			}
		}
		for _, q := range r.inputs {
			out.Outcome.Type = "interrupt"
			out.Outcome.Interrupts = append(out.Outcome.Interrupts, inputInterrupt(q))
		}
		if out.Outcome.Type == "success" {
			out.Outcome.PendingToolCallIDs = r.calls
		}
	}
	var all []Event
	for _, id := range r.subAgents { // a sub-agent goes on in another run
		all = append(all, Event{Type: "SUBAGENT_FINISHED", SubagentRunID: id, Outcome: &Outcome{Type: "suspended"}})
	}
	return append(all, out)
}

// waits reports whether a request is the last one of a call without a result.
func (r *Run) waits(q *event.ApprovalRequest) bool {
	var last *event.ApprovalRequest
	for _, other := range r.waiting {
		if other.ToolCallID == q.ToolCallID {
			last = other
		}
	}
	return last == q && slices.Contains(r.calls, q.ToolCallID)
}

func interrupt(q *event.ApprovalRequest) Interrupt {
	i := Interrupt{
		ID: uistream.ApprovalID(q), Reason: "tool_approval", Message: q.Agent + " wants to call " + q.ToolName, ToolCallID: q.ToolCallID,
		ResponseSchema: json.RawMessage(answerSchema), Metadata: map[string]any{"request": q},
	}
	if q.ExpiresAt != nil {
		i.ExpiresAt = q.ExpiresAt.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return i
}

// text returns a JSON string's text, or other JSON as it is.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
