package agui

import "github.com/threadmill/threadmill/internal/uistream"

// Message is a message of AG-UI.
type Message struct {
	ID         string     `json:"id"`
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Name       string     `json:"name,omitempty"`
	ToolCalls  []ToolCall `json:"toolCalls,omitempty"`
	ToolCallID string     `json:"toolCallId,omitempty"`
}

// ToolCall is a tool call of a message.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is the function of a tool call.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Messages are the messages of a thread, in the form of AG-UI.
type Messages struct {
	list      []*Message
	retrieved []Event
}

// Said adds a message of a person.
func (m *Messages) Said(id, sender, content string) {
	m.list = append(m.list, &Message{ID: id, Role: "user", Content: content, Name: sender})
}

// List returns the messages.
func (m *Messages) List() []*Message {
	if m.list == nil {
		return []*Message{}
	}
	return m.list
}

// Retrieved returns the events with what the agents of the messages were given, which the messages do not say.
func (m *Messages) Retrieved() []Event { return m.retrieved }

// Apply adds what a chunk of a turn says.
func (m *Messages) Apply(run *Run, c uistream.Chunk) {
	for _, e := range run.Events(c) {
		switch e.Type {
		case "TEXT_MESSAGE_START":
			m.message(e.MessageID).Name = e.Name
		case "TEXT_MESSAGE_CONTENT":
			m.message(e.MessageID).Content += e.Delta
		case "TOOL_CALL_START":
			parent := m.message(e.ParentMessageID)
			parent.ToolCalls = append(parent.ToolCalls, ToolCall{ID: e.ToolCallID, Type: "function", Function: Function{Name: e.ToolCallName}})
		case "TOOL_CALL_ARGS":
			m.arguments(e.ToolCallID, e.Delta)
		case "TOOL_CALL_RESULT":
			m.list = append(m.list, &Message{ID: e.MessageID, Role: "tool", Content: *e.Content, ToolCallID: e.ToolCallID})
		case "CUSTOM":
			if e.Name == customRetrieval {
				m.retrieved = append(m.retrieved, e)
			}
		}
	}
}

// message returns the message of an agent, which it adds if there is none.
func (m *Messages) message(id string) *Message {
	for _, known := range m.list {
		if known.ID == id {
			return known
		}
	}
	added := &Message{ID: id, Role: "assistant"}
	m.list = append(m.list, added)
	return added
}

func (m *Messages) arguments(callID, args string) {
	for _, one := range m.list {
		for i := range one.ToolCalls {
			if one.ToolCalls[i].ID == callID {
				one.ToolCalls[i].Function.Arguments += args
			}
		}
	}
}
