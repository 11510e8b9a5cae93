package api

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// eventsPage is the maximum number of events in a page.
const eventsPage = 1000

// Decision is a decision of hooks on an event.
type Decision struct {
	// Seq is the position among the thread's records, after the event.
	Seq int64 `json:"seq"`

	// Detail describes it for people.
	Detail string `json:"detail"`
}

type eventPage struct {
	Events []event.PagedEvent `json:"events"`
	Next   string             `json:"next"`
}

// Decisions returns the decisions of hooks in a thread, in order.
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

// seqOf returns the record of an event: the digits at the beginning of its id.
func seqOf(id string) int64 {
	digits, _, _ := strings.Cut(id, ".")
	seq, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return seq
}
