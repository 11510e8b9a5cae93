package projection

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Store reads the past of a thread for projectors.
type Store interface {
	RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error)
}

// Past is a projector's knowledge of its thread's past. Embed it.
type Past struct {
	Store Store
	Key   store.Key

	// Call is the model call of the following reply: see [Past.NoteCall].
	Call event.LLMCall
}

// NoteCall remembers the record of a model call.
func (p *Past) NoteCall(r *event.Record) {
	p.Call = event.LLMCall{}
	_ = json.Unmarshal(r.Payload, &p.Call) // an unreadable call leaves it empty
}

// Attempt returns the attempt that produced a message: 1 if the model call is unknown.
func (p *Past) Attempt(messageID string) (attempt int, known bool) {
	if p.Call.MessageID == messageID && p.Call.Attempt > 0 {
		return p.Call.Attempt, true
	}
	return 1, false
}

// Original returns a message as it was stored, before hooks changed it.
func (p *Past) Original(ctx context.Context, id string) (msg event.Message, found bool, err error) {
	records, err := p.Records(ctx, id)
	if err != nil {
		return msg, false, err
	}
	for _, r := range records {
		if r.Type == event.TypeMessage && json.Unmarshal(r.Payload, &msg) == nil {
			return msg, true, nil
		}
	}
	return msg, false, nil
}

// Records reads records by their ids.
func (p *Past) Records(ctx context.Context, ids ...string) ([]event.Record, error) {
	records, err := p.Store.RecordsByID(ctx, p.Key, ids...)
	if err != nil {
		return nil, fmt.Errorf("reading record %s of %s: %w", ids[0], p.Key, err)
	}
	return records, nil
}

// Interruption describes who interrupted a turn, and why.
func Interruption(s event.StatusChange) string {
	text := "interrupted"
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Detail != "" {
		text += ": " + s.Detail
	}
	return text
}
