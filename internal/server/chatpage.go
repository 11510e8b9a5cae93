package server

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/store"
)

// ChatPageQuery are the parameters of pages of messages. It is exported for huma, which reads embedded structs only then.
type ChatPageQuery struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The most messages of people and answers. A page has fewer if they are large, and one more if the oldest is an answer: then it has the message that it answers too"`
	Cursor string `query:"cursor" doc:"The previous of the page that follows. Default: the newest messages"`
}

// maxChatPage is the maximum of [ChatPageQuery].Limit.
const maxChatPage = 200

// chatPage has whole messages, the oldest first.
type chatPage struct {
	chat.Chat

	// end is the last record that the messages take into account.
	end feed.Cursor

	// previous is the cursor of the previous page; "" at the thread's beginning.
	previous string
}

// chatTurn is an event with all its records. Those of other events may lie between them: a failed event can be retried later.
type chatTurn struct {
	opened map[int64][]*chat.Message // by record, the newest first. The event's other records open none
}

const (
	// walkRecords and walkBytes bound one step of the search for the messages of a page.
	walkRecords = 100
	walkBytes   = 256 << 10
)

// page returns the newest messages before a cursor. A message belongs to the page of the record that opened it, and has what
// all later records say about it.
func (h *chatHandlers) page(ctx context.Context, id string, in ChatPageQuery) (*chatPage, error) {
	var before feed.Cursor
	if in.Cursor != "" {
		var err error
		if before, err = feed.ParseCursor(in.Cursor); err != nil || before.Seq < 1 {
			return nil, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
		}
	}
	out := &chatPage{}
	thread, err := h.store.Thread(ctx, h.key(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return out, nil // its first message waits for a worker
	case err != nil:
		return nil, err
	}
	out.end = feed.Cursor{Seq: thread.Head}
	at := thread.Head + 1
	if in.Cursor != "" {
		at = min(at, before.Seq)
	}
	turns, size := map[string]*chatTurn{}, 0
	for {
		q := store.Query{Before: at, Newest: true, Limit: walkRecords, MaxBytes: walkBytes}
		records, err := h.store.Records(ctx, h.key(id), q)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r.Seq >= at {
				continue // its turn has been read
			}
			at = r.Seq
			if r.EventID == "" {
				continue
			}
			t := turns[r.EventID]
			if t == nil {
				var read int
				if t, read, err = h.chatTurn(ctx, id, r.EventID, thread.Head+1); err != nil {
					return nil, err
				}
				turns[r.EventID] = t
				size += read
			}
			for ; t.has(at); at-- {
				if out.Messages = append(out.Messages, t.opened[at]...); len(t.opened[at]) > 0 && (len(out.Messages) >= in.Limit || size >= feed.PageBytes) {
					return out.from(at), nil
				}
			}
			at++ // the last record that the turn has
		}
		if q.Complete(records) {
			return out.from(0), nil
		}
	}
}

// from completes a page whose messages were found from the newest to that of a record.
func (p *chatPage) from(at int64) *chatPage {
	slices.Reverse(p.Messages)
	if at > 1 {
		p.previous = feed.Cursor{Seq: at}.String()
	}
	return p
}

// chatTurn reads an event with all its records before one, and their size.
func (h *chatHandlers) chatTurn(ctx context.Context, id, eventID string, before int64) (*chatTurn, int, error) {
	items, size, err := h.feed.Turn(ctx, h.key(id), eventID, before)
	if err != nil {
		return nil, 0, err
	}
	t := &chatTurn{opened: map[int64][]*chat.Message{}}
	var read chat.Chat
	var opened []int64 // for each message, the record
	for _, item := range items {
		read.Apply(item.Event)
		for len(opened) < len(read.Messages) {
			opened = append(opened, item.Cursor.Seq)
		}
		t.opened[item.Cursor.Seq] = nil
	}
	for i, m := range slices.Backward(read.Messages) {
		if !m.Answer || len(m.Parts) > 0 { // viewers do not see empty answers
			t.opened[opened[i]] = append(t.opened[opened[i]], m)
		}
	}
	return t, size, nil
}

// has reports whether a record is one of the event.
func (t *chatTurn) has(seq int64) bool {
	_, has := t.opened[seq]
	return has
}
