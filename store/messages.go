package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/event"
)

// ErrUnreadable marks a record whose payload is not what its type says: reading it
// again cannot help.
var ErrUnreadable = errors.New("is not readable")

// Reader is the part of a [Store] that [Messages] needs.
type Reader interface {
	Records(ctx context.Context, key Key, q Query) ([]event.Record, error)
	RecordsByID(ctx context.Context, key Key, ids ...string) ([]event.Record, error)
}

// Message is a message as hooks have left it.
type Message struct {
	// Message is what holds: the stored one, or what a hook put in its place. The
	// content of one that is hidden is left out.
	event.Message

	// Record is the message's record as stored.
	Record event.Record

	// Decision is what the hooks made of it, nil if they saw nothing or have not
	// decided.
	Decision *event.Interception

	// Hidden: it was held for a hook that has not let it pass, or there is a Problem. People
	// are not shown the message at all, models no more of it than its tool calls.
	Hidden bool

	// Problem is [ErrUnreadable]: the record, or a decision on it, cannot be read.
	Problem error

	// stored is the message of the record, undecided what hooks had still to decide on then;
	// decided and calls are the decisions on what it
	// says and on its tool calls, and withdrawn the change of status that took it back.
	stored                    event.Message
	undecided                 []string
	decided, calls, withdrawn decision

	// broken says that the record itself cannot be read.
	broken bool
}

// decision is an [event.Interception] and the Seq of its record. One that cannot be read has
// a problem, and counts as the failure of a hook.
type decision struct {
	*event.Interception
	seq     int64
	problem error
}

// Messages reads the records of type message that q selects, whatever q.Types says, in
// the order of q, and with them what hooks have decided on them, however much later.
// Hidden messages are among them. It costs one query more than the records alone.
//
// This is what people see. Models are shown [Message.ForModels], see also [Transcript].
//
// A message whose payload cannot be read is hidden and has a Problem, and so has one with
// such a decision: what it keeps from people would be shown otherwise.
func Messages(ctx context.Context, s Reader, key Key, q Query) ([]Message, error) {
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

// decisions are the decisions of hooks by the ids of their records.
type decisions map[string]decision

// add takes in a record of type hook.
func (d decisions) add(r event.Record) {
	var made event.Interception
	err := read(r, &made)
	if err != nil {
		made = event.Interception{Outcome: event.HookFailed}
	}
	d[r.ID] = decision{&made, r.Seq, err}
}

// decisionsOn returns what hooks have decided on the messages in the records.
func decisionsOn(ctx context.Context, s Reader, key Key, records []event.Record) (decisions, error) {
	ids := make([]string, 0, 3*len(records))
	for _, r := range records {
		ids = append(ids, decisionIDs(r.ID)...)
	}
	out := decisions{}
	for some := range slices.Chunk(ids, MaxLimit) {
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

// decisionIDs are the ids of the records that decide on a message.
func decisionIDs(messageID string) []string {
	return []string{event.InterceptionID(messageID), event.InterceptionID(event.CallsID(messageID)), event.WithdrawalID(messageID)}
}

// settle makes the message that holds of the stored one and the decisions.
func settle(r event.Record, found decisions) Message {
	ids := decisionIDs(r.ID)
	m := Message{Record: r, decided: found[ids[0]], calls: found[ids[1]], withdrawn: found[ids[2]]}
	m.Decision = m.decided.Interception
	if m.Problem = read(r, &m.stored); m.Problem != nil {
		m.Message, m.Hidden, m.broken = event.Message{ID: r.ID}, true, true
		return m
	}
	m.Message, m.undecided = m.stored, r.Undecided()
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
			// A decision on what is said leaves the calls as they are.
			m.ToolCalls = calls
		}
	}
	m.Held = m.Hidden
	return m
}

// holding returns the message that a decision puts in place of the stored one, if any,
// and whether one that was held is shown now. What was let out is the stored one: the
// decision has a copy of it, which may be cut.
func holding(d *event.Interception) (replacement *event.Message, shown bool) {
	if d == nil || d.Message == nil {
		return nil, false
	}
	if d.Outcome == event.Passed {
		return nil, true
	}
	return d.Message, d.Outcome == event.Replaced
}

func read(r event.Record, payload any) error {
	if err := json.Unmarshal(r.Payload, payload); err != nil {
		return fmt.Errorf("%s record %q %w: %w", r.Type, r.ID, ErrUnreadable, err)
	}
	return nil
}
