package uistream

import (
	"encoding/json"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
)

// RequestInput is the name of the tool whose calls stand for the questions of tools. The client answers
// such a call with its output.
const RequestInput = "request_input"

// InputID returns the id of the call that stands for a request for input.
func InputID(q event.InputRequest) string { return recordid.InputRequest(q.ToolCallID, q.Round) }

// question shows what a tool asks, in a step of its own: the AI SDK sends an answer once all calls of the
// last step have outputs, and the call that asks has none yet.
func (t *Turn) question(e event.AgentEvent) []Chunk {
	q := e.Input
	c, known := t.calls[q.ToolCallID]
	if !known || c.settled {
		return nil
	}
	out := c.withdrawn()
	c.waits, c.input, t.mixed = true, InputID(*q), true
	input, _ := json.Marshal(q) // its schemas are JSON
	return t.named(e.Agent, append(out,
		Chunk{Type: "finish-step"}, Chunk{Type: "start-step"},
		Chunk{Type: "data-input", ID: c.input, Data: q},
		Chunk{Type: "tool-input-available", ToolCallID: c.input, ToolName: RequestInput, Input: input, Reply: e.MessageID, Dynamic: !slices.Contains(t.cfg.Static, RequestInput)},
	))
}

func (t *Turn) answer(a *event.InputReceived) []Chunk {
	c, known := t.calls[a.ToolCallID]
	if !known || c.input != recordid.InputRequest(a.ToolCallID, a.Round) {
		return nil
	}
	out := Chunk{Type: "tool-output-available", ToolCallID: c.input}
	out.Output, _ = json.Marshal(a)
	c.waits, c.input = false, ""
	return []Chunk{out}
}

// withdrawn ends the question of a call that no longer waits for an answer.
func (c *call) withdrawn() []Chunk {
	if c.input == "" {
		return nil
	}
	id := c.input
	c.input = ""
	return []Chunk{{Type: "tool-output-error", ToolCallID: id, ErrorText: "The question was withdrawn: the call has ended."}}
}
