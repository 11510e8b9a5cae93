package agui_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/internal/chat/agui"
)

// client reads events as the client of AG-UI does. It fails where that would throw.
type client struct {
	messages []*agui.Message
	open     map[string]bool // what has to end before the run does
	finished bool
	customs  []string
}

// begin begins another run.
func (c *client) begin() { c.open, c.finished = map[string]bool{}, false }

func (c *client) read(events []agui.Event) error {
	for _, e := range events {
		if err := c.apply(e); err != nil {
			data, _ := json.Marshal(e)
			return fmt.Errorf("%s: %w", data, err)
		}
	}
	return nil
}

func (c *client) find(id string) *agui.Message {
	if i := slices.IndexFunc(c.messages, func(m *agui.Message) bool { return m.ID == id }); i >= 0 {
		return c.messages[i]
	}
	return nil
}

// owner returns the index of the message with a call, or -1.
func (c *client) owner(call string) int {
	return slices.IndexFunc(c.messages, func(m *agui.Message) bool {
		return slices.ContainsFunc(m.ToolCalls, func(one agui.ToolCall) bool { return one.ID == call })
	})
}

// opens and closes are a start and an end.
func (c *client) opens(kind, id string) error {
	if c.open[kind+id] {
		return fmt.Errorf("it is open")
	}
	c.open[kind+id] = true
	return nil
}

func (c *client) closes(kind, id string) error {
	if !c.open[kind+id] {
		return fmt.Errorf("it is not open")
	}
	delete(c.open, kind+id)
	return nil
}

func (c *client) apply(e agui.Event) error {
	if c.finished {
		return fmt.Errorf("it comes behind the end")
	}
	switch e.Type {
	case "RUN_STARTED":
	case "RUN_ERROR":
		c.finished = true
	case "RUN_FINISHED":
		if c.finished = true; len(c.open) > 0 {
			return fmt.Errorf("open: %v", c.open)
		}
	case "CUSTOM":
		data, err := json.Marshal([]any{e.Name, e.Value})
		c.customs = append(c.customs, string(data))
		return err
	case "MESSAGES_SNAPSHOT":
		return c.snapshot(*e.Messages)
	case "SUBAGENT_STARTED":
		return c.opens("agent", e.SubagentRunID)
	case "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
		return c.closes("agent", e.SubagentRunID)
	default:
		if strings.HasPrefix(e.Type, "TOOL_CALL") {
			return c.call(e)
		}
		return c.say(e)
	}
	return nil
}

func (c *client) say(e agui.Event) error {
	at := strings.LastIndex(e.Type, "_")
	kind, step := e.Type[:at], e.Type[at+1:]
	switch step {
	case "START":
		if kind != "REASONING" && c.find(e.MessageID) == nil {
			c.messages = append(c.messages, &agui.Message{ID: e.MessageID, Role: e.Role, Name: e.Name})
		}
		return c.opens(kind, e.MessageID)
	case "CONTENT":
		m := c.find(e.MessageID)
		if !c.open[kind+e.MessageID] || m == nil {
			return fmt.Errorf("there is no such message")
		}
		m.Content += e.Delta
	case "END":
		return c.closes(kind, e.MessageID)
	}
	return nil
}

func (c *client) call(e agui.Event) error {
	at := c.owner(e.ToolCallID)
	switch e.Type {
	case "TOOL_CALL_START":
		if at >= 0 {
			return fmt.Errorf("the client has the call")
		}
		parent := c.find(e.ParentMessageID)
		if parent == nil {
			parent = &agui.Message{ID: e.ParentMessageID, Role: "assistant"}
			c.messages = append(c.messages, parent)
		}
		parent.ToolCalls = append(parent.ToolCalls, agui.ToolCall{ID: e.ToolCallID, Type: "function", Function: agui.Function{Name: e.ToolCallName}})
		return c.opens("call", e.ToolCallID)
	case "TOOL_CALL_ARGS":
		calls := c.messages[at].ToolCalls
		calls[len(calls)-1].Function.Arguments += e.Delta
	case "TOOL_CALL_END":
		return c.closes("call", e.ToolCallID)
	case "TOOL_CALL_RESULT":
		if c.find(e.MessageID) != nil || at < 0 {
			return fmt.Errorf("the client has the result, or no call")
		}
		for at++; at < len(c.messages) && c.messages[at].Role == "tool"; at++ {
		}
		c.messages = slices.Insert(c.messages, at, &agui.Message{ID: e.MessageID, Role: "tool", ToolCallID: e.ToolCallID, Content: *e.Content})
	}
	return nil
}

// snapshot replaces what the client has in its place, and appends the rest. Thoughts stay.
func (c *client) snapshot(messages []any) error {
	var news []*agui.Message
	data, err := json.Marshal(messages)
	if err == nil {
		err = json.Unmarshal(data, &news)
	}
	if err != nil {
		return err
	}
	for _, m := range news {
		if m == nil || m.ID == "" || m.Role == "" {
			return fmt.Errorf("it has no message")
		}
	}
	have := c.messages
	c.messages = nil
	index := func(id string) int { return slices.IndexFunc(news, func(m *agui.Message) bool { return m.ID == id }) }
	for _, m := range have {
		if i := index(m.ID); i >= 0 {
			c.messages = append(c.messages, news[i])
		} else if m.Role == "reasoning" {
			c.messages = append(c.messages, m)
		}
	}
	for _, m := range news {
		if c.find(m.ID) == nil {
			c.messages = append(c.messages, m)
		}
	}
	return nil
}

// held are the messages as the client sends them with its next run.
func (c *client) held() []*agui.Held {
	out := agui.Holds(c.messages)
	for i, m := range c.messages {
		data, _ := json.Marshal(m) // it has only strings
		out[i].Message = json.RawMessage(data)
	}
	return out
}

// has are the messages that a client has which connects, one a line.
func (c *client) has() []string { return lines(c.messages) }

func lines(messages []*agui.Message) []string {
	var out []string
	for _, m := range messages {
		if m.Role != "reasoning" {
			data, _ := json.Marshal(m)
			out = append(out, string(data))
		}
	}
	return out
}
