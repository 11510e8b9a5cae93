package chatfeed

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Answer is the assistant message that a stream shows.
type Answer struct {
	// MessageID is the posted message that it answers, EventID the event of the turn: "" until the
	// thread has it.
	MessageID string `json:"m"`
	EventID   string `json:"e,omitempty"`

	// From is where the events of the turn begin. Those up to After are known to the client.
	From  feed.Cursor `json:"f,omitzero"`
	After feed.Cursor `json:"a,omitzero"`

	// Settled are the calls that the client has settled with its request, Before is the record
	// before that. The turn does not wait while their decisions and results are still to come.
	Settled []string `json:"s,omitempty"`
	Before  int64    `json:"b,omitempty"`

	// Skip is the number of chunks that the client has of an indexed stream.
	Skip int `json:"-"`
}

// Record returns a record, or nil.
func (f *Feed) Record(ctx context.Context, threadID, id string) (*event.Record, error) {
	records, err := f.Store.RecordsByID(ctx, f.key(threadID), id)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return &records[0], nil
}

// InProgress returns the last assistant message of the turn in progress, or nil without a turn.
func (f *Feed) InProgress(ctx context.Context, id string) (*Answer, error) {
	stored, err := f.Store.Thread(ctx, f.key(id)) // first: what is stored after its head is still to come
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	state, err := f.Threads.State(ctx, id)
	switch {
	case errors.Is(err, signals.ErrThreadNotFound):
		return nil, nil // a new chat
	case err != nil || state.Turn == nil:
		return nil, err
	}
	root := state.Turn.RecordsOf()
	record, err := f.Record(ctx, id, root)
	if err != nil {
		return nil, err
	}
	if record == nil { // it has just begun: all that will be stored of it follows
		return &Answer{MessageID: root, EventID: root, From: feed.Cursor{Seq: stored.Head}}, nil
	}
	at, err := f.LastIn(ctx, id, record)
	return &at, err
}

// Last returns the last answer of the last turn that has ended, or nil if no turn has ended or there is a later message.
func (f *Feed) Last(ctx context.Context, id string) (*Answer, error) {
	newest := map[string]string{}
	for _, typ := range []string{event.TypeTurnEnded, event.TypeMessage} {
		records, err := f.Store.Records(ctx, f.key(id), store.Query{Types: []string{typ}, Newest: true, Limit: 1})
		if err != nil || len(records) == 0 {
			return nil, err
		}
		newest[typ] = records[0].EventID
	}
	if newest[event.TypeTurnEnded] != newest[event.TypeMessage] {
		return nil, nil
	}
	record, err := f.Record(ctx, id, newest[event.TypeMessage])
	if err != nil || record == nil {
		return nil, err
	}
	at, err := f.LastIn(ctx, id, record)
	return &at, err
}

// LastIn returns the last answer of the turn that began with a record.
func (f *Feed) LastIn(ctx context.Context, id string, record *event.Record) (Answer, error) {
	// A turn that others joined goes on in the answer to the last of them.
	at := Answer{MessageID: record.ID, EventID: record.EventID, From: feed.Cursor{Seq: record.Seq - 1}}
	records, err := f.Store.Records(ctx, f.key(id), store.Query{After: record.Seq, Types: []string{event.TypeMessage}})
	if err != nil {
		return at, err
	}
	for _, r := range records {
		var m event.Message
		if r.EventID == record.EventID && json.Unmarshal(r.Payload, &m) == nil && chat.Said(r.EventID, &m) {
			at.MessageID = m.ID
		}
	}
	return at, nil
}

// To returns the answer to the message of a record.
func (f *Feed) To(ctx context.Context, id string, record *event.Record) (Answer, error) {
	at := Answer{MessageID: record.ID, EventID: record.EventID, From: feed.Cursor{Seq: record.Seq - 1}}
	if record.EventID == record.ID {
		return at, nil
	}
	first, err := f.Record(ctx, id, record.EventID) // the message has joined a turn
	if first != nil {
		at.From = feed.Cursor{Seq: first.Seq - 1}
	}
	return at, err
}

// TurnOf returns the first record of the turn of a call that waits or waited for a person or the client, by the call's id or that of its
// request, or nil.
func (f *Feed) TurnOf(ctx context.Context, threadID, callID string) (*event.Record, error) {
	records, err := f.Store.Records(ctx, f.key(threadID), store.Query{Types: []string{event.TypeApprovalRequest, event.TypeClientCall, event.TypeInputRequest}, Newest: true, Limit: 1000})
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		var p event.ApprovalRequest // the others have the call's id in the same field
		if json.Unmarshal(r.Payload, &p) == nil && (p.ToolCallID == callID || r.ID == callID || chat.ApprovalID(&p) == callID) {
			if turn, err := f.Record(ctx, threadID, r.EventID); turn != nil || err != nil {
				return turn, err
			}
		}
	}
	return nil, nil
}

// Between returns what is stored from the turn of a message on, until another message, which may have no record yet. It is not more than
// maxMissed records.
func (f *Feed) Between(ctx context.Context, threadID string, first *event.Record, until string) (*chat.Chat, error) {
	from, err := f.To(ctx, threadID, first)
	if err != nil {
		return nil, err
	}
	var end feed.Cursor
	if now, err := f.Record(ctx, threadID, until); err != nil {
		return nil, err
	} else if now != nil {
		end.Seq = now.Seq
	}
	page, err := f.Events.Before(ctx, f.key(threadID), end, maxMissed)
	if err != nil {
		return nil, err
	}
	read := &chat.Chat{}
	for _, item := range page.Items {
		if item.Cursor.Seq > from.From.Seq {
			read.Apply(item.Event)
		}
	}
	return read, nil
}

// maxMissed is how many records a client that posts may have missed.
const maxMissed = 1000
