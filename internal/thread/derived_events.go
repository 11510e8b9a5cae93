package thread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// Limits on the events that hooks and processors derive from one posted event, so that a hook that
// answers itself does not loop forever.
const (
	maxDepth   = 10
	maxDerived = 100
)

// Origin describes how a hook or processor derived an event.
type Origin struct {
	// Root is the posted event that the event follows from, and Depth the number of derivations.
	Root  string `json:"root"`
	Depth int    `json:"depth"`
	By    string `json:"by"`

	// Hooked means that hooks do not process the event: they replaced the original event by it.
	Hooked bool `json:"hooked,omitempty"`
}

// Root is a posted event from which events were derived. Its turn ends when all of them are
// processed.
type Root struct {
	EventID string `json:"eventId"`
	TurnID  string `json:"turnId"`

	// Derived is the number of derived events. Ended is set when the event's own processing is over;
	// Result is the result so far.
	Derived int                `json:"derived"`
	Ended   bool               `json:"ended,omitempty"`
	Result  signals.TurnResult `json:"result"`
	Joined  []string           `json:"joined,omitempty"`

	// Terminal reports whether viewers received a final or error record.
	Terminal bool   `json:"terminal,omitempty"`
	TraceID  string `json:"traceId,omitempty"`
}

// Deferred is an event that a hook or processor derived and that is to be queued.
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

// maxType is the maximum length of an event's type, in bytes: stores keep it as an identifier.
const maxType = 128

// unstorable returns the reason why a store would reject an event that a decision derives, or "".
func unstorable(d step.HookDecision) string {
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

// tooMany returns the reason why a decision derives too many events, or "".
func (t *Turn) tooMany(d step.HookDecision) string {
	s := t.thread
	n := len(d.Responses) + len(d.Produced)
	if n == 0 {
		return ""
	}
	made, size := n, s.queuedBytes()
	for _, r := range d.Responses {
		size += itemBytes + len(r.Content)
	}
	for _, p := range d.Produced {
		size += itemBytes + len(p.Payload)
	}
	if root := s.Turns.rootOf(t.root()); root != nil {
		made += root.Derived
	}
	for _, r := range t.Runs {
		made += len(r.Deferred)
	}
	switch {
	case t.depth() >= maxDepth:
		return fmt.Sprintf("hook %s answers what hooks have made themselves: %d events in a row were made of one another, the limit. Let it pass what it has made itself.", d.By, maxDepth)
	case made > maxDerived:
		return fmt.Sprintf("hooks and processors have made %d events of one, the last of them %s; the limit is %d.", made, d.By, maxDerived)
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

// response returns the message with which a hook answers.
func (t *Turn) response(e HookEvent, by string, r hook.Response) hook.Produced {
	s := t.thread
	if r.SenderType == "" {
		r.SenderType = event.CreatedByAgent
	}
	if r.SenderID == "" {
		r.SenderID = t.speaker(e, by)
	}
	return hook.NewProduced(event.TypeMessage, event.NewMessage{
		ThreadID: s.ThreadID, SenderID: r.SenderID, SenderType: r.SenderType, Content: r.Content, Metadata: r.Metadata,
	})
}

// speaker returns the default sender of a hook's response: the agent of the event, or the agent
// that would have answered it, or the hook.
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
			if s.Roster.Default != "" {
				return s.Roster.Default
			}
		}
	}
	return by
}

// countDerived counts an event that is derived from the turn, for the turn's root.
func (ts *Turns) countDerived(t *Turn) {
	root := ts.rootOf(t.root())
	if root == nil {
		ts.Roots = append(ts.Roots, Root{EventID: t.root(), TurnID: t.TurnID(), TraceID: t.Item.TraceID})
		root = &ts.Roots[len(ts.Roots)-1]
	}
	root.Derived++
}

// produce queues an event that a hook or processor derived for a user: after the events derived
// from the same event, and before posted events of the same priority.
func (t *Turn) produce(now time.Time, made Deferred, user string) {
	s := t.thread
	s.Turns.countDerived(t)
	it := event.Item{
		ID: made.ID, ThreadID: s.ThreadID, Type: made.Event.Type, Payload: made.Event.Payload, Status: event.ItemPending,
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
	q := Queued{Item: it, Options: Options{Tools: t.Tools}, User: user, Traceparent: t.Traceparent, Origin: &Origin{Root: t.root(), Depth: t.depth() + 1, By: made.By, Hooked: made.Hooked}}
	if event.Background(it.Type) {
		// Nothing waits for it, so it gets a separate turn.
		q.Origin.Root = it.ID
		s.Inbox.add(q)
		return
	}
	s.Inbox.addDerived(q)
}

// continueRoot merges the result of a turn into that of its root. It reports whether events derived
// from the root are still to be processed.
func (t *Turn) continueRoot(now time.Time, out signals.TurnResult, terminal bool) bool {
	s := t.thread
	root := s.Turns.rootOf(t.root())
	if root == nil {
		return false
	}
	root.Terminal = root.Terminal || terminal
	root.Joined = append(root.Joined, t.Steered...)
	switch before := root.Result; {
	case t.Item.ID == root.EventID && !root.Ended:
		// Derived events may already have been interrupted.
		root.Ended, root.Result = true, out
		root.join(before)
	case t.Item.ID == root.EventID:
		root.Result = out
	case !s.Awaits(out.EventID): // otherwise it is processed again
		root.join(out)
		s.Turns.addOutcome(out, s.Outbox.last())
	}
	s.settleRoots(now)
	return true
}

// join merges the result of a derived event.
func (r *Root) join(out signals.TurnResult) {
	for _, m := range out.AllReplies() {
		addReply(&r.Result, m)
	}
	if out.Status == signals.TurnFailed || out.Status == signals.TurnInterrupted {
		r.Result.Status, r.Result.Error, r.Result.Class = out.Status, out.Error, out.Class
	}
}

// holds reports whether a queued item keeps the turn of a root open: the item is derived from the
// root, or is the root itself, which is to be processed again.
func (q Queued) holds(root string) bool {
	return q.Item.ID == root || q.Origin != nil && q.Origin.Root == root
}

// takeSettledRoots removes the roots that have no events left to process, in a turn or in the queue.
func (ts *Turns) takeSettledRoots(queue []Queued) (settled []Root) {
	kept := ts.Roots[:0:0]
	for _, r := range ts.Roots {
		waits := slices.ContainsFunc(queue, func(q Queued) bool { return q.holds(r.EventID) })
		if !r.Ended || waits || slices.ContainsFunc(ts.all(), func(t *Turn) bool { return t.root() == r.EventID }) {
			kept = append(kept, r)
			continue
		}
		settled = append(settled, r)
	}
	ts.Roots = kept
	return settled
}

// settleRoots ends the turns of the roots that have no events left to process.
func (s *State) settleRoots(now time.Time) {
	for _, r := range s.Turns.takeSettledRoots(s.Inbox.Queue) {
		if !r.Terminal {
			final := event.Final{}
			if m := r.Result.Message; m != nil {
				final.Agent, final.MessageID = m.AgentID, m.ID
			}
			s.Outbox.recordIn(r.EventID, recordid.Final(r.TurnID), event.TypeFinal, r.TraceID, r.EventID, now, final)
		}
		out := r.Result
		out.EventID = r.EventID
		s.announceEnd(now, r.TurnID, r.TraceID, out, r.Joined)
	}
}

// message returns an item's message as it is stored.
func (q *Queued) message() event.Message {
	m := *q.read().Message
	msg := event.Message{
		ID: q.Item.ID, ThreadID: q.Item.ThreadID, SenderID: m.SenderID, SenderType: m.SenderType, Role: m.SenderType.Role(),
		Content: m.Content, ToolCalls: m.ToolCalls, Metadata: m.Metadata,
	}
	if m.SenderType == event.CreatedByAgent {
		msg.AgentID = m.SenderID
	}
	return msg
}
