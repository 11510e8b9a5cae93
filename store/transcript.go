package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
)

// WithheldText is the content of a withheld tool result.
const WithheldText = "The result of this call was withheld."

// ForModels returns the message as models see it in this and every later turn, summary and title.
// ok is false if they do not see it. This is the only function that decides so: models see what
// hooks passed, as they passed it. A message that hooks had not decided on when it was stored, or
// that no turn has processed, is hidden until a decision passes it.
//
// A tool call that hooks did not pass keeps its name, since its result says why it did not run, but
// not its arguments. A result that hooks did not pass has the content [WithheldText].
func (m Message) ForModels() (event.Message, bool) {
	if m.broken {
		return event.Message{}, false
	}
	out, said := m.said()
	if !said {
		out = *m.stored
		out.Content, out.Parts = "", nil
	}
	out.ToolCalls = m.callsForModels(said)
	out.Held = false
	if !said && m.stored.ToolCallID != "" && m.withdrawn.Interception == nil {
		out.Content, out.IsError = WithheldText, true
		return out, true
	}
	return out, said || len(out.ToolCalls) > 0
}

// Intact reports whether models see the message as it was stored.
func (m Message) Intact() bool {
	return m.Content == m.stored.Content && slices.Equal(m.ToolCalls, m.stored.ToolCalls)
}

// said returns the message without its tool calls.
func (m Message) said() (event.Message, bool) {
	switch d := m.decided.Interception; {
	case m.withdrawn.Interception != nil:
		return event.Message{}, false
	case d == nil:
		return *m.stored, !m.stored.Held && !m.waited(event.TypeMessage)
	case d.Outcome == event.OutcomePassed:
		return *m.stored, !m.stored.Held || d.Message != nil
	case d.Outcome == event.OutcomeReplaced && d.Message != nil:
		return *d.Message, true
	}
	return event.Message{}, false
}

// waited reports whether hooks had not decided on an event of the message when it was stored.
func (m Message) waited(eventType string) bool { return slices.Contains(m.undecided, eventType) }

func (m Message) callsForModels(said bool) []event.ToolCall {
	reply := m.stored.ReplyToMessageID != "" || m.stored.Held
	if m.withdrawn.Interception != nil || !said && !reply {
		// The calls are part of a posted message.
		return nil
	}
	var out []event.ToolCall
	for _, call := range m.stored.ToolCalls {
		out = append(out, m.callForModels(call))
	}
	return out
}

func (m Message) callForModels(call event.ToolCall) event.ToolCall {
	d := m.calls.Interception
	switch {
	case d == nil && !m.waited(event.TypeToolCall), d != nil && d.Outcome == event.OutcomePassed:
		return call
	case d != nil && d.Outcome == event.OutcomeReplaced:
		for _, kept := range d.ToolCalls {
			if kept.ID == call.ID {
				return kept
			}
		}
	}
	call.Function.Arguments = "{}"
	return call
}

// place returns the Seq after which models see the message. A message that hooks passed late, for
// example because its event was retried, follows the record of that decision.
func (m Message) place() int64 {
	_, said := m.said()
	switch {
	case said && m.decided.Interception != nil && (m.stored.Held || m.waited(event.TypeMessage)) && m.stored.Content != "":
		return m.decided.seq
	case m.calls.Interception != nil && m.waited(event.TypeToolCall):
		return m.calls.seq
	}
	return m.Record.Seq
}

// Window selects messages of a thread for models.
type Window struct {
	// Head is the Seq of the thread's newest record. Later records change nothing.
	Head int64

	// Limit is the number of the newest messages.
	Limit int

	// EventID selects all messages of this event's turn, however old. Empty = none.
	EventID string

	// Also is the id of another message, however old. Empty = none.
	Also string
}

// keeps reports whether the window contains a message. newer is the number of newer messages.
func (w Window) keeps(m *Message, newer int) bool {
	return newer < w.Limit || w.Also != "" && m.Record.ID == w.Also || w.EventID != "" && m.Record.EventID == w.EventID
}

// Transcript returns the messages in a window that models may see, newest first, in the form of
// [Message.ForModels]. The same window always returns the same messages.
//
// It needs one query, and more if many messages were not passed or were passed late, or if the
// turn began before the newest messages.
func Transcript(ctx context.Context, s Reader, key Key, w Window) ([]*Message, error) {
	t, err := readTranscript(ctx, s, key, w)
	if err != nil {
		return nil, err
	}
	return t.in(w), nil
}

func readTranscript(ctx context.Context, s Reader, key Key, w Window) (*transcript, error) {
	t := &transcript{head: w.Head, limit: w.Limit, found: decisions{}, seen: map[string]bool{}}
	q := Query{Before: w.Head + 1, Types: transcribed, Newest: true, Limit: min(max(w.Limit, 1), MaxLimit)}
	for {
		page, err := s.Records(ctx, key, q)
		if err != nil {
			return nil, err
		}
		t.add(page)
		if t.whole = q.Complete(page); t.whole || len(t.shown) >= w.Limit {
			break
		}
		q.Before, q.Limit = page[len(page)-1].Seq, MaxLimit
	}
	return t, t.complete(ctx, s, key, w)
}

// transcribed are the types of the records that a transcript is made of.
var transcribed = []string{event.TypeMessage, event.TypeHook}

// turnMessages returns the ids of the messages of the turn in a window.
func turnMessages(ctx context.Context, s Reader, key Key, w Window) (ids []string, err error) {
	q := Query{Before: w.Head + 1, Types: []string{event.TypeMessage}, EventID: w.EventID, Limit: MaxLimit}
	for {
		page, err := s.Records(ctx, key, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			ids = append(ids, r.ID)
		}
		if q.Complete(page) {
			return ids, nil
		}
		q.After = page[len(page)-1].Seq
	}
}

// transcript contains the decisions, the ids of messages, and the visible messages that were read,
// up to head.
type transcript struct {
	head  int64
	limit int
	found decisions
	seen  map[string]bool
	shown []placed
	bytes int // of the payloads that were read

	// whole means that no record is older, and sparse that records were read which lie before a gap.
	whole, sparse bool
}

// in returns the messages in a window.
func (t *transcript) in(w Window) []*Message {
	slices.SortFunc(t.shown, func(a, b placed) int {
		return -cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.Record.Seq, b.Record.Seq))
	})
	out := make([]*Message, 0, len(t.shown))
	for i, m := range t.shown {
		if w.keeps(m.Message, i) {
			out = append(out, m.Message)
		}
	}
	return out
}

// placed is a message and its place among the others.
type placed struct {
	*Message
	place int64
}

// add adds records, and all new decisions on their messages: a decision follows its message, so a
// reader of the newest records finds the decision first.
func (t *transcript) add(records []event.Record) {
	for _, r := range records {
		t.bytes += len(r.Payload)
		if r.Type == event.TypeHook {
			t.found.add(r)
		}
	}
	shown := make([]placed, 0, len(records)+len(t.shown))
	for _, r := range records {
		if r.Type != event.TypeMessage {
			continue
		}
		t.seen[r.ID] = true
		m := settle(r, t.found)
		if forModels, ok := m.ForModels(); ok {
			m.Message, m.Hidden = forModels, false
			shown = append(shown, placed{&m, m.place()})
		}
	}
	t.shown = append(shown, t.shown...) // in order, if these are newer
}

// complete reads the messages that were passed within the records read so far but stored before
// them, and older ones that the window selects.
func (t *transcript) complete(ctx context.Context, s Reader, key Key, w Window) error {
	var ids []string
	want := func(messageID string) {
		if messageID != "" && !t.seen[messageID] {
			t.seen[messageID] = true
			ids = append(ids, messageID)
			ids = append(ids, decisionIDs(messageID)...)
		}
	}
	// A message is the first record of its turn.
	if w.EventID != "" && !t.whole && !t.seen[w.EventID] {
		older, err := turnMessages(ctx, s, key, w)
		if err != nil {
			return err
		}
		for _, id := range older {
			want(id)
		}
	}
	for _, d := range t.found {
		switch {
		case d.Outcome != event.OutcomePassed && d.Outcome != event.OutcomeReplaced:
		case d.EventType == event.TypeMessage:
			want(d.EventID)
		case d.EventType == event.TypeToolCall:
			messageID, _ := recordid.ReplyOfCalls(d.EventID)
			want(messageID)
		}
	}
	want(w.Also)
	t.sparse = len(ids) > 0
	// The chunk size keeps the four records of a message together.
	for some := range slices.Chunk(ids, MaxLimit) {
		records, err := s.RecordsByID(ctx, key, some...)
		if err != nil {
			return err
		}
		t.add(slices.DeleteFunc(records, func(r event.Record) bool { return r.Seq > t.head }))
	}
	return nil
}
