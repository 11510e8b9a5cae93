package chat

import (
	"maps"
	"regexp"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/turn"
)

// Chat is a thread as messages. The zero value has none.
type Chat struct {
	Messages []*Message

	turns map[string]*exchange // by event
}

// exchange is what is known about a turn.
type exchange struct {
	answer  *Message // which has the next part
	replies map[string]*reply
	states  turn.Calls
	calls   map[string]*call            // that have a place
	found   map[string]*event.Retrieval // for replies that are not stored yet
	ended   bool
}

// reply is a message of an agent.
type reply struct {
	attempt       int
	text, thought *place
	whole         bool // stored, or nothing more follows
}

// call is a tool call with its places.
type call struct {
	*Call
	at           place
	asked, ruled *place // the [Ask] and the [Decided] part
	asks         *Question
	question     *place
}

// Said reports whether a message of an event was posted, and does not only show agents an environment event.
func Said(eventID string, m *event.Message) bool {
	return m.SenderType != event.CreatedByAgent && m.Role == event.RoleUser && m.ID != recordid.Observed(eventID)
}

// Answer returns the answer to a posted message, or nil.
func (c *Chat) Answer(messageID string) *Message {
	id := AnswerID(messageID)
	for _, m := range slices.Backward(c.Messages) {
		if m.Answer && m.ID == id {
			return m
		}
	}
	return nil
}

// Waiting returns the calls of a turn that wait for a person or a client.
func (c *Chat) Waiting(eventID string) []*Call {
	var out []*Call
	if t := c.turns[eventID]; t != nil {
		for _, one := range t.calls {
			if one.Waits() {
				out = append(out, one.Call)
			}
		}
	}
	return out
}

// Unsettled returns how many calls of a turn's own agents have no result.
func (c *Chat) Unsettled(eventID string) int {
	n := 0
	if t := c.turns[eventID]; t != nil {
		for _, one := range t.calls {
			if !one.Foreign && !one.State().Settled() {
				n++
			}
		}
	}
	return n
}

// Waits reports whether a turn goes on only after an answer of a person or a client.
func (c *Chat) Waits(eventID string) bool {
	t := c.turns[eventID]
	if t == nil || t.ended {
		return false
	}
	for _, r := range t.replies {
		if !r.whole {
			return false
		}
	}
	waits, foreign := false, false
	for _, one := range t.calls {
		waits = waits || one.Waits()
		foreign = foreign || one.Foreign && one.Waits()
	}
	if !waits {
		return false
	}
	for _, one := range t.calls {
		// The call that asks a sub-agent runs while the sub-agent waits.
		if one.State() == turn.Running && !(foreign && asksAgent(one.Tool)) {
			return false
		}
	}
	return true
}

func asksAgent(tool string) bool {
	return tool == builtin.CallAgent || tool == builtin.CallAgentHyphen
}

// Apply adds the next event of the thread.
func (c *Chat) Apply(e event.AgentEvent) {
	if e.EventID == "" {
		return
	}
	if e.Type == event.EventMessage && Said(e.EventID, e.Message) {
		c.said(e)
		return
	}
	t := c.turns[e.EventID]
	if t == nil {
		t = c.begin(e.EventID, e.EventID)
	}
	t.apply(e)
}

// said adds a message of a person. The answer to it is another one, also if it joined a turn.
func (c *Chat) said(e event.AgentEvent) {
	for _, known := range c.Messages {
		if known.ID == e.Message.ID { // a hook has changed it
			known.Content = e.Message.Content
			return
		}
	}
	c.Messages = append(c.Messages, &Message{
		ID: e.Message.ID, EventID: e.EventID, Sender: e.Message.SenderID, Content: e.Message.Content, CreatedAt: e.CreatedAt,
	})
	c.begin(e.EventID, e.Message.ID)
}

// begin begins an answer in a turn.
func (c *Chat) begin(eventID, messageID string) *exchange {
	t := c.turns[eventID]
	if t == nil {
		t = &exchange{replies: map[string]*reply{}, calls: map[string]*call{}, found: map[string]*event.Retrieval{}}
		if c.turns == nil {
			c.turns = map[string]*exchange{}
		}
		c.turns[eventID] = t
	} else {
		t.answer.Left = true
		t.answer.revision++
	}
	t.answer = &Message{ID: AnswerID(messageID), EventID: eventID, Answer: true}
	c.Messages = append(c.Messages, t.answer)
	return t
}

func (t *exchange) apply(e event.AgentEvent) {
	t.states.Apply(e)
	switch e.Type {
	case event.EventThought, event.EventStream:
		t.piece(e)
	case event.EventReset:
		t.reset(e)
	case event.EventMessage:
		t.message(e)
	case event.EventToolCall:
		t.call(e)
	case event.EventToolResult:
		t.result(e)
	case event.EventApprovalRequest:
		t.request(e)
	case event.EventApproval:
		t.decision(e.Approval)
	case event.EventClientCall:
		if one := t.calls[e.ToolCallID]; one != nil {
			one.changed()
			one.AskedAt = one.at.message.revision
		}
	case event.EventInputRequest:
		t.question(e)
	case event.EventInputReceived:
		t.received(e.Received)
	case event.EventEnvironment:
		t.world(e.Env)
	case event.EventRetrieval:
		t.find(e.Retrieval)
	case event.EventError:
		t.whole(e.MessageID)
		t.answer.add(&Failure{e.Agent, e.MessageID, presentable(e.Error), e.Class})
	case event.EventFinal:
		t.whole(e.MessageID)
	case event.EventStatus:
		t.status(e.Status)
	case event.EventToolProgress, event.EventGap: // no state; after a gap, messages follow whole
	}
}

// reply returns a reply, which begins if it is not known.
func (t *exchange) reply(id string) *reply {
	r := t.replies[id]
	if r == nil {
		r = &reply{}
		t.replies[id] = r
	}
	return r
}

// piece adds a piece of a text or of a thought. An empty one announces an attempt.
func (t *exchange) piece(e event.AgentEvent) {
	r := t.reply(e.MessageID)
	if r.whole || e.Attempt < r.attempt {
		return
	}
	r.attempt = e.Attempt
	switch {
	case e.Content == "":
	case e.Type == event.EventThought:
		if r.thought == nil {
			r.thought = t.add(&Thought{Reply: e.MessageID, Agent: e.Agent})
		}
		p := r.thought.message.Parts[r.thought.index].(*Thought)
		p.Content += e.Content
		r.thought.touch()
	default:
		r.thoughtEnds()
		r.say(t, e.MessageID, e.Agent, func(text *Text) { text.Content += e.Content })
	}
}

func (t *exchange) add(p Part) *place {
	at := t.answer.add(p)
	return &at
}

// say changes the text of a reply, which it adds if there is none.
func (r *reply) say(t *exchange, id, agent string, change func(*Text)) {
	if r.text == nil {
		r.text = t.add(&Text{Reply: id, Agent: agent})
	}
	change(r.text.message.Parts[r.text.index].(*Text))
	r.text.touch()
}

func (r *reply) thoughtEnds() {
	if r.thought == nil {
		return
	}
	if p := r.thought.message.Parts[r.thought.index].(*Thought); !p.Done {
		p.Done = true
		r.thought.touch()
	}
}

// reset voids what was said of a reply.
func (t *exchange) reset(e event.AgentEvent) {
	r := t.reply(e.MessageID)
	if r.whole || e.Attempt <= r.attempt {
		return
	}
	r.attempt = e.Attempt
	if r.thought != nil {
		p := r.thought.message.Parts[r.thought.index].(*Thought)
		p.Content, p.Done = "", false
		r.thought.touch()
	}
	if r.text != nil {
		r.say(t, e.MessageID, e.Agent, func(text *Text) { text.Content = "" })
	}
}

// whole notes that nothing more follows of a reply.
func (t *exchange) whole(id string) {
	r := t.replies[id]
	if r == nil {
		return
	}
	r.whole = true
	r.thoughtEnds()
	if r.text != nil {
		r.say(t, id, "", func(text *Text) { text.Done = true })
	}
}

// message stores a reply. Messages that are no agent's show agents what the answer has already.
func (t *exchange) message(e event.AgentEvent) {
	m := e.Message
	if m.SenderType != event.CreatedByAgent {
		return
	}
	r := t.reply(m.ID)
	r.whole = true
	r.thoughtEnds()
	if m.Content != "" || r.text != nil {
		r.say(t, m.ID, e.Agent, func(text *Text) { text.Content, text.Done = m.Content, true })
		r.text.store()
	}
	if found := t.found[m.ID]; found != nil {
		delete(t.found, m.ID)
		t.add(&Found{found})
	}
}

// find notes what was found for a reply. Viewers of the live stream learn of it when the reply is stored, and see it behind the
// text.
func (t *exchange) find(found *event.Retrieval) {
	if len(found.Passages) == 0 && len(found.Facts) == 0 && found.Warning == "" {
		return
	}
	if r := t.replies[found.MessageID]; r != nil && r.whole {
		t.add(&Found{found})
		return
	}
	t.found[found.MessageID] = found
}

func (t *exchange) call(e event.AgentEvent) {
	t.reply(e.MessageID)
	t.whole(e.MessageID)
	if known := t.calls[e.ToolCallID]; known != nil { // a hook has changed it
		known.changed()
		return
	}
	t.adds(e.ToolCallID, e.MessageID)
}

func (t *exchange) adds(id, reply string) *call {
	added := &call{Call: &Call{Call: t.states.Find(id), Reply: reply}}
	added.at, t.calls[id] = t.answer.add(added.Call), added
	return added
}

func (t *exchange) result(e event.AgentEvent) {
	if one := t.calls[e.ToolCallID]; one != nil {
		one.changed()
	}
}

// request notes a request for a decision. One for a call that the turn does not have is a sub-agent's.
func (t *exchange) request(e event.AgentEvent) {
	one := t.calls[e.Request.ToolCallID]
	if one == nil || one.Foreign && one.asked == nil {
		one = t.adds(e.Request.ToolCallID, "")
	}
	one.changed()
	if one.asked == nil {
		one.asked = t.add(&Ask{one.Call})
	} else {
		one.asked.touch()
	}
}

func (t *exchange) decision(a *event.Approval) {
	one := t.calls[a.ToolCallID]
	if one == nil || a.Decision == event.DecisionRevoked {
		return
	}
	one.changed()
	if one.ruled == nil {
		one.ruled = t.add(&Decided{one.Call})
	} else {
		one.ruled.touch()
	}
}

// question notes a request for input. Of a sub-agent's call, which the turn does not have, it is the only part.
func (t *exchange) question(e event.AgentEvent) {
	one := t.calls[e.Input.ToolCallID]
	if one == nil {
		one = &call{Call: &Call{Call: t.states.Find(e.Input.ToolCallID)}}
		t.calls[one.ID] = one
	}
	one.withdraw()
	one.asks = &Question{Request: *e.Input, Foreign: one.Foreign}
	one.question = t.add(one.asks)
	if one.at.message == nil {
		one.at = *one.question
	}
	one.changed()
}

func (t *exchange) received(a *event.InputReceived) {
	one := t.calls[a.ToolCallID]
	if one == nil || one.asks == nil || one.Input != nil {
		return
	}
	if !a.Withdrawn {
		one.asks.Received = a
		one.question.touch()
		one.asks = nil
	}
	one.changed()
}

// changed notes that the call has changed.
func (c *call) changed() {
	if c.Input == nil {
		c.withdraw()
	}
	c.at.touch()
	if c.SettledAt == 0 && c.State().Settled() {
		c.SettledAt = c.at.message.revision
	}
}

// withdraw ends the open question of a call.
func (c *call) withdraw() {
	if c.asks != nil {
		c.asks.Withdrawn = true
		c.question.touch()
		c.asks = nil
	}
}

// world adds an environment event, or changes it if a hook has.
func (t *exchange) world(e *event.EnvEvent) {
	for i, p := range t.answer.Parts {
		if known, is := p.(*World); is && known.ID == e.ID {
			known.EnvEvent = e
			place{t.answer, i}.touch()
			return
		}
	}
	t.add(&World{e})
}

func (t *exchange) status(s *event.StatusChange) {
	switch s.Status {
	case event.StatusTurnEnded:
		t.end(s)
	case event.StatusIntercepted, event.StatusUnanswered:
		t.add(&Notice{s})
	}
}

// end ends the turn. What has no result has none any more.
func (t *exchange) end(s *event.StatusChange) {
	t.ended = true
	t.answer.Ended = Presentable(s)
	t.answer.revision++
	for id := range t.replies {
		t.whole(id)
	}
	for _, id := range slices.Sorted(maps.Keys(t.calls)) { // the order in which they are settled is that of their results
		if one := t.calls[id]; one.Over && one.SettledAt == 0 {
			one.changed()
		}
	}
}

// Presentable returns a status as people in a chat may see it.
func Presentable(s *event.StatusChange) *event.StatusChange {
	out := *s
	out.Detail = presentable(s.Detail)
	if s.Retry != nil {
		retry := *s.Retry
		retry.Error = presentable(retry.Error)
		out.Retry = &retry
	}
	return &out
}

var addresses = regexp.MustCompile(`\b(?:https?|wss?)://[^\s"'<>]+`)

// presentable returns an error without addresses, which are the operator's and not those of people in a chat.
func presentable(text string) string { return addresses.ReplaceAllString(text, "(address)") }
