package uistream

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Config configures a [Turn].
type Config struct {
	ThreadID string

	// EventID is the event of the turn, and MessageID the posted message to which the assistant
	// message belongs: that event, or a message that joined its turn.
	EventID, MessageID string

	// Static are the tools that the frontend declares. All others are dynamic.
	Static []string

	// Version is that of the AI SDK: 6 or 7. Version 7 can take text back.
	Version int
}

// AssistantID returns the id of the assistant message that answers a posted message.
func AssistantID(messageID string) string { return messageID + ".reply" }

// Turn turns the agent events of a turn into chunks.
type Turn struct {
	cfg   Config
	ended bool

	agent   string           // who spoke last
	step    string           // the reply that the last step is of
	mixed   bool             // whether that step has parts of others
	replies map[string]*text // by message id
	calls   map[string]*call // by tool call id

	found   map[string]*event.Retrieval // what replies that are not stored yet were given
	sources map[string]bool             // passages that the assistant message has
}

// text is the text of a reply.
type text struct {
	thought, open bool // whether a reasoning or a text part is open
	attempt       int
	partID        string
	sent          string // of the open or last text part
	whole         bool   // the stored message has been sent
}

type call struct {
	waits, settled bool
	input          string // the question that it waits for, see InputID
}

// NewTurn returns a turn without events.
func NewTurn(cfg Config) *Turn {
	return &Turn{cfg: cfg, replies: map[string]*text{}, calls: map[string]*call{}, found: map[string]*event.Retrieval{}, sources: map[string]bool{}}
}

// Ended reports whether the turn has ended.
func (t *Turn) Ended() bool { return t.ended }

// Waits reports whether the turn goes on only after a decision of a person or the result of a client:
// the AI SDK sends those when the stream has finished.
func (t *Turn) Waits() bool {
	waiting := false
	for _, c := range t.calls {
		if c.settled {
			continue
		}
		if !c.waits {
			return false
		}
		waiting = true
	}
	for _, r := range t.replies {
		if !r.whole {
			return false
		}
	}
	return waiting
}

// Begin returns the chunk that begins the message.
func Begin(cfg Config) []Chunk {
	return []Chunk{{Type: "start", MessageID: AssistantID(cfg.MessageID), MessageMetadata: &UIMetadata{ThreadID: cfg.ThreadID, EventID: cfg.EventID}}}
}

// Pause returns the chunks that finish a stream whose turn waits. place is the event after which its
// continuation begins.
func (t *Turn) Pause(place string) []Chunk {
	return []Chunk{{Type: "finish-step"}, {Type: "finish", FinishReason: "tool-calls", MessageMetadata: &UIMetadata{Place: place}}}
}

// Apply returns the chunks of the next event of the thread. Events of other turns have none.
func (t *Turn) Apply(e event.AgentEvent) []Chunk {
	if t.ended || e.EventID != t.cfg.EventID {
		return nil
	}
	switch e.Type {
	case event.EventThought:
		return t.thought(e)
	case event.EventStream:
		return t.piece(e)
	case event.EventReset:
		return t.reset(e)
	case event.EventMessage:
		return t.message(e)
	case event.EventToolCall:
		return t.call(e)
	case event.EventToolProgress:
		return []Chunk{{Type: "data-tool-progress", Transient: true, Data: map[string]any{"toolCallId": e.ToolCallID, "toolName": e.ToolName, "progress": e.Data}}}
	case event.EventToolResult:
		return t.result(e)
	case event.EventApprovalRequest:
		return t.request(e.Request)
	case event.EventApproval:
		return t.decision(e.Approval)
	case event.EventClientCall:
		t.callOf(e.ClientCall.ToolCallID).waits = true
		return nil
	case event.EventInputRequest:
		return t.question(e)
	case event.EventInputReceived:
		return t.answer(e.Received)
	case event.EventEnvironment:
		t.mixed = true
		return []Chunk{{Type: "data-event", ID: e.Env.ID, Data: e.Env}}
	case event.EventRetrieval:
		t.found[e.MessageID] = e.Retrieval
		return nil
	case event.EventError:
		return append(t.closed(e.MessageID), Chunk{Type: "data-error", ID: e.MessageID, Data: map[string]string{"agent": e.Agent, "error": e.Error}})
	case event.EventFinal:
		return t.closed(e.MessageID)
	case event.EventStatus:
		return t.status(e.Status)
	case event.EventGap:
		return nil // the messages follow whole
	}
	return nil
}

// reply returns the text of a reply, with the chunks that begin its step.
func (t *Turn) reply(id string) (*text, []Chunk) {
	if r := t.replies[id]; r != nil {
		t.mixed = t.mixed || id != t.step
		return r, nil
	}
	var out []Chunk
	if !slices.ContainsFunc(slices.Collect(maps.Values(t.replies)), func(r *text) bool { return r.open || r.thought }) && len(t.replies) > 0 {
		out = append(out, Chunk{Type: "finish-step"})
	}
	r := &text{partID: id}
	t.replies[id], t.step, t.mixed = r, id, false
	return r, append(out, Chunk{Type: "start-step"})
}

// named names the agent before the first of the chunks that begins a part, if another one spoke
// before.
func (t *Turn) named(agent string, chunks []Chunk) []Chunk {
	i := slices.IndexFunc(chunks, func(c Chunk) bool {
		return strings.HasSuffix(c.Type, "-start") || strings.HasPrefix(c.Type, "tool-input-") || strings.HasPrefix(c.Type, "data-")
	})
	if i < 0 || agent == "" || agent == t.agent {
		return chunks
	}
	t.agent = agent
	return slices.Insert(chunks, i, Chunk{Type: "data-agent", Data: map[string]string{"name": agent}})
}

func (t *Turn) thought(e event.AgentEvent) []Chunk {
	r, out := t.reply(e.MessageID)
	if r.whole || e.Attempt < r.attempt {
		return out
	}
	r.attempt = e.Attempt
	if !r.thought {
		r.thought = true
		out = append(out, Chunk{Type: "reasoning-start", ID: r.partID})
	}
	return t.named(e.Agent, append(out, Chunk{Type: "reasoning-delta", ID: r.partID, Delta: e.Content}))
}

func (t *Turn) piece(e event.AgentEvent) []Chunk {
	r, out := t.reply(e.MessageID)
	if r.whole || e.Attempt < r.attempt {
		return out
	}
	r.attempt = e.Attempt
	return t.named(e.Agent, append(out, r.say(e.Content)...))
}

// say adds to the text of a reply.
func (r *text) say(content string) []Chunk {
	var out []Chunk
	if r.thought {
		r.thought = false
		out = append(out, Chunk{Type: "reasoning-end", ID: r.partID})
	}
	if !r.open {
		r.open, r.sent = true, ""
		out = append(out, Chunk{Type: "text-start", ID: r.partID})
	}
	r.sent += content
	return append(out, Chunk{Type: "text-delta", ID: r.partID, Delta: content})
}

// close ends the open parts of a reply.
func (r *text) close() []Chunk {
	var out []Chunk
	if r.thought {
		out = append(out, Chunk{Type: "reasoning-end", ID: r.partID})
	}
	if r.open {
		out = append(out, Chunk{Type: "text-end", ID: r.partID})
	}
	r.thought, r.open = false, false
	return out
}

func (t *Turn) closed(messageID string) []Chunk {
	r := t.replies[messageID]
	if r == nil {
		return nil
	}
	r.whole = true
	return r.close()
}

// void takes back the text of a reply. The AI SDK 6 cannot, nor can 7 if its step has other parts: a
// data-reset part says that the text before it is void.
func (t *Turn) void(r *text, id string) []Chunk {
	if t.cfg.Version >= 7 && t.step == id && !t.mixed {
		t.agent = "" // its part has gone too
		return []Chunk{{Type: "reset-step"}}
	}
	return []Chunk{{Type: "data-reset", ID: id, Data: map[string]any{"messageId": id, "attempt": r.attempt}}}
}

// reset begins the text of a reply again.
func (t *Turn) reset(e event.AgentEvent) []Chunk {
	r := t.replies[e.MessageID]
	if r == nil || r.whole || e.Attempt <= r.attempt {
		return nil
	}
	said := r.sent != "" || r.thought
	out := r.close()
	r.attempt, r.sent = e.Attempt, ""
	if said {
		out = append(out, t.void(r, e.MessageID)...)
	}
	return out
}

func (t *Turn) message(e event.AgentEvent) []Chunk {
	m := e.Message
	if m.SenderType != event.CreatedByAgent {
		return nil // people's messages are messages of their own
	}
	r, out := t.reply(m.ID)
	switch rest, isRest := strings.CutPrefix(m.Content, r.sent); {
	case r.whole && r.sent != m.Content:
		out = append(out, Chunk{Type: "data-changed", ID: m.ID, Data: map[string]string{"messageId": m.ID, "text": m.Content}})
	case isRest && rest != "" && !r.whole:
		out = append(out, r.say(rest)...)
	case !isRest:
		// A hook has changed what was streamed.
		out = append(append(out, r.close()...), t.void(r, m.ID)...)
		out = append(out, r.say(m.Content)...)
	}
	r.sent, r.whole = m.Content, true
	return t.named(e.Agent, append(append(out, r.close()...), t.retrieval(m.ID)...))
}

// retrieval returns what the agent of a reply was given, and each passage as a source. They follow the reply, since viewers of the
// live stream learn of them when it is stored. A passage that several agents were given is one source.
func (t *Turn) retrieval(messageID string) []Chunk {
	found := t.found[messageID]
	delete(t.found, messageID)
	if found == nil || len(found.Passages) == 0 && len(found.Facts) == 0 && found.Warning == "" {
		return nil
	}
	out := []Chunk{{Type: "data-retrieval", ID: messageID, Data: found}}
	for i, p := range found.Passages {
		if t.sources[p.ID] {
			continue
		}
		t.sources[p.ID] = true
		out = append(out, Chunk{
			Type: "source-document", SourceID: p.ID, MediaType: "text/plain", Title: cmp.Or(p.Title, p.Source), Filename: p.Source,
			ProviderMetadata: map[string]any{"threadmill": Source{Number: i + 1, Document: p.Document, Index: p.Index, Section: strings.Join(p.Path, " > "), Page: p.Page}},
		})
	}
	return out
}

func (t *Turn) callOf(id string) *call {
	c := t.calls[id]
	if c == nil {
		c = &call{}
		t.calls[id] = c
	}
	return c
}

func (t *Turn) call(e event.AgentEvent) []Chunk {
	r, out := t.reply(e.MessageID)
	out = append(out, r.close()...)
	r.whole = true
	t.callOf(e.ToolCallID)
	c := Chunk{Type: "tool-input-available", ToolCallID: e.ToolCallID, ToolName: e.ToolName, Reply: e.MessageID, Dynamic: !slices.Contains(t.cfg.Static, e.ToolName)}
	if c.Input = json.RawMessage(e.ToolArgs); !json.Valid(c.Input) {
		c.Type, c.Input, c.ErrorText = "tool-input-error", quoted(e.ToolArgs), "the arguments are not JSON"
	}
	return t.named(e.Agent, append(out, c))
}

func (t *Turn) result(e event.AgentEvent) []Chunk {
	c, known := t.calls[e.ToolCallID]
	if !known || c.settled {
		return nil // of a call that was denied, or a second result
	}
	c.settled = true
	unanswered := c.withdrawn()
	if e.IsError {
		return append(unanswered, Chunk{Type: "tool-output-error", ToolCallID: e.ToolCallID, ErrorText: e.Output})
	}
	out := json.RawMessage(e.Output)
	if !json.Valid(out) {
		out = quoted(e.Output)
	}
	return append(unanswered, Chunk{Type: "tool-output-available", ToolCallID: e.ToolCallID, Output: out})
}

// ApprovalID returns the id of a request for a decision. An answer to a request that has been
// replaced, such as one for arguments that have changed, has the id of that one.
func ApprovalID(r *event.ApprovalRequest) string {
	if r.Round <= event.FirstRound {
		return r.ToolCallID
	}
	return event.ApprovalCallID(r.ToolCallID, r.Round)
}

func (t *Turn) request(r *event.ApprovalRequest) []Chunk {
	c, known := t.calls[r.ToolCallID]
	if !known || c.settled {
		return nil
	}
	c.waits = true
	return []Chunk{
		{Type: "tool-approval-request", ToolCallID: r.ToolCallID, ApprovalID: ApprovalID(r)},
		{Type: "data-approval", ID: r.ToolCallID, Data: r},
	}
}

func (t *Turn) decision(a *event.Approval) []Chunk {
	c, known := t.calls[a.ToolCallID]
	if !known || c.settled {
		return nil
	}
	out := []Chunk{{Type: "data-decision", ID: a.ToolCallID, Data: a}}
	if a.Missing > 0 {
		return out
	}
	c.waits = false
	if a.Decision == event.DecisionDeny || a.Decision == event.DecisionExpired {
		c.settled = true
		out = append(out, Chunk{Type: "tool-output-denied", ToolCallID: a.ToolCallID})
	}
	return out
}

func (t *Turn) status(s *event.StatusChange) []Chunk {
	switch s.Status {
	case event.StatusTurnEnded:
	case event.StatusRetrying:
		return []Chunk{{Type: "data-status", Transient: true, Data: s}}
	case event.StatusIntercepted, event.StatusUnanswered:
		return []Chunk{{Type: "data-status", Data: s}}
	default:
		return nil
	}
	t.ended = true
	var out []Chunk
	for _, id := range slices.Sorted(maps.Keys(t.replies)) {
		out = append(out, t.replies[id].close()...)
	}
	if len(t.replies) > 0 {
		out = append(out, Chunk{Type: "finish-step"})
	}
	finish := Chunk{Type: "finish", FinishReason: "stop", MessageMetadata: &UIMetadata{Turn: s.Turn}}
	switch s.Turn {
	case "failed", "expired":
		finish.FinishReason = "error"
		out = append(out, Chunk{Type: "error", ErrorText: orText(s.Detail, "the turn "+s.Turn)})
	case "interrupted":
		finish.FinishReason = "other"
		out = append(out, Chunk{Type: "abort", Reason: s.Detail})
	}
	return append(out, finish)
}

func quoted(s string) json.RawMessage {
	out, _ := json.Marshal(s) // strings can always be encoded
	return out
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
