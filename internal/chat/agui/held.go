package agui

import (
	"slices"
	"strings"

	"github.com/threadmill/threadmill/internal/chat"
)

// Held is a message that a client has.
type Held struct {
	ID, Role, Text string
	Calls          []ToolCall
	ToolCallID     string // of a result

	// Message is the whole message. Clients have fields of their own in theirs.
	Message any
}

// Holds returns what a client has that got these messages.
func Holds(messages []*Message) []*Held {
	out := make([]*Held, len(messages))
	for i, m := range messages {
		out[i] = m.held()
	}
	return out
}

func (m *Message) held() *Held {
	return &Held{ID: m.ID, Role: m.Role, Text: m.Content, Calls: m.ToolCalls, ToolCallID: m.ToolCallID, Message: m}
}

// has reports whether the client's copy of a message says the same.
func (h *Held) has(m *Message) bool {
	return h.Text == m.Content && slices.EqualFunc(h.Calls, m.ToolCalls, func(a, b ToolCall) bool {
		return a.ID == b.ID && a.Function.Arguments == b.Function.Arguments
	})
}

// list is the messages that a client has, in its order. Each has another id.
type list []*Held

// listOf returns the messages that a client says it has. Of several with the same id, only the first counts.
func listOf(held []*Held) list {
	ids := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(list(held)), func(h *Held) bool {
		again := ids[h.ID]
		ids[h.ID] = true
		return again
	})
}

const roleThought = "reasoning"

// spoken is the list without thoughts. Snapshots do not have them either: then clients keep theirs.
func (l list) spoken() list {
	return slices.DeleteFunc(slices.Clone(l), func(h *Held) bool { return h.Role == roleThought })
}

func (l list) index(id string) int {
	return slices.IndexFunc(l, func(h *Held) bool { return h.ID == id })
}

// find returns the index of a message. The result of a client's own tool is a message of the client's.
func (l list) find(m *Message) int {
	i := l.index(m.ID)
	if i < 0 && m.Role == "tool" {
		i = slices.IndexFunc(l, func(h *Held) bool { return h.Role == "tool" && h.ToolCallID == m.ToolCallID })
	}
	return i
}

// begin returns a message that this run changes, which clients append if they do not have it.
func (l *list) begin(id, role string) *Held {
	if i := l.index(id); i >= 0 {
		h := *(*l)[i]
		h.Calls, h.Message = slices.Clone(h.Calls), nil
		(*l)[i] = &h
		return &h
	}
	h := &Held{ID: id, Role: role}
	*l = append(*l, h)
	return h
}

// apply notes what events make of the list, as clients do.
func (l *list) apply(events []Event) {
	for _, e := range events {
		switch e.Type {
		case "TEXT_MESSAGE_START", "REASONING_MESSAGE_START":
			l.begin(e.MessageID, e.Role)
		case "TOOL_CALL_START":
			h := l.begin(e.ParentMessageID, "assistant")
			h.Calls = append(h.Calls, ToolCall{ID: e.ToolCallID})
		case "TOOL_CALL_RESULT": // stands behind the call, and behind results that were there before it
			at := slices.IndexFunc(*l, func(h *Held) bool {
				return slices.ContainsFunc(h.Calls, func(c ToolCall) bool { return c.ID == e.ToolCallID })
			}) + 1
			if at == 0 {
				at = len(*l)
			}
			for at < len(*l) && (*l)[at].Role == "tool" {
				at++
			}
			*l = slices.Insert(*l, at, &Held{ID: e.MessageID, Role: "tool", ToolCallID: e.ToolCallID})
		}
	}
}

// merge returns the list with the messages of an answer as they are, and where they belong: behind the question, and before
// what a person said next. It reports whether the client's copy of one is wrong. Messages of the client's own stay.
func (l list) merge(question string, answer []*Message) (merged list, wrong bool) {
	out := l.spoken()
	at := out.index(question)
	if at < 0 {
		at = len(out) - 1
		if first := slices.IndexFunc(answer, func(m *Message) bool { return out.find(m) >= 0 }); first >= 0 {
			at = out.find(answer[first]) - 1
		}
	}
	for _, m := range answer {
		h := m.held()
		if i := out.find(m); i >= 0 {
			known := out[i]
			switch {
			case known.Message == nil:
			case known.ID != m.ID, known.has(m):
				h = known
			default:
				wrong = true
			}
			out = slices.Delete(out, i, i+1)
			switch {
			case i <= at:
				at--
			case !slices.ContainsFunc(out[at+1:i], func(h *Held) bool { return h.Role == "user" }):
				at = i - 1
			}
		}
		at++
		out = slices.Insert(out, at, h)
	}
	return out, wrong
}

func (l list) ids() []string {
	out := make([]string, len(l))
	for i, h := range l {
		out[i] = h.ID
	}
	return out
}

// become returns the snapshots that make the list another one, and that list. Clients keep the order of what they have, and
// append the rest; so what stands at the wrong place is removed first.
func (l list) become(want list) ([]Event, list) {
	ids := want.ids()
	kept := slices.DeleteFunc(l.spoken().ids(), func(id string) bool { return !slices.Contains(ids, id) })
	var out []Event
	if !slices.Equal(kept, ids[:len(kept)]) {
		same := 0
		for kept[same] == ids[same] {
			same++
		}
		l = l.replaced(want[:same])
		out = append(out, snapshot(want[:same]))
	}
	return append(out, snapshot(want)), l.replaced(want)
}

// replaced returns the list after a snapshot.
func (l list) replaced(by list) list {
	var out list
	for _, h := range l {
		if i := by.index(h.ID); i >= 0 {
			out = append(out, by[i])
		} else if h.Role == roleThought {
			out = append(out, h)
		}
	}
	for _, h := range by {
		if out.index(h.ID) < 0 {
			out = append(out, h)
		}
	}
	return out
}

// Replace returns the events that replace the messages of a client, and what it has then.
func Replace(held []*Held, by []*Message) ([]Event, []*Held) {
	return listOf(held).become(Holds(by))
}

func snapshot(l list) Event {
	messages := make([]any, len(l))
	for i, h := range l {
		messages[i] = h.Message
	}
	return Event{Type: "MESSAGES_SNAPSHOT", Messages: &messages}
}

// questionOf returns the id of the message that an answer is to.
func questionOf(m *chat.Message) string { return strings.TrimSuffix(m.ID, chat.AnswerID("")) }
