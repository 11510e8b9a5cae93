package transcript

import (
	"cmp"
	"context"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/store"
)

// withheldText is the content of a withheld tool result.
const withheldText = "The result of this call was withheld."

// ForModels returns the message as models see it in this and every later turn, summary and title.
// ok is false if they do not see it. This is the only function that decides so: models see what
// hooks passed, as they passed it. A message that hooks had not decided on when it was stored, or
// that no turn has processed, is hidden until a decision passes it.
//
// A tool call that hooks did not pass keeps its name, since its result says why it did not run, but
// not its arguments. A result that hooks did not pass has the content [withheldText].
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
		out.Content, out.IsError = withheldText, true
		return out, true
	}
	return out, said || len(out.ToolCalls) > 0
}

// Intact reports whether models see the message as it was stored.
func (m Message) Intact() bool {
	return !m.shortened && m.Content == m.stored.Content && slices.Equal(m.ToolCalls, m.stored.ToolCalls)
}

// Cut reports whether the window cut the message, a result, of which the tool read_result reads the rest.
func (m Message) Cut() bool { return m.whole > 0 }

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

	// Bytes bounds the texts of the messages together, each with 256 bytes more. Older messages are left out, a message
	// is cut to a quarter, and what there is no room for of the turn is cut to its beginnings, for which there is another
	// quarter. Cut texts say so. 0 = no bound.
	Bytes int

	// Result bounds the text of a tool's result. Of a larger one, the beginning and the end remain, with a note between them that says
	// how to read the rest with the tool read_result. 0 = no bound but Bytes.
	Result int
}

// keeps reports whether the window contains a message. newer is the number of newer messages.
func (w Window) keeps(m *Message, newer int) bool {
	return newer < w.Limit || w.also(m) || w.ofTurn(m)
}

func (w Window) also(m *Message) bool   { return w.Also != "" && m.Record.ID == w.Also }
func (w Window) ofTurn(m *Message) bool { return w.EventID != "" && m.Record.EventID == w.EventID }

// Read returns the messages in a window that models may see, newest first, in the form of
// [Message.ForModels], without the payloads of their records and, except for [event.MetadataContext], metadata. The same window always returns the same messages.
//
// It needs one query, and more if many messages were not passed or were passed late, or if the
// turn began before the newest messages, or if they are large: it reads them in pages.
func Read(ctx context.Context, s Reader, key store.Key, w Window) ([]*Message, error) {
	t, err := readTranscript(ctx, s, key, w, 0)
	if err != nil {
		return nil, err
	}
	return t.in(w), nil
}

// readTranscript returns [ErrTooLarge] if more than most bytes of payloads would have to be read. 0 = no limit.
func readTranscript(ctx context.Context, s Reader, key store.Key, w Window, most int) (*transcript, error) {
	t := &transcript{head: w.Head, limit: w.Limit, room: w.Bytes, result: w.Result, most: most, found: decisions{}, seen: map[string]bool{}}
	q := store.Query{Before: w.Head + 1, Types: transcribed, Newest: true, Limit: min(max(w.Limit, 1), store.MaxLimit), MaxBytes: t.pageBytes()}
	for {
		page, err := s.Records(ctx, key, q)
		if err != nil {
			return nil, err
		}
		if err := t.take(page, w); err != nil {
			return nil, err
		}
		if t.whole = q.Complete(page); t.whole {
			break
		}
		t.from = page[len(page)-1].Seq
		if len(t.shown) >= w.Limit || w.Bytes > 0 && t.texts >= w.Bytes {
			break
		}
		q.Before, q.Limit = t.from, store.MaxLimit
	}
	return t, t.complete(ctx, s, key, w)
}

// transcribed are the types of the records that a transcript is made of.
var transcribed = []string{event.TypeMessage, event.TypeHook}

// readTurn reads the messages of the turn in a window that are older than those that were read, newest first.
func (t *transcript) readTurn(ctx context.Context, s Reader, key store.Key, w Window) error {
	q := store.Query{Before: t.from, Types: []string{event.TypeMessage}, EventID: w.EventID, Newest: true, Limit: store.MaxLimit, MaxBytes: t.pageBytes()}
	for {
		page, err := s.Records(ctx, key, q)
		if err != nil || len(page) == 0 {
			return err
		}
		var ids []string
		for _, r := range page {
			ids = append(ids, decisionIDs(r.ID)...)
		}
		if err := t.readByID(ctx, s, key, w, ids, page...); err != nil {
			return err
		}
		if q.Complete(page) {
			return nil
		}
		q.Before = page[len(page)-1].Seq
	}
}

// byID is the number of records that are read by their ids at once: without knowing how large they are. It keeps the four records of
// a message together.
const byID = 64

// readByID adds the records with the ids, together with others that were read.
func (t *transcript) readByID(ctx context.Context, s Reader, key store.Key, w Window, ids []string, with ...event.Record) error {
	if len(ids) == 0 {
		return nil
	}
	t.sparse = true
	step := byID
	if len(with) > 0 {
		step = store.MaxLimit // decisions on messages that were read
	}
	for some := range slices.Chunk(ids, step) {
		records, err := s.RecordsByID(ctx, key, some...)
		if err != nil {
			return err
		}
		with = append(with, slices.DeleteFunc(records, func(r event.Record) bool { return r.Seq > t.head })...)
		if step == store.MaxLimit {
			continue
		}
		if err := t.take(with, w); err != nil {
			return err
		}
		with = nil
	}
	return t.take(with, w)
}

// transcript contains the decisions, the ids of messages, and the visible messages that were read,
// up to head.
type transcript struct {
	head   int64
	limit  int
	room   int // [Window].Bytes
	result int // [Window].Result
	found  decisions
	seen   map[string]bool
	shown  []placed
	texts  int // bytes of shown, as a window counts them

	// bytes are those of the payloads that were read, and most is their limit. 0 = none.
	bytes, most int

	// from is the smallest Seq up to which everything was read, unless it is whole.
	from int64

	// whole means that no record is older, and sparse that records were read which lie before a gap.
	whole, sparse bool
}

// in returns the messages in a window.
func (t *transcript) in(w Window) []*Message {
	t.sort()
	out := make([]*Message, 0, len(t.shown))
	room := w.room(t.shown)
	for i, m := range t.shown {
		if !w.keeps(m.Message, i) {
			continue
		}
		if taken, ok := room.take(m.Message); ok {
			out = append(out, taken)
		}
	}
	return out
}

func (t *transcript) sort() {
	slices.SortFunc(t.shown, func(a, b placed) int {
		return -cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.Record.Seq, b.Record.Seq))
	})
}

// pageBytes bounds the payloads of a page.
func (t *transcript) pageBytes() int {
	if t.most > 0 {
		return min(pageBytes, t.most+1)
	}
	return pageBytes
}

// take adds records, unless there are too many.
func (t *transcript) take(records []event.Record, w Window) error {
	t.add(records, w)
	if t.most > 0 && t.bytes > t.most {
		return ErrTooLarge
	}
	t.shorten(w)
	return nil
}

// placed is a message and its place among the others.
type placed struct {
	*Message
	place int64
}

// add adds records, and all new decisions on their messages: a decision follows its message, so a
// reader of the newest records finds the decision first.
func (t *transcript) add(records []event.Record, w Window) {
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
			m.Metadata, m.stored.Metadata, m.Record.Payload = contextIn(m.Message), nil, nil
			kept := placed{w.bounded(&m), m.place()}
			shown, t.texts = append(shown, kept), t.texts+bytesOf(kept.Message.Message)
		}
	}
	t.shown = append(shown, t.shown...) // in order, if these are newer
}

// contextIn returns the metadata of a message that models see.
func contextIn(m event.Message) map[string]any {
	if entries := event.ContextOf(m); len(entries) > 0 {
		return map[string]any{event.MetadataContext: entries}
	}
	return nil
}

// complete reads the messages that were passed within the records read so far but stored before
// them, and older ones that the window selects.
func (t *transcript) complete(ctx context.Context, s Reader, key store.Key, w Window) error {
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
		if err := t.readTurn(ctx, s, key, w); err != nil {
			return err
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
	return t.readByID(ctx, s, key, w, ids)
}
