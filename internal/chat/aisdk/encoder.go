package aisdk

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
)

// Config configures an [Encoder].
type Config struct {
	ThreadID string

	// EventID is the event of the turn, and MessageID the posted message that is answered: that event, or a message
	// that joined its turn.
	EventID, MessageID string

	// Static are the tools that the frontend declares. All others are dynamic.
	Static []string

	// Version is that of the AI SDK: 6 or 7. Version 7 can take text back, and be told of decisions.
	Version int
}

// Encoder encodes one answer for one client.
type Encoder struct {
	cfg    Config
	parts  []*shown // what the client has of each part; nil = nothing
	since  int      // the revision that it has
	claims []int    // parts of which the client has another view

	agent   string          // who spoke last
	begun   map[string]bool // replies whose step has begun
	steps   int
	step    string          // the reply that the last step is of
	mixed   bool            // whether that step has parts of others
	tools   bool            // whether it has tools
	sources map[string]bool // passages that the message has
}

// shown is what a client has of a part.
type shown struct {
	reply  string // of a text or a thought
	step   int
	before []*UIPart // what leads to it: a step and the agent's name
	parts  []*UIPart
}

// New returns an encoder for a client that has nothing.
func New(cfg Config) *Encoder {
	return &Encoder{cfg: cfg, begun: map[string]bool{}, sources: map[string]bool{}}
}

// Begin returns the chunk that begins the message.
func (e *Encoder) Begin() []Chunk {
	return []Chunk{{Type: "start", MessageID: chat.AnswerID(e.cfg.MessageID), MessageMetadata: &UIMetadata{ThreadID: e.cfg.ThreadID, EventID: e.cfg.EventID}}}
}

// Sync returns how the answer differs from what the client has.
func (e *Encoder) Sync(m *chat.Message) []Chunk {
	var out []Chunk
	for i := range m.Parts {
		if m.Changed(i, e.since) {
			out = append(out, e.show(m, i)...)
		}
	}
	e.since = m.Revision()
	return out
}

// Assume notes that the client has the answer as it is, but for the tools of which it claims something else: what it
// believes to have happened. [Encoder.Correct] tells it what has.
func (e *Encoder) Assume(m *chat.Message, claimed []UIPart) {
	e.Sync(m)
	for i, one := range e.parts {
		for k := range one.tools() {
			at := slices.IndexFunc(claimed, func(c UIPart) bool { return c.ToolCallID == one.parts[k].ToolCallID })
			if at < 0 {
				continue
			}
			has := *one.parts[k]
			c := claimed[at]
			has.State, has.Output, has.ErrorText, has.Approval = c.State, c.Output, c.ErrorText, c.Approval
			one.parts[k] = &has
			e.claims = append(e.claims, i)
		}
	}
}

// streams reports whether a part is being said.
func (s *shown) streams() bool {
	return s != nil && len(s.parts) > 0 && s.parts[0] != nil && s.parts[0].State == "streaming"
}

// tools are the places of the tools among the parts.
func (s *shown) tools() iter.Seq[int] {
	return func(yield func(int) bool) {
		if s == nil {
			return
		}
		for k, p := range s.parts {
			if p.ToolCallID != "" && !yield(k) {
				return
			}
		}
	}
}

// Correct returns how the answer differs from what the client has claimed.
func (e *Encoder) Correct(m *chat.Message) []Chunk {
	var out []Chunk
	for _, i := range e.claims {
		out = append(out, e.show(m, i)...)
	}
	e.claims = nil
	return out
}

// Progress returns the chunk of an event that changes nothing, such as the progress of a tool.
func (e *Encoder) Progress(a event.AgentEvent) []Chunk {
	switch {
	case a.Type == event.EventToolProgress:
		return []Chunk{{Type: "data-tool-progress", Transient: true, Data: map[string]any{"toolCallId": a.ToolCallID, "toolName": a.ToolName, "progress": a.Data}}}
	case a.Type == event.EventStatus && a.Status.Status == event.StatusRetrying:
		return []Chunk{{Type: "data-status", Transient: true, Data: chat.Presentable(a.Status)}}
	}
	return nil
}

// Place returns the chunk that tells the client where it is: see [UIMetadata].
func (e *Encoder) Place(place string) []Chunk {
	return []Chunk{{Type: "message-metadata", MessageMetadata: &UIMetadata{Place: place}}}
}

// Pause returns the chunks that finish a stream whose turn waits: the AI SDK sends decisions and results when it has finished.
func (e *Encoder) Pause(place string) []Chunk {
	return []Chunk{{Type: "finish-step"}, {Type: "finish", FinishReason: "tool-calls", MessageMetadata: &UIMetadata{Place: place}}}
}

// End returns the chunks that finish the stream of an answer that is over.
func (e *Encoder) End(m *chat.Message) []Chunk {
	var out []Chunk
	if e.tools {
		out = append(out, e.beginStep()...)
	}
	if e.steps > 0 {
		out = append(out, Chunk{Type: "finish-step"})
	}
	finish := Chunk{Type: "finish", FinishReason: "other"}
	if s := m.Ended; s != nil {
		finish.FinishReason, finish.MessageMetadata = "stop", &UIMetadata{Turn: s.Turn}
		switch s.Turn {
		case "failed", "expired":
			finish.FinishReason = "error"
			out = append(out, Fail(cmp.Or(s.Detail, "the turn "+s.Turn))...)
		case "interrupted":
			finish.FinishReason = "other"
			out = append(out, Chunk{Type: "abort", Reason: s.Detail})
		}
	}
	return append(out, finish)
}

// Fail returns the chunk of an error.
func Fail(problem string) []Chunk { return []Chunk{{Type: "error", ErrorText: problem}} }

// Snapshot returns an answer as a client has it that has read all of it.
func Snapshot(cfg Config, m *chat.Message) *UIMessage {
	e := New(cfg)
	e.Sync(m)
	out := &UIMessage{ID: m.ID, Role: "assistant", Metadata: &UIMetadata{ThreadID: cfg.ThreadID, EventID: m.EventID}, Parts: []*UIPart{}}
	for _, one := range e.parts {
		if one != nil {
			out.Parts = append(append(out.Parts, one.before...), one.parts...)
		}
	}
	if m.Over() && e.tools {
		out.Parts = append(out.Parts, stepStart)
	}
	if m.Ended != nil {
		out.Metadata.Turn = m.Ended.Turn
	}
	return out
}

// Messages returns the messages of a chat as a client has them that has read all of it up to a place. Answers without parts are
// left out.
func Messages(cfg Config, c *chat.Chat, place string) []*UIMessage {
	out := []*UIMessage{}
	for _, m := range c.Messages {
		if !m.Answer {
			out = append(out, &UIMessage{
				ID: m.ID, Role: "user", Parts: []*UIPart{{Type: "text", Text: m.Content, State: "done"}},
				Metadata: &UIMetadata{ThreadID: cfg.ThreadID, EventID: m.EventID, Sender: m.Sender, CreatedAt: m.CreatedAt.Format(time.RFC3339Nano)},
			})
			continue
		}
		one := Snapshot(cfg, m)
		if len(one.Parts) == 0 {
			continue
		}
		if !m.Over() {
			one.Metadata.Place = place
		}
		out = append(out, one)
	}
	return out
}

var stepStart = &UIPart{Type: "step-start"}

// beginStep begins a step. A last step with tools would make the AI SDK send their outputs again, so each message ends with
// another one.
func (e *Encoder) beginStep() []Chunk {
	var out []Chunk
	// The AI SDK 6 closes what is being said when a step is finished.
	if e.steps++; e.steps > 1 && !slices.ContainsFunc(e.parts, (*shown).streams) {
		out = append(out, Chunk{Type: "finish-step"})
	}
	e.mixed, e.tools = false, false
	return append(out, Chunk{Type: "start-step"})
}

// show returns the chunks that make a part what it is.
func (e *Encoder) show(m *chat.Message, i int) []Chunk {
	for len(e.parts) <= i {
		e.parts = append(e.parts, nil)
	}
	p := m.Parts[i]
	reply, said := saidIn(p)
	if said && e.parts[i] != nil && !extends(e.view(p), e.parts[i].parts) {
		return e.again(m, reply)
	}
	parts := e.view(p)
	if len(parts) == 0 {
		return nil
	}
	var out []Chunk
	has := e.parts[i]
	if has == nil {
		has = &shown{reply: reply, parts: make([]*UIPart, len(parts))}
		out = e.lead(p, has)
		e.parts[i] = has
	}
	for k, now := range parts {
		out = append(out, e.differ(has, has.parts[k], now)...)
		has.parts[k] = now
	}
	return out
}

// lead returns the chunks that lead to a new part: its step, and the name of its agent.
func (e *Encoder) lead(p chat.Part, has *shown) []Chunk {
	var out []Chunk
	reply, agent := of(p)
	_, asks := p.(*chat.Question)
	call, _ := p.(*chat.Call)
	switch {
	// The AI SDK sends an answer once all calls of the last step are settled, which the call that asks, or that a sub-agent
	// works for, is not: a step of their own.
	case asks:
		out, e.step = e.beginStep(), ""
	case call != nil && call.Foreign:
		if e.step != foreignStep {
			out, e.step = e.beginStep(), foreignStep
		}
	case reply != "" && !e.begun[reply]:
		e.begun[reply] = true
		out, e.step = e.beginStep(), reply
	}
	if len(out) > 0 {
		has.before = append(has.before, stepStart)
	}
	if said, is := saidIn(p); !is || said != e.step {
		e.mixed = true
	}
	if agent != "" && agent != e.agent {
		e.agent = agent
		name := &UIPart{Type: "data-agent", Data: map[string]string{"name": agent}}
		has.before = append(has.before, name)
		out = append(out, Chunk{Type: name.Type, Data: name.Data})
	}
	has.step = e.steps
	return out
}

// foreignStep is a step of calls of sub-agents.
const foreignStep = "sub-agents"

// of returns the reply that a part begins or continues, and the agent that it is of.
func of(p chat.Part) (reply, agent string) {
	switch p := p.(type) {
	case *chat.Text:
		return p.Reply, p.Agent
	case *chat.Thought:
		return p.Reply, p.Agent
	case *chat.Call:
		if p.Foreign {
			return "", p.Agent
		}
		return p.Reply, p.Agent
	case *chat.Question:
		return "", p.Request.Agent
	}
	return "", ""
}

// saidIn returns the reply that a text or a thought is of.
func saidIn(p chat.Part) (reply string, ok bool) {
	switch p := p.(type) {
	case *chat.Text:
		return p.Reply, true
	case *chat.Thought:
		return p.Reply, true
	}
	return "", false
}

// again voids what was said of a reply, and says what it is now. The AI SDK 6 cannot take text back, nor can 7 if its step has
// other parts: a data-reset part says that the text before it is void.
func (e *Encoder) again(m *chat.Message, reply string) []Chunk {
	var out []Chunk
	var of []int
	for i, p := range m.Parts {
		if said, is := saidIn(p); !is || said != reply || i >= len(e.parts) || e.parts[i] == nil {
			continue
		}
		of = append(of, i)
		for _, had := range e.parts[i].parts {
			if had.State == "streaming" {
				out = append(out, Chunk{Type: had.Type + "-end", ID: reply})
			}
		}
		e.parts[i] = nil
	}
	if e.cfg.Version >= 7 && e.step == reply && !e.mixed {
		e.agent = "" // its part has gone too
		out = append(out, Chunk{Type: "reset-step"})
	} else {
		out = append(out, Chunk{Type: "data-reset", ID: reply, Data: map[string]any{"messageId": reply}})
	}
	for _, i := range of {
		out = append(out, e.show(m, i)...)
	}
	return out
}

// extends reports whether a text has only become longer, or was complete before.
func extends(now, had []*UIPart) bool {
	if len(now) == 0 {
		return false
	}
	return had[0].State == "done" || len(now[0].Text) >= len(had[0].Text) && now[0].Text[:len(had[0].Text)] == had[0].Text
}

// declared reports whether the frontend declares a tool.
func (e *Encoder) declared(tool string) bool { return slices.Contains(e.cfg.Static, tool) }
