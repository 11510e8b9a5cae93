package thread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
)

// Bounds on what hooks and processors make of one event that came from outside: a hook
// that answers itself must not go on for ever.
const (
	maxDepth = 10
	maxMade  = 100
)

// Origin says which hook or processor made an event, and what it follows from.
type Origin struct {
	// Root is the event from outside from which it follows, Depth how many were made of
	// one another on the way.
	Root  string `json:"root"`
	Depth int    `json:"depth"`
	By    string `json:"by"`

	// Hooked says that hooks do not see it: they have seen what it was made of, and put
	// it in its place.
	Hooked bool `json:"hooked,omitempty"`
}

// Root is an event from outside while events that were made of it are still to be
// processed: its turn has ended when theirs have.
type Root struct {
	EventID string `json:"eventId"`
	TurnID  string `json:"turnId"`

	// Made counts them. Ended is set, with the Result so far, once the event's own
	// processing is over.
	Made   int                `json:"made"`
	Ended  bool               `json:"ended,omitempty"`
	Result signals.TurnResult `json:"result"`
	Joined []string           `json:"joined,omitempty"`

	// Terminal says that viewers have been told of an end.
	Terminal bool   `json:"terminal,omitempty"`
	TraceID  string `json:"traceId,omitempty"`
}

// Deferred is an event that a hook or processor has made.
type Deferred struct {
	ID     string        `json:"id"`
	By     string        `json:"by"`
	Parent string        `json:"parent"`
	Event  hook.Produced `json:"event"`
	Hooked bool          `json:"hooked,omitempty"`
}

func (t *Turn) depth() int {
	if t.Origin != nil {
		return t.Origin.Depth
	}
	return 0
}

// maxType bounds the type of an event, in bytes: stores keep it as an identifier.
const maxType = 128

// unstorable says which event a decision makes that no store takes.
func unstorable(d Decision) string {
	types := []string{}
	for _, p := range d.Produced {
		types = append(types, p.Type)
	}
	switch got := readEvent(d.Event).(type) {
	case event.CustomEvent:
		types = append(types, got.Type)
	case event.EnvEvent:
		types = append(types, got.Type)
	}
	for _, typ := range types {
		if len(typ) > maxType || strings.ContainsRune(typ, 0) {
			return fmt.Sprintf("%s has made an event of type %.200q; a type must be at most %d bytes of text without NUL characters.", cmp.Or(d.By, by(d)), typ, maxType)
		}
	}
	return ""
}

// tooMany says why a decision makes more events than it may.
func (t *Turn) tooMany(d Decision) string {
	s := t.thread
	n := len(d.Responses) + len(d.Produced)
	if n == 0 {
		return ""
	}
	made, size := n, s.queued()
	for _, r := range d.Responses {
		size += itemBytes + len(r.Content)
	}
	for _, p := range d.Produced {
		size += itemBytes + len(p.Payload)
	}
	if root := s.rootOf(t.root()); root != nil {
		made += root.Made
	}
	for _, r := range t.Runs {
		made += len(r.Deferred)
	}
	switch {
	case t.depth() >= maxDepth:
		return fmt.Sprintf("hook %s answers what hooks have made themselves: %d events in a row were made of one another, the limit. Let it pass what it has made itself.", d.By, maxDepth)
	case made > maxMade:
		return fmt.Sprintf("hooks and processors have made %d events of one, the last of them %s; the limit is %d.", made, d.By, maxMade)
	case size > maxQueueBytes:
		return fmt.Sprintf("what %s made does not fit into the queue, which takes %d KiB; retry the event when some of it has been processed.", d.By, maxQueueBytes>>10)
	}
	return ""
}

func (ts *Turns) rootOf(eventID string) *Root {
	for i := range ts.Roots {
		if ts.Roots[i].EventID == eventID {
			return &ts.Roots[i]
		}
	}
	return nil
}

// response is the message that a hook has answered with.
func (t *Turn) response(e HookEvent, by string, r hook.Response) hook.Produced {
	s := t.thread
	if r.SenderType == "" {
		r.SenderType = event.Agent
	}
	if r.SenderID == "" {
		r.SenderID = t.speaker(e, by)
	}
	return hook.NewProduced(event.TypeMessage, event.NewMessage{
		ThreadID: s.ThreadID, SenderID: r.SenderID, SenderType: r.SenderType, Content: r.Content, Metadata: r.Metadata,
	})
}

// speaker is whom a response is from unless it says: the agent that the event belongs
// to, else the one that would have answered it, else the hook.
func (t *Turn) speaker(e HookEvent, by string) string {
	s := t.thread
	if e.Agent != "" {
		return e.Agent
	}
	if e.Type == event.TypeMessage {
		for _, agent := range t.answering(e.message) {
			if agent != "" {
				return agent
			}
			if s.Default != "" {
				return s.Default
			}
		}
	}
	return by
}

// produce queues an event that a hook or processor has made: behind what else was made
// of the same event, ahead of its equals that came from outside.
func (t *Turn) produce(now time.Time, made Deferred) {
	s := t.thread
	root := s.rootOf(t.root())
	if root == nil {
		s.Roots = append(s.Roots, Root{EventID: t.root(), TurnID: t.id(), TraceID: t.Item.TraceID})
		root = &s.Roots[len(s.Roots)-1]
	}
	root.Made++
	it := event.Item{
		ID: made.ID, ThreadID: s.ThreadID, Type: made.Event.Type, Payload: made.Event.Payload, Status: event.Pending,
		Priority: t.Item.Priority, TTL: min(made.Event.TTL, signals.MaxTTL), TraceID: t.Item.TraceID, ParentEventID: made.Parent,
		Namespace: s.Namespace, CreatedAt: now, UpdatedAt: now,
	}
	if m := made.Event.Metadata; m != nil {
		about := *m
		about.TriggerSessionID = s.ThreadID
		it.Metadata, it.Timestamp = rawJSON(about), now.UnixMilli()
	}
	switch {
	case made.Event.Priority != nil:
		it.Priority = *made.Event.Priority
	case event.Background(it.Type):
		it.Priority = event.BackgroundPriority
	}
	q := Queued{Item: it, Options: Options{Tools: t.Tools}, Origin: &Origin{Root: t.root(), Depth: t.depth() + 1, By: made.By, Hooked: made.Hooked}}
	if event.Background(it.Type) {
		// Nobody waits for it: what follows from it is a turn of its own.
		q.Origin.Root = it.ID
		s.Queue = append(s.Queue, q)
		return
	}
	at := 0
	for i, other := range s.Queue {
		if other.Origin != nil && other.Origin.Root == t.root() {
			at = i + 1
		}
	}
	s.Queue = slices.Insert(s.Queue, at, q)
}

// continueRoot joins how a part of a turn has ended with how the turn has. It reports whether
// the turn goes on with events that were made meanwhile.
func (t *Turn) continueRoot(now time.Time, out signals.TurnResult, terminal bool) bool {
	s := t.thread
	root := s.rootOf(t.root())
	if root == nil {
		return false
	}
	root.Terminal = root.Terminal || terminal
	root.Joined = append(root.Joined, t.Steered...)
	switch before := root.Result; {
	case t.Item.ID == root.EventID && !root.Ended:
		// What was made of it may have been interrupted already.
		root.Ended, root.Result = true, out
		root.join(before)
	case t.Item.ID == root.EventID:
		root.Result = out
	case !s.Awaits(out.EventID): // otherwise it is processed again
		root.join(out)
		s.addOutcome(out)
	}
	s.settleRoots(now)
	return true
}

// join adds what an event that was made has come to.
func (r *Root) join(out signals.TurnResult) {
	for _, m := range out.AllReplies() {
		addReply(&r.Result, m)
	}
	if out.Status == signals.TurnFailed || out.Status == signals.TurnInterrupted {
		r.Result.Status, r.Result.Error = out.Status, out.Error
	}
}

// holds reports whether a turn goes on for an item that waits: one that was made of its
// event, or the event itself, when it is to be processed again.
func (q Queued) holds(root string) bool {
	return q.Item.ID == root || q.Origin != nil && q.Origin.Root == root
}

// settleRoots ends the turns of which nothing is left to be processed.
func (ts *Turns) settleRoots(now time.Time) {
	s := ts.thread
	kept := ts.Roots[:0:0]
	var ended []Root
	for _, r := range ts.Roots {
		waits := slices.ContainsFunc(s.Queue, func(q Queued) bool { return q.holds(r.EventID) })
		if !r.Ended || waits || slices.ContainsFunc(ts.turns(), func(t *Turn) bool { return t.root() == r.EventID }) {
			kept = append(kept, r)
			continue
		}
		ended = append(ended, r)
	}
	ts.Roots = kept
	for _, r := range ended {
		if !r.Terminal {
			final := event.Final{}
			if m := r.Result.Message; m != nil {
				final.Agent, final.MessageID = m.AgentID, m.ID
			}
			s.recordIn(r.EventID, event.FinalID(r.TurnID), event.TypeFinal, r.TraceID, r.EventID, now, final)
		}
		out := r.Result
		out.EventID = r.EventID
		ts.announceEnd(now, r.TurnID, r.TraceID, out, r.Joined)
	}
}

// said is an item's message as it is stored.
func (in *Inbox) said(it event.Item) event.Message {
	s := in.thread
	var m event.NewMessage
	// The payload was checked when it was posted.
	_ = json.Unmarshal(it.Payload, &m)
	msg := event.Message{
		ID: it.ID, ThreadID: s.ThreadID, SenderID: m.SenderID, SenderType: m.SenderType, Role: m.SenderType.Role(),
		Content: m.Content, ToolCalls: m.ToolCalls, Metadata: m.Metadata,
	}
	if m.SenderType == event.Agent {
		msg.AgentID = m.SenderID
	}
	return msg
}
