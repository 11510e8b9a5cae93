package uistream

import (
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
)

// Messages are the messages of a thread, made of its events.
type Messages struct {
	threadID string
	list     []*UIMessage
	turns    map[string]*openTurn // by event
}

type openTurn struct {
	turn    *Turn
	message *UIMessage
}

// NewMessages returns the messages of a thread without events.
func NewMessages(threadID string) *Messages {
	return &Messages{threadID: threadID, list: []*UIMessage{}, turns: map[string]*openTurn{}}
}

// List returns the messages. Assistant messages without parts are left out.
func (m *Messages) List() []*UIMessage {
	return slices.DeleteFunc(slices.Clone(m.list), func(one *UIMessage) bool { return one.Role == "assistant" && len(one.Parts) == 0 })
}

// Apply adds an event.
func (m *Messages) Apply(e event.AgentEvent) {
	if e.EventID == "" {
		return
	}
	if e.Type == event.EventMessage && Said(e.EventID, e.Message) {
		m.said(e)
		return
	}
	open := m.turns[e.EventID]
	if open == nil {
		open = m.begin(e.EventID, e.EventID)
	}
	for _, c := range open.turn.Apply(e) {
		open.message.apply(c)
	}
}

// Said reports whether a message of an event was posted, and does not only show agents an environment
// event.
func Said(eventID string, m *event.Message) bool {
	return m.SenderType != event.CreatedByAgent && m.Role == event.RoleUser && m.ID != recordid.Observed(eventID)
}

// said adds a message of a person. The answer to it is another assistant message, also if it joined
// a turn.
func (m *Messages) said(e event.AgentEvent) {
	for _, known := range m.list {
		if known.ID == e.Message.ID { // a hook has changed it
			known.Parts = []*UIPart{{Type: "text", Text: e.Message.Content, State: "done"}}
			return
		}
	}
	m.list = append(m.list, &UIMessage{
		ID: e.Message.ID, Role: "user", Parts: []*UIPart{{Type: "text", Text: e.Message.Content, State: "done"}},
		Metadata: &UIMetadata{ThreadID: m.threadID, EventID: e.EventID, Sender: e.Message.SenderID, CreatedAt: e.CreatedAt.Format(time.RFC3339Nano)},
	})
	m.begin(e.EventID, e.Message.ID)
}

func (m *Messages) begin(eventID, messageID string) *openTurn {
	open := m.turns[eventID]
	if open == nil {
		open = &openTurn{turn: NewTurn(Config{ThreadID: m.threadID, EventID: eventID, MessageID: messageID})}
		m.turns[eventID] = open
	}
	clear(open.turn.sources)
	open.message = &UIMessage{ID: AssistantID(messageID), Role: "assistant", Metadata: &UIMetadata{ThreadID: m.threadID, EventID: eventID}, Parts: []*UIPart{}}
	m.list = append(m.list, open.message)
	return open
}

// apply adds a chunk to a message, as the AI SDK does.
func (m *UIMessage) apply(c Chunk) {
	if c.Transient {
		return
	}
	switch c.Type {
	case "start-step":
		m.Parts = append(m.Parts, &UIPart{Type: "step-start"})
	case "text-start", "reasoning-start":
		m.Parts = append(m.Parts, &UIPart{Type: c.Type[:len(c.Type)-len("-start")], ID: c.ID, State: "streaming"})
	case "text-delta", "reasoning-delta":
		if p := m.last(c.Type[:len(c.Type)-len("-delta")], c.ID); p != nil {
			p.Text += c.Delta
		}
	case "text-end", "reasoning-end":
		if p := m.last(c.Type[:len(c.Type)-len("-end")], c.ID); p != nil {
			p.State, p.ID = "done", ""
		}
	case "tool-input-available":
		m.tool(c, "input-available")
	case "tool-input-error":
		m.tool(c, "output-error")
	case "tool-approval-request":
		m.change(c, func(p *UIPart) { p.State, p.Approval = "approval-requested", &UIApproval{ID: c.ApprovalID} })
	case "tool-output-available":
		m.change(c, func(p *UIPart) { p.State, p.Output = "output-available", c.Output })
	case "tool-output-error":
		m.change(c, func(p *UIPart) { p.State, p.ErrorText = "output-error", c.ErrorText })
	case "tool-output-denied":
		m.change(c, func(p *UIPart) { p.State = "output-denied" })
	case "source-document":
		m.Parts = append(m.Parts, &UIPart{
			Type: c.Type, SourceID: c.SourceID, MediaType: c.MediaType, Title: c.Title, Filename: c.Filename, ProviderMetadata: c.ProviderMetadata,
		})
	case "data-decision":
		m.decided(c)
	case "finish":
		m.Metadata.Turn = c.MessageMetadata.Turn
	}
	if len(c.Type) > 5 && c.Type[:5] == "data-" {
		if p := m.last(c.Type, c.ID); p != nil && c.ID != "" {
			p.Data = c.Data
			return
		}
		m.Parts = append(m.Parts, &UIPart{Type: c.Type, ID: c.ID, Data: c.Data})
	}
}

func (m *UIMessage) last(typ, id string) *UIPart {
	for _, p := range slices.Backward(m.Parts) {
		if p.Type == typ && p.ID == id {
			return p
		}
	}
	return nil
}

func (m *UIMessage) tool(c Chunk, state string) {
	known := false
	m.change(c, func(p *UIPart) { known, p.Input = true, c.Input })
	if !known {
		m.Parts = append(m.Parts, &UIPart{Type: "dynamic-tool", ToolName: c.ToolName, ToolCallID: c.ToolCallID, State: state, Input: c.Input, ErrorText: c.ErrorText})
	}
}

func (m *UIMessage) change(c Chunk, change func(*UIPart)) {
	for _, p := range m.Parts {
		if p.ToolCallID == c.ToolCallID && p.Type == "dynamic-tool" {
			change(p)
		}
	}
}

// decided notes the decision in the approval of the call.
func (m *UIMessage) decided(c Chunk) {
	a, ok := c.Data.(*event.Approval)
	if !ok || a.Missing > 0 {
		return
	}
	approved := a.Decision == event.DecisionApprove
	m.change(Chunk{ToolCallID: c.ID}, func(p *UIPart) {
		if p.Approval == nil {
			return
		}
		p.Approval.Approved, p.Approval.Reason = &approved, a.Reason
		if approved && p.State == "approval-requested" {
			p.State = "approval-responded"
		}
	})
}
