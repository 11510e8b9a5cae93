package agui

import (
	"cmp"
	"slices"

	"github.com/threadmill/threadmill/internal/chat"
)

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

// Snapshot returns the messages of a chat as a client has them that has read all of it, and the events with what the
// agents were given, which messages do not say.
func Snapshot(c *chat.Chat) (messages []*Message, retrieved []Event) {
	messages = []*Message{}
	for _, m := range c.Messages {
		if !m.Answer {
			messages = append(messages, &Message{ID: m.ID, Role: "user", Content: m.Content, Name: m.Sender})
			continue
		}
		messages = append(messages, answer(m)...)
		for _, p := range m.Parts {
			if p, is := p.(*chat.Found); is {
				retrieved = append(retrieved, found(p)...)
			}
		}
	}
	return messages, retrieved
}

// answer returns the messages of an answer, in the order in which a client got them.
func answer(m *chat.Message) []*Message {
	type entry struct {
		*Message
		at int
	}
	var list []entry
	message := func(id, agent string, at int) *Message {
		if i := slices.IndexFunc(list, func(known entry) bool { return known.ID == id }); i >= 0 {
			return list[i].Message
		}
		list = append(list, entry{&Message{ID: id, Role: "assistant", Name: agent}, at})
		return list[len(list)-1].Message
	}
	for i, p := range m.Parts {
		switch p := p.(type) {
		case *chat.Text:
			if p.Content != "" {
				message(p.Reply, p.Agent, m.Added(i)).Content = p.Content
			}
		case *chat.Call:
			parent := message(parentOf(p), p.Agent, m.Added(i))
			parent.ToolCalls = append(parent.ToolCalls, ToolCall{ID: p.ID, Type: "function", Function: Function{Name: p.Tool, Arguments: p.Arguments}})
			if content, over := resultOf(p); over {
				list = append(list, entry{&Message{ID: ResultID(p.ID), Role: "tool", Content: content, ToolCallID: p.ID}, p.SettledAt})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	out := make([]*Message, len(list))
	for i, one := range list {
		out[i] = one.Message
	}
	return out
}
