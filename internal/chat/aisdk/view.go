package aisdk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/turn"
)

// RequestInput is the name of the tool whose calls stand for the questions of tools. The client answers such a call with its
// output.
const RequestInput = "request_input"

// InputID returns the id of the call that stands for a request for input.
func InputID(q event.InputRequest) string { return recordid.InputRequest(q.ToolCallID, q.Round) }

// view returns the parts of the AI SDK that show a part. There are none of a text that has not begun.
func (e *Encoder) view(p chat.Part) []*UIPart {
	switch p := p.(type) {
	case *chat.Text:
		return said("text", p.Content, p.Done)
	case *chat.Thought:
		return said("reasoning", p.Content, p.Done)
	case *chat.Call:
		return []*UIPart{e.tool(p)}
	case *chat.Ask:
		return data("data-approval", p.Call.ID, p.Call.Request)
	case *chat.Decided:
		return data("data-decision", p.Call.ID, p.Call.Decision)
	case *chat.Question:
		return append(data("data-input", InputID(p.Request), &p.Request), e.question(p))
	case *chat.Found:
		return e.found(p.Retrieval)
	case *chat.World:
		return data("data-event", p.ID, p.EnvEvent)
	case *chat.Notice:
		return data("data-status", "", p.StatusChange)
	case *chat.Failure:
		return data("data-error", p.Reply, failure{p.Agent, p.Error})
	}
	return nil
}

// failure is the data of a data-error part.
type failure struct {
	Agent string `json:"agent"`
	Error string `json:"error"`
}

func data(typ, id string, v any) []*UIPart { return []*UIPart{{Type: typ, ID: id, Data: v}} }

func said(typ, text string, done bool) []*UIPart {
	switch {
	case text == "":
		return nil
	case done:
		return []*UIPart{{Type: typ, Text: text, State: "done"}}
	}
	return []*UIPart{{Type: typ, Text: text, State: "streaming"}}
}

// part returns the part of a call of a tool, without its state.
func (e *Encoder) part(id, tool string) *UIPart {
	if e.declared(tool) {
		return &UIPart{Type: "tool-" + tool, ToolCallID: id}
	}
	return &UIPart{Type: "dynamic-tool", ToolName: tool, ToolCallID: id}
}

// The states of tools.
const (
	inputAvailable    = "input-available"
	approvalRequested = "approval-requested"
	approvalResponded = "approval-responded"
	outputAvailable   = "output-available"
	outputError       = "output-error"
	outputDenied      = "output-denied"
)

func (e *Encoder) tool(c *chat.Call) *UIPart {
	p := e.part(c.ID, c.Tool)
	valid := json.Valid([]byte(c.Arguments))
	if p.Input = json.RawMessage(c.Arguments); !valid {
		p.Input = quoted(c.Arguments)
	}
	decided, state := c.Decided(), c.State()
	if c.Request != nil || state.Refused() {
		p.Approval = &UIApproval{ID: c.ID}
		if c.Request != nil {
			p.Approval.ID = chat.ApprovalID(c.Request)
		}
		if decided != nil {
			p.Approval.Approved, p.Approval.Reason = new(decided.Decision == event.DecisionApprove), decided.Reason
		}
	}
	switch {
	case state == turn.WaitsForApproval:
		p.State = approvalRequested
	case state.Refused():
		p.State = outputDenied
	case state.Settled():
		e.output(p, c)
	case state == turn.WaitsForClient:
		p.State = inputAvailable
	default:
		if p.State = inputAvailable; p.Approval != nil {
			p.State = approvalResponded
		}
	}
	if !valid && p.Approval == nil && !state.Settled() {
		p.State, p.ErrorText = outputError, notJSON
	}
	return p
}

// notJSON is the error of a call whose arguments cannot be read.
const notJSON = "the arguments are not JSON"

// output sets how a call ended.
func (e *Encoder) output(p *UIPart, c *chat.Call) {
	switch {
	case c.Result != nil && c.Result.IsError:
		p.State, p.ErrorText = outputError, c.Result.Output
	case c.Result != nil:
		p.State, p.Output = outputAvailable, json.RawMessage(c.Result.Output)
		if !json.Valid(p.Output) {
			p.Output = quoted(c.Result.Output)
		}
	case c.Foreign:
		p.State, p.Output = outputAvailable, quoted(fmt.Sprintf("Approved by %s. The sub-agent has the result.", c.Decision.By))
	default:
		p.State, p.ErrorText = outputError, "The turn has ended."
	}
}

// question returns the call that stands for a question.
func (e *Encoder) question(q *chat.Question) *UIPart {
	p := e.part(InputID(q.Request), RequestInput)
	p.Input, _ = json.Marshal(q.Request) // its schemas are JSON
	switch {
	case q.Received != nil:
		p.State = outputAvailable
		p.Output, _ = json.Marshal(q.Received)
	case q.Withdrawn:
		p.State, p.ErrorText = outputError, "The question was withdrawn: the call has ended."
	default:
		p.State = inputAvailable
	}
	return p
}

// found returns what an agent was given, and each passage as a source. A passage that several agents were given is one source.
func (e *Encoder) found(r *event.Retrieval) []*UIPart {
	out := data("data-retrieval", r.MessageID, r)
	for i, p := range r.Passages {
		if e.sources[p.ID] {
			continue
		}
		e.sources[p.ID] = true
		out = append(out, &UIPart{
			Type: "source-document", SourceID: p.ID, MediaType: "text/plain", Title: cmp.Or(p.Title, p.Source), Filename: p.Source,
			ProviderMetadata: map[string]any{"threadmill": Source{Number: i + 1, Document: p.Document, Index: p.Index, Section: strings.Join(p.Path, " > "), Page: p.Page}},
		})
	}
	return out
}

func quoted(s string) json.RawMessage {
	out, _ := json.Marshal(s) // strings can always be encoded
	return out
}
