package store

import (
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

	// Hidden: it was held for a hook that has not let it pass. People are not shown the
	// message at all, models no more of it than its tool calls.
	Hidden bool
}

// Messages reads the records of type message that q selects, whatever q.Types says, in
// the order of q, and with them what hooks have decided on them, however much later.
// Hidden messages are among them. It costs one query more than the records alone.
//
// A payload that cannot be read is [ErrUnreadable], that of a decision as well:
// what it keeps from people would be shown otherwise.
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
		out[i] = Message{Record: r, Decision: decisions[event.InterceptionID(r.ID)]}
		if err := out[i].settle(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decisionsOn returns what hooks have decided on the records, by the decisions' ids.
func decisionsOn(ctx context.Context, s Reader, key Key, records []event.Record) (map[string]*event.Interception, error) {
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = event.InterceptionID(r.ID)
	}
	out := map[string]*event.Interception{}
	for some := range slices.Chunk(ids, MaxLimit) {
		found, err := s.RecordsByID(ctx, key, some...)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if r.Type != event.TypeHook {
				continue
			}
			var decision event.Interception
			if err := read(r, &decision); err != nil {
				return nil, err
			}
			out[r.ID] = &decision
		}
	}
	return out, nil
}

// settle makes the message that holds of the stored one and the decision.
func (m *Message) settle() error {
	if err := read(m.Record, &m.Message); err != nil {
		return err
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
	return nil
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
