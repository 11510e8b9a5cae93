package api

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// eventsPage is how many events a page of them has at most.
const eventsPage = 1000

// Decision is what hooks did to an event.
type Decision struct {
	// Seq is its place among the thread's records: some way behind the event.
	Seq int64 `json:"seq"`

	// Detail says it for people.
	Detail string `json:"detail"`
}

type eventPage struct {
	Events []event.PagedEvent `json:"events"`
	Next   string             `json:"next"`
}

// Decisions returns what hooks have decided in a thread, in order.
func (c *Client) Decisions(ctx context.Context, threadID string) ([]Decision, error) {
	events, err := pages(ctx, c, c.threadURL(threadID, "events"), eventsPage, func(p eventPage) ([]event.PagedEvent, string) {
		return p.Events, p.Next
	})
	if err != nil {
		return nil, fmt.Errorf("reading the events of thread %q: %w", threadID, err)
	}
	var all []Decision
	for _, e := range events {
		if s := e.Status; s != nil && s.Status == event.StatusIntercepted {
			all = append(all, Decision{seqOf(e.ID), s.Detail})
		}
	}
	return all, nil
}

// seqOf is the record that an event was made of: the digits with which its id begins.
func seqOf(id string) int64 {
	digits, _, _ := strings.Cut(id, ".")
	seq, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return seq
}
