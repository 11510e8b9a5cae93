package agui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/turn"
)

// Config configures an [Encoder].
type Config struct {
	ThreadID, RunID string

	// Version is the version of the protocol that the client speaks; empty for clients before 1.0, which fail on
	// what they do not know.
	Version string

	// Held are the messages that the client has, Answered the ids of the interrupts that it answers.
	Held     []*Held
	Answered map[string]bool

	// Connects means that the client has the messages from a snapshot, and these events. Otherwise it has what came before
	// something that it has.
	Connects bool
	Told     []Event
}

// Encoder encodes one answer for one run.
type Encoder struct {
	cfg   Config
	known map[string]*Held // messages and results that the client had, by id
	calls map[string]bool  // that it had
	list  list             // the client's messages now

	parts []*shown // what the client has of each part
	since int      // the revision that it has
	had   int      // the revision that it has seen before this run
	wrong bool     // whether it has something that is not true

	begun map[string]bool // messages that are not in the list yet
	told  map[string]bool // events of [Config].Told
}

// shown is what a client has of a part.
type shown struct {
	id     string // of the message
	times  int    // that the message was begun
	sent   string
	ahead  bool // the client may have more of it than has been read yet
	open   bool
	args   string
	agent  bool // the call asks a sub-agent, which goes on
	result bool
}

// New returns an encoder of a run.
func New(cfg Config) *Encoder {
	e := &Encoder{cfg: cfg, known: map[string]*Held{}, calls: map[string]bool{}, list: listOf(cfg.Held), begun: map[string]bool{}, told: map[string]bool{}}
	for _, one := range cfg.Told {
		e.told[key(one)] = true
	}
	for _, h := range e.list {
		e.known[h.ID] = h
		for _, c := range h.Calls {
			e.calls[c.ID] = true
		}
	}
	return e
}

func (e *Encoder) old() bool { return e.cfg.Version == "" }

// Begin returns the event that begins the run.
func (e *Encoder) Begin() []Event {
	out := Event{Type: "RUN_STARTED", ThreadID: e.cfg.ThreadID, RunID: e.cfg.RunID}
	if !e.old() {
		out.ProtocolVersion = "1.0"
	}
	return []Event{out}
}

// Sync returns how the answer differs from what the client has. What happened first comes first.
func (e *Encoder) Sync(m *chat.Message) []Event {
	e.look(m)
	type step struct {
		at     int
		events []Event
	}
	var steps []step
	for i, p := range m.Parts {
		for len(e.parts) <= i {
			e.parts = append(e.parts, &shown{})
		}
		if !m.Changed(i, e.since) {
			continue
		}
		steps = append(steps, step{m.Added(i), e.show(m, i)})
		if c, is := p.(*chat.Call); is {
			steps = append(steps, step{c.SettledAt, e.settle(e.parts[i], c)})
		}
	}
	e.since = m.Revision()
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	var out []Event
	for _, one := range steps {
		out = append(out, one.events...)
	}
	out = slices.DeleteFunc(out, func(one Event) bool { return one.Type == "CUSTOM" && len(e.told) > 0 && e.told[key(one)] })
	e.list.apply(out)
	return append(out, e.arrange(m)...)
}

func key(e Event) string {
	data, _ := json.Marshal(e) // records are JSON
	return string(data)
}

// look finds out what the client has seen of the answer: everything before something that it has, since it does not say which
// events it had that make no messages. Texts prove nothing: they arrive while other things happen.
func (e *Encoder) look(m *chat.Message) {
	if e.cfg.Connects {
		return
	}
	for i := len(e.parts); i < len(m.Parts); i++ {
		at := 0
		switch p := m.Parts[i].(type) {
		case *chat.Call:
			if e.calls[p.ID] {
				at = m.Added(i)
			}
			switch {
			case e.known[ResultID(p.ID)] != nil:
				at = p.SettledAt
			case e.answered(p): // by itself
				at = max(at, p.AskedAt)
			}
		case *chat.Ask:
			if e.cfg.Answered[chat.ApprovalID(p.Call.Request)] {
				at = m.ChangedAt(i)
			}
		case *chat.Question:
			if e.cfg.Answered[recordid.InputRequest(p.Request.ToolCallID, p.Request.Round)] {
				at = m.Added(i)
			}
		}
		e.had = max(e.had, at)
	}
	if len(e.parts) == 0 && m.Over() && e.holds(m) {
		e.had = m.Revision()
	}
}

// holds reports whether the client has all messages of an answer, and there are some.
func (e *Encoder) holds(m *chat.Message) bool {
	whole := answer(m)
	return len(whole) > 0 && !slices.ContainsFunc(whole, func(one *Message) bool {
		i := e.list.find(one)
		return i < 0 || e.list[i].ID == one.ID && !e.list[i].has(one)
	})
}

// arrange corrects what the client has of the answer. Only a snapshot of all messages can.
func (e *Encoder) arrange(m *chat.Message) []Event {
	if !e.wrong {
		return nil
	}
	e.wrong = false
	want, _ := e.list.merge(questionOf(m), answer(m))
	for i, p := range m.Parts {
		if text, is := p.(*chat.Text); is {
			e.parts[i].sent, e.parts[i].ahead = text.Content, false
			want = slices.DeleteFunc(want, func(h *Held) bool { return h.ID == text.Reply && text.Content == "" && len(h.Calls) == 0 })
		}
	}
	return e.become(want)
}

// become returns the events that give the client these messages.
func (e *Encoder) become(want list) []Event {
	want = slices.DeleteFunc(want, func(h *Held) bool { return h.Message == nil }) // what was begun, and is void
	out, now := e.list.become(want)
	e.list, e.begun = now, map[string]bool{}
	return out
}

// order returns the events that give the client the messages of the answer as the next one gets them, in their order.
func (e *Encoder) order(m *chat.Message) []Event {
	want, wrong := e.list.merge(questionOf(m), answer(m))
	if !wrong && slices.Equal(want.ids(), e.list.spoken().ids()) {
		return nil
	}
	return e.become(want)
}

// Complete returns the events that complete what the client has of earlier answers, to messages that it has.
func (e *Encoder) Complete(c *chat.Chat) []Event {
	var out []Event
	want, wrong := e.list.spoken(), false
	for _, m := range c.Messages {
		if !m.Answer || e.list.index(questionOf(m)) < 0 {
			continue
		}
		out = append(out, customs(New(e.cfg).Sync(m))...)
		var differs bool
		want, differs = want.merge(questionOf(m), answer(m))
		wrong = wrong || differs
	}
	if wrong || !slices.Equal(want.ids(), e.list.spoken().ids()) {
		out = append(out, e.become(want)...)
	}
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
			return append(e.order(m), Fail(cmp.Or(s.Detail, "the turn "+s.Turn))...)
		case "interrupted":
			if !e.old() {
				outcome = "cancelled"
			}
		}
	}
	return append(e.order(m), e.finish(&Outcome{Type: outcome})...)
}

// Empty returns the event that ends a run without a turn.
func (e *Encoder) Empty() []Event { return e.finish(&Outcome{Type: "success"}) }

// Pause returns the events that end a run whose turn waits.
func (e *Encoder) Pause(m *chat.Message) []Event {
	out := &Outcome{Type: "success"}
	var pending []string
	for _, part := range m.Parts {
		call, is := part.(*chat.Call)
		question, asks := part.(*chat.Question)
		switch {
		case asks && question.Open():
			out.Interrupts = append(out.Interrupts, inputInterrupt(question))
		case !is:
		case call.State() == turn.WaitsForApproval:
			out.Interrupts = append(out.Interrupts, approvalInterrupt(call.Request, e.old()))
		case call.State() == turn.WaitsForClient:
			pending = append(pending, call.ID)
		}
	}
	switch {
	case len(out.Interrupts) > 0:
		out.Type = "interrupt"
	case !e.old():
		out.PendingToolCallIDs = pending
	}
	return append(e.order(m), e.finish(out)...)
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
func (e *Encoder) show(m *chat.Message, i int) []Event {
	has := e.parts[i]
	switch p := m.Parts[i].(type) {
	case *chat.Text:
		return e.text(has, p)
	case *chat.Thought:
		return e.thought(has, p)
	case *chat.Call:
		return e.call(has, p)
	}
	if !m.Changed(i, e.had) {
		return nil
	}
	switch p := m.Parts[i].(type) {
	case *chat.Decided:
		return custom("decision", p.Call.Decision)
	case *chat.Found:
		if e.said(m, p.MessageID) {
			return nil // the client has the reply, and what its agent was given
		}
		return custom("retrieval", p.Retrieval)
	case *chat.World:
		return custom("event", p.EnvEvent)
	case *chat.Notice:
		return custom("status", p.StatusChange)
	case *chat.Failure:
		return custom("error", map[string]string{"agent": p.Agent, "error": p.Error})
	}
	return nil // a request is in an interrupt
}

// said reports whether the client had the whole text of a reply.
func (e *Encoder) said(m *chat.Message, reply string) bool {
	h := e.known[reply]
	return h != nil && !e.cfg.Connects && slices.ContainsFunc(m.Parts, func(p chat.Part) bool {
		text, is := p.(*chat.Text)
		return is && text.Reply == reply && text.Content == h.Text
	})
}

// text sends what a text has become. What was said in vain is corrected, see [Encoder.arrange].
func (e *Encoder) text(has *shown, p *chat.Text) []Event {
	if has.id == "" {
		has.id = p.Reply
		if h := e.known[p.Reply]; h != nil {
			has.sent, has.ahead = h.Text, true
		}
	}
	more, follows := strings.CutPrefix(p.Content, has.sent)
	ends := p.Done
	var out []Event
	switch {
	case follows && more == "":
	case follows:
		if !has.open {
			has.open, e.begun[p.Reply] = true, true
			out = append(out, Event{Type: "TEXT_MESSAGE_START", MessageID: has.id, Role: "assistant", Name: p.Agent})
		}
		out = append(out, Event{Type: "TEXT_MESSAGE_CONTENT", MessageID: has.id, Delta: more})
	case has.ahead && !p.Done && strings.HasPrefix(has.sent, p.Content):
		return nil // it is still being read
	default:
		e.wrong, ends = true, ends || p.Content == "" // it is no message any more
	}
	has.sent, has.ahead = p.Content, has.ahead && more == ""
	if has.open && ends {
		has.open = false
		out = append(out, Event{Type: "TEXT_MESSAGE_END", MessageID: has.id})
	}
	return out
}

// thought sends what a thought has become. One that was thought in vain stays, and another one begins.
func (e *Encoder) thought(has *shown, p *chat.Thought) []Event {
	id := p.Reply + ".thought"
	if has.id == "" {
		has.id, has.times = id, 1
		if h := e.known[id]; h != nil {
			has.sent, has.ahead = h.Text, true
		}
	}
	more, follows := strings.CutPrefix(p.Content, has.sent)
	var out []Event
	if !follows {
		if has.ahead && strings.HasPrefix(has.sent, p.Content) {
			return nil // the client has it
		}
		out = append(has.end(), custom("reset", map[string]string{"messageId": has.id})...)
		for more = p.Content; ; {
			has.times++
			if has.id = fmt.Sprintf("%s.%d", id, has.times); e.known[has.id] == nil {
				break
			}
		}
	}
	if more != "" {
		if !has.open {
			has.open = true
			out = append(out, Event{Type: "REASONING_START", MessageID: has.id}, Event{Type: "REASONING_MESSAGE_START", MessageID: has.id, Role: "reasoning"})
		}
		out = append(out, Event{Type: "REASONING_MESSAGE_CONTENT", MessageID: has.id, Delta: more})
	}
	has.sent, has.ahead = p.Content, false
	if p.Done {
		out = append(out, has.end()...)
	}
	return out
}

// end ends a thought.
func (has *shown) end() []Event {
	if !has.open {
		return nil
	}
	has.open = false
	return []Event{{Type: "REASONING_MESSAGE_END", MessageID: has.id}, {Type: "REASONING_END", MessageID: has.id}}
}

// call announces a call, and the sub-agent that it asks.
func (e *Encoder) call(has *shown, c *chat.Call) []Event {
	if has.id != "" {
		e.wrong = e.wrong || has.args != c.Arguments
		has.args = c.Arguments
		return nil
	}
	has.id, has.args = c.ID, c.Arguments
	var out []Event
	parent := parentOf(c)
	switch h := e.known[parent]; {
	case e.calls[c.ID]:
		e.wrong = e.wrong || h != nil && slices.ContainsFunc(h.Calls, func(had ToolCall) bool { return had.ID == c.ID && had.Function.Arguments != c.Arguments })
	default:
		if c.Agent != "" && !e.begun[parent] && e.list.index(parent) < 0 { // a reply without text says whose it is
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
	if c.Tool != builtin.CallAgent && c.Tool != builtin.CallAgentHyphen || c.Foreign || e.old() || e.answered(c) ||
		json.Unmarshal([]byte(c.Arguments), &asked) != nil || asked.Agent == "" {
		return out
	}
	has.agent = true
	return append(out, Event{Type: "SUBAGENT_STARTED", SubagentRunID: c.ID, Name: asked.Agent, ParentToolCallID: c.ID, ParentMessageID: parent})
}

// settle sends the result of a call that is over.
func (e *Encoder) settle(has *shown, c *chat.Call) []Event {
	result, over := resultOf(c)
	if !over || has.result {
		return nil
	}
	has.result = true
	var out []Event
	if has.agent {
		has.agent = false
		ends := Event{Type: "SUBAGENT_FINISHED", SubagentRunID: c.ID, Outcome: &Outcome{Type: "success"}}
		if c.State().Refused() || c.Result == nil || c.Result.IsError {
			ends = Event{Type: "SUBAGENT_ERROR", SubagentRunID: c.ID, Message: result}
		}
		out = append(out, ends)
	}
	if !e.answered(c) {
		out = append(out, Event{Type: "TOOL_CALL_RESULT", MessageID: ResultID(c.ID), ToolCallID: c.ID, Content: &result, Role: "tool"})
	}
	return out
}

// answered reports whether the client had the result of a call, which may be its own.
func (e *Encoder) answered(c *chat.Call) bool {
	return e.known[ResultID(c.ID)] != nil || slices.ContainsFunc(e.cfg.Held, func(h *Held) bool { return h.Role == "tool" && h.ToolCallID == c.ID })
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
	case state.Refused():
		return "denied", true
	case !state.Settled():
		return "", false
	case c.Result != nil:
		return c.Result.Output, true
	case c.Foreign:
		return "approved", true
	}
	return "the turn has ended", true
}
