package agui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/builtin"
	"github.com/threadmill/threadmill/internal/chat"
)

// Config configures an [Encoder].
type Config struct {
	ThreadID, RunID string

	// Known are the messages and tool calls that the client has.
	Known map[string]bool

	// Version is the version of the protocol that the client speaks; empty for clients before 1.0, which fail on
	// what they do not know.
	Version string
}

// Encoder encodes one answer for one run.
type Encoder struct {
	cfg   Config
	parts []*shown // what the client has of each part; nil = nothing
	since int      // the revision that it has

	begun map[string]bool // messages
}

// shown is what a client has of a part.
type shown struct {
	id          string // of the message
	times       int    // that the message was begun
	sent        string
	open, ended bool
	args        string
	agent       bool // the call asks a sub-agent, which goes on
	result      bool
}

// New returns an encoder of a run.
func New(cfg Config) *Encoder { return &Encoder{cfg: cfg, begun: map[string]bool{}} }

func (e *Encoder) old() bool { return e.cfg.Version == "" }

// Begin returns the event that begins the run.
func (e *Encoder) Begin() []Event {
	out := Event{Type: "RUN_STARTED", ThreadID: e.cfg.ThreadID, RunID: e.cfg.RunID}
	if !e.old() {
		out.ProtocolVersion = "1.0"
	}
	return []Event{out}
}

// Sync returns how the answer differs from what the client has.
func (e *Encoder) Sync(m *chat.Message) []Event {
	var out []Event
	for i, p := range m.Parts {
		for len(e.parts) <= i {
			e.parts = append(e.parts, &shown{})
		}
		if m.Changed(i, e.since) {
			out = append(out, e.show(e.parts[i], p)...)
		}
	}
	e.since = m.Revision()
	return out
}

// Progress returns the event of an event that changes nothing, such as the progress of a tool.
func (e *Encoder) Progress(a event.AgentEvent) []Event {
	switch {
	case a.Type == event.EventToolProgress:
		return custom("tool-progress", map[string]any{"toolCallId": a.ToolCallID, "toolName": a.ToolName, "progress": a.Data})
	case a.Type == event.EventStatus && a.Status.Status == event.StatusRetrying:
		return custom("status", chat.Presentable(a.Status))
	}
	return nil
}

// Fail returns the event of an error, which ends a run.
func Fail(problem string) []Event { return []Event{{Type: "RUN_ERROR", Message: problem}} }

// End returns the events that end the run of an answer that is over.
func (e *Encoder) End(m *chat.Message) []Event {
	outcome := "success"
	if s := m.Ended; s != nil {
		switch s.Turn {
		case "failed", "expired":
			return Fail(cmp.Or(s.Detail, "the turn "+s.Turn))
		case "interrupted":
			if !e.old() {
				outcome = "cancelled"
			}
		}
	}
	return e.finish(&Outcome{Type: outcome})
}

// Empty returns the event that ends a run without a turn.
func (e *Encoder) Empty() []Event { return e.finish(&Outcome{Type: "success"}) }

// Pause returns the events that end a run whose turn waits.
func (e *Encoder) Pause(m *chat.Message) []Event {
	out := &Outcome{Type: "success"}
	var pending []string
	for _, part := range m.Parts {
		call, is := part.(*chat.Call)
		switch {
		case !is:
		case call.State() == chat.WaitsForPerson:
			out.Interrupts = append(out.Interrupts, approvalInterrupt(call.Request))
		case call.State() == chat.WaitsForInput:
			out.Interrupts = append(out.Interrupts, inputInterrupt(&call.Question.Request))
		case call.State() == chat.WaitsForClient:
			pending = append(pending, call.ID)
		}
	}
	switch {
	case len(out.Interrupts) > 0:
		out.Type = "interrupt"
	case !e.old():
		out.PendingToolCallIDs = pending
	}
	return e.finish(out)
}

func (e *Encoder) finish(outcome *Outcome) []Event {
	var out []Event
	for _, one := range e.parts {
		if one.agent { // a sub-agent goes on in another run
			out = append(out, Event{Type: "SUBAGENT_FINISHED", SubagentRunID: one.id, Outcome: &Outcome{Type: "suspended"}})
		}
	}
	return append(out, Event{Type: "RUN_FINISHED", ThreadID: e.cfg.ThreadID, RunID: e.cfg.RunID, Outcome: outcome})
}

func custom(name string, value any) []Event {
	return []Event{{Type: "CUSTOM", Name: "threadmill." + name, Value: value}}
}

// show returns the events that make a part what it is.
func (e *Encoder) show(has *shown, p chat.Part) []Event {
	switch p := p.(type) {
	case *chat.Text:
		return e.said(has, p.Reply, p.Content, p.Done, text(p.Agent))
	case *chat.Thought:
		return e.said(has, p.Reply+".thought", p.Content, p.Done, thought)
	case *chat.Call:
		return e.call(has, p)
	case *chat.Decided:
		return custom("decision", p.Call.Decision)
	case *chat.Found:
		if e.cfg.Known[p.MessageID] {
			return nil // the client has the reply, and what its agent was given
		}
		return found(p)
	case *chat.World:
		return custom("event", p.EnvEvent)
	case *chat.Notice:
		return custom("status", p.StatusChange)
	case *chat.Failure:
		return custom("error", map[string]string{"agent": p.Agent, "error": p.Error})
	case *chat.Ask, *chat.Question: // the interrupt tells
	}
	return nil
}

func found(p *chat.Found) []Event { return custom("retrieval", p.Retrieval) }

// form is how what an agent says or thinks is sent.
type form struct {
	begin   []Event
	content string
	end     []string
}

func text(agent string) form {
	return form{[]Event{{Type: "TEXT_MESSAGE_START", Role: "assistant", Name: agent}}, "TEXT_MESSAGE_CONTENT", []string{"TEXT_MESSAGE_END"}}
}

var thought = form{
	[]Event{{Type: "REASONING_START"}, {Type: "REASONING_MESSAGE_START", Role: "reasoning"}},
	"REASONING_MESSAGE_CONTENT",
	[]string{"REASONING_MESSAGE_END", "REASONING_END"},
}

// said sends what a text or a thought has become. What the client has of it cannot be taken back: the message is void then,
// and another one begins.
func (e *Encoder) said(has *shown, id, now string, done bool, as form) []Event {
	var out []Event
	more, longer := strings.CutPrefix(now, has.sent)
	switch {
	case e.cfg.Known[id]:
		return nil
	case has.ended && now != has.sent:
		has.sent = now
		return custom("changed", map[string]string{"messageId": id, "text": now})
	case has.ended:
		return nil
	case !longer:
		if has.open {
			out = append(out, has.end(as)...)
		}
		out, more, has.sent = append(out, custom("reset", map[string]any{"messageId": id})...), now, ""
	}
	if more != "" && !has.open {
		has.times++
		if has.id = id; has.times > 1 {
			has.id = fmt.Sprintf("%s.%d", id, has.times)
		}
		has.open, e.begun[id] = true, true
		for _, one := range as.begin {
			one.MessageID = has.id
			out = append(out, one)
		}
	}
	if more != "" {
		out = append(out, Event{Type: as.content, MessageID: has.id, Delta: more})
	}
	if has.sent = now; done {
		if has.open {
			out = append(out, has.end(as)...)
		}
		has.ended = true
	}
	return out
}

func (has *shown) end(as form) (out []Event) {
	has.open = false
	for _, typ := range as.end {
		out = append(out, Event{Type: typ, MessageID: has.id})
	}
	return out
}

func (e *Encoder) call(has *shown, c *chat.Call) []Event {
	var out []Event
	switch {
	case has.id == "":
		has.id, has.args = c.ID, c.Arguments
		out = e.calls(has, c)
	case has.args != c.Arguments:
		has.args = c.Arguments
		out = custom("call-changed", map[string]any{"toolCallId": c.ID, "input": input(c.Arguments)})
	}
	result, over := resultOf(c)
	if !over || has.result {
		return out
	}
	has.result = true
	if has.agent {
		has.agent = false
		ends := Event{Type: "SUBAGENT_FINISHED", SubagentRunID: c.ID, Outcome: &Outcome{Type: "success"}}
		if c.State() == chat.Denied || c.Result == nil || c.Result.IsError {
			ends = Event{Type: "SUBAGENT_ERROR", SubagentRunID: c.ID, Message: result}
		}
		out = append(out, ends)
	}
	if id := ResultID(c.ID); !e.cfg.Known[id] {
		out = append(out, Event{Type: "TOOL_CALL_RESULT", MessageID: id, ToolCallID: c.ID, Content: &result, Role: "tool"})
	}
	return out
}

// calls announces a call, and the sub-agent that it asks.
func (e *Encoder) calls(has *shown, c *chat.Call) []Event {
	var out []Event
	parent := parentOf(c)
	if !e.cfg.Known[c.ID] {
		if c.Agent != "" && !e.begun[parent] && !e.cfg.Known[parent] { // a reply without text says whose it is
			e.begun[parent] = true
			out = append(out, Event{Type: "TEXT_MESSAGE_START", MessageID: parent, Role: "assistant", Name: c.Agent}, Event{Type: "TEXT_MESSAGE_END", MessageID: parent})
		}
		out = append(out, Event{Type: "TOOL_CALL_START", ToolCallID: c.ID, ToolCallName: c.Tool, ParentMessageID: parent})
		if c.Arguments != "" {
			out = append(out, Event{Type: "TOOL_CALL_ARGS", ToolCallID: c.ID, Delta: c.Arguments})
		}
		out = append(out, Event{Type: "TOOL_CALL_END", ToolCallID: c.ID})
	}
	var asked builtin.AgentArguments
	if c.Tool != builtin.CallAgent && c.Tool != builtin.CallAgentHyphen || c.Foreign || e.old() || e.cfg.Known[ResultID(c.ID)] ||
		json.Unmarshal([]byte(c.Arguments), &asked) != nil || asked.Agent == "" {
		return out
	}
	has.agent = true
	return append(out, Event{Type: "SUBAGENT_STARTED", SubagentRunID: c.ID, Name: asked.Agent, ParentToolCallID: c.ID, ParentMessageID: parent})
}

// parentOf returns the message that a call is shown in. One of a sub-agent has a message of its own.
func parentOf(c *chat.Call) string {
	if c.Foreign {
		return c.ID + ".call"
	}
	return c.Reply
}

// ResultID returns the id of the message with the result of a call.
func ResultID(callID string) string { return callID + ".result" }

// resultOf returns the result of a call, if it is over.
func resultOf(c *chat.Call) (content string, over bool) {
	switch state := c.State(); {
	case state == chat.Denied:
		return "denied", true
	case state != chat.Done:
		return "", false
	case c.Result != nil:
		return c.Result.Output, true
	case c.Foreign:
		return "approved", true
	}
	return "the turn has ended", true
}

func input(arguments string) json.RawMessage {
	if raw := json.RawMessage(arguments); json.Valid(raw) {
		return raw
	}
	quoted, _ := json.Marshal(arguments) // strings can always be encoded
	return quoted
}
