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

// Snapshot returns the messages of a chat as a client has them that has read all of it, and the events that it got about the
// answers, which messages do not have.
func Snapshot(c *chat.Chat) (messages []*Message, events []Event) {
	messages = []*Message{}
	for _, m := range c.Messages {
		if !m.Answer {
			messages = append(messages, &Message{ID: m.ID, Role: "user", Content: m.Content, Name: m.Sender})
			continue
		}
		messages = append(messages, answer(m)...)
		events = append(events, customs(New(Config{}).Sync(m))...)
	}
	return messages, events
}

// customs returns the events that do not make messages.
func customs(events []Event) []Event {
	return slices.DeleteFunc(events, func(e Event) bool { return e.Type != "CUSTOM" })
}

// answer returns the messages of an answer in the order in which they were stored. Results stand behind their calls, where
// clients put them.
func answer(m *chat.Message) []*Message {
	type entry struct {
		*Message
		at      int
		results []entry
	}
	var list []*entry
	message := func(id, agent string, at int) *entry {
		if i := slices.IndexFunc(list, func(known *entry) bool { return known.ID == id }); i >= 0 {
			return list[i]
		}
		list = append(list, &entry{Message: &Message{ID: id, Role: "assistant", Name: agent}, at: at})
		return list[len(list)-1]
	}
	for i, p := range m.Parts {
		switch p := p.(type) {
		case *chat.Text:
			if p.Content != "" {
				message(p.Reply, p.Agent, m.Stored(i)).Content = p.Content
			}
		case *chat.Call:
			parent := message(parentOf(p), p.Agent, m.Added(i))
			parent.ToolCalls = append(parent.ToolCalls, ToolCall{ID: p.ID, Type: "function", Function: Function{Name: p.Tool, Arguments: p.Arguments}})
			if content, over := resultOf(p); over {
				result := &Message{ID: ResultID(p.ID), Role: "tool", Content: content, ToolCallID: p.ID}
				parent.results = append(parent.results, entry{Message: result, at: p.SettledAt})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *entry) int { return cmp.Compare(a.at, b.at) })
	var out []*Message
	for _, one := range list {
		out = append(out, one.Message)
		slices.SortStableFunc(one.results, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
		for _, result := range one.results {
			out = append(out, result.Message)
		}
	}
	return out
}
