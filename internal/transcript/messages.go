package transcript

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/store"
)

// Message is a message with the decisions of hooks.
type Message struct {
	// Message is the effective message: the stored one or its replacement. The content of a hidden
	// message is omitted.
	event.Message

	// Record is the message's record as stored.
	Record event.Record

	// Decision is the decision of hooks on the message, or nil.
	Decision *event.Interception

	// Hidden means that the message was held for a hook that has not passed it, or that there is a
	// Problem. People do not see the message, and models see only its tool calls.
	Hidden bool

	// Problem is an [ErrUnreadable] error if the record or a decision on it cannot be read.
	Problem error

	// stored is the message in the record, which copies share, and undecided the event types that hooks had not
	// decided on when it was stored. decided and calls are the decisions on its text and its tool calls,
	// and withdrawn the change of status that withdrew it.
	stored                    *event.Message
	undecided                 []string
	decided, calls, withdrawn decision

	// broken means that the record itself is unreadable, and shortened that a window had no room for its texts.
	broken, shortened bool

	// whole is the size of the text of a result that a window cut; 0 = it did not.
	whole int
}

// Outcome returns the outcome of hooks on the message: empty if they passed it unchanged, and
// "undecided" if they have not decided, or failed.
func (m Message) Outcome() string {
	switch d := m.decided.Interception; {
	case m.withdrawn.Interception != nil:
		return string(event.OutcomeWithdrawn)
	case d == nil && m.waited(event.TypeMessage):
		return "undecided"
	case d != nil && d.Outcome != event.OutcomePassed:
		return string(d.Outcome)
	}
	return ""
}

// Stored returns the message with its place in the thread.
func (m Message) Stored() event.StoredMessage {
	return event.StoredMessage{Message: m.Message, Seq: m.Record.Seq, CreatedAt: m.Record.CreatedAt, Outcome: m.Outcome()}
}

// decision is an [event.Interception] and the Seq of its record. An unreadable decision has a
// problem and counts as a failed hook.
type decision struct {
	*event.Interception
	seq     int64
	problem error
}

// Messages returns the messages that q selects, in the order of q, with the decisions of hooks on
// them, even later ones. It ignores q.Types. Hidden messages are included. It needs one more query
// than the records alone.
//
// These are the messages for people. For models, see [Message.ForModels] and [Read].
//
// A message that is unreadable, or that has an unreadable decision, is hidden and has a Problem:
// otherwise people might see what the decision hides.
func Messages(ctx context.Context, s Reader, key store.Key, q store.Query) ([]Message, error) {
	q.Types = []string{event.TypeMessage}
	records, err := s.Records(ctx, key, q)
	if err != nil {
		return nil, err
	}
	decisions, err := decisionsOn(ctx, s, key, records)
	if err != nil {
		return nil, err
	}
	out := make([]Message, len(records))
	for i, r := range records {
		out[i] = settle(r, decisions)
	}
	return out, nil
}

// EachMessage returns all messages of a thread, the oldest first, as [Messages] does. An error ends the sequence.
func EachMessage(ctx context.Context, s Reader, key store.Key) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for after := int64(0); ; {
			page, err := Messages(ctx, s, key, store.Query{After: after, Limit: pageRecords, MaxBytes: pageBytes})
			if err != nil {
				yield(Message{}, err)
				return
			}
			for _, m := range page {
				if !yield(m, nil) {
					return
				}
				after = m.Record.Seq
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

// MessageByID returns a message with the decisions of hooks on it, or [store.ErrNotFound].
func MessageByID(ctx context.Context, s Reader, key store.Key, id string) (Message, error) {
	records, err := s.RecordsByID(ctx, key, id)
	if err == nil && (len(records) == 0 || records[0].Type != event.TypeMessage) {
		err = fmt.Errorf("message %q: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return Message{}, err
	}
	found, err := decisionsOn(ctx, s, key, records)
	if err != nil {
		return Message{}, err
	}
	return settle(records[0], found), nil
}

// decisions maps the ids of records to the decisions of hooks in them.
type decisions map[string]decision

// add adds a record of type hook.
func (d decisions) add(r event.Record) {
	var made event.Interception
	err := read(r, &made)
	if err != nil {
		made = event.Interception{Outcome: event.OutcomeFailed}
	}
	d[r.ID] = decision{&made, r.Seq, err}
}

// decisionsOn returns the decisions of hooks on the messages in the records.
func decisionsOn(ctx context.Context, s Reader, key store.Key, records []event.Record) (decisions, error) {
	ids := make([]string, 0, 3*len(records))
	for _, r := range records {
		ids = append(ids, decisionIDs(r.ID)...)
	}
	out := decisions{}
	for some := range slices.Chunk(ids, store.MaxLimit) {
		found, err := s.RecordsByID(ctx, key, some...)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if r.Type != event.TypeHook {
				continue
			}
			out.add(r)
		}
	}
	return out, nil
}

// decisionIDs returns the ids of the records that decide on a message.
func decisionIDs(messageID string) []string {
	return []string{recordid.Interception(messageID), recordid.Interception(recordid.Calls(messageID)), recordid.Withdrawal(messageID)}
}

// settle returns the effective message for a stored message and the decisions.
func settle(r event.Record, found decisions) Message {
	m := Message{Record: r, stored: new(event.Message)}
	if len(found) > 0 {
		ids := decisionIDs(r.ID)
		m.decided, m.calls, m.withdrawn = found[ids[0]], found[ids[1]], found[ids[2]]
		m.Decision = m.decided.Interception
	}
	if m.Problem = read(r, m.stored); m.Problem != nil {
		m.Message, m.Hidden, m.broken = event.Message{ID: r.ID}, true, true
		return m
	}
	m.Message, m.undecided = *m.stored, r.Undecided()
	if m.Problem = cmp.Or(m.decided.problem, m.calls.problem, m.withdrawn.problem); m.Problem != nil {
		m.Decision, m.Hidden, m.Held, m.Content, m.Parts = nil, true, true, "", nil
		return m
	}
	replacement, shown := holding(m.Decision)
	switch {
	case m.Held && !shown:
		m.Hidden, m.Content = true, ""
	case replacement != nil:
		calls := m.ToolCalls
		m.Message = *replacement
		if m.ToolCalls == nil {
			// A decision on the text does not change the calls.
			m.ToolCalls = calls
		}
	}
	m.Held = m.Hidden
	return m
}

// holding returns the message that replaces the stored one, if any, and whether a held message is
// now shown. A passed message is the stored one, since the decision may contain only a part of it.
func holding(d *event.Interception) (replacement *event.Message, shown bool) {
	if d == nil || d.Message == nil {
		return nil, false
	}
	if d.Outcome == event.OutcomePassed {
		return nil, true
	}
	return d.Message, d.Outcome == event.OutcomeReplaced
}

func read(r event.Record, payload any) error {
	if err := json.Unmarshal(r.Payload, payload); err != nil {
		return fmt.Errorf("%s record %q %w: %w", r.Type, r.ID, ErrUnreadable, err)
	}
	return nil
}
