package api

import (
	"context"
	"strconv"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// eventsPage is the maximum number of events in a page.
const eventsPage = 1000

// Decision is a decision on an event: of hooks, or that no agent answers it.
type Decision struct {
	// Seq is the position among the thread's records, after the event.
	Seq int64 `json:"seq"`

	// Status is intercepted or unanswered.
	Status string `json:"status"`

	// Detail describes it for people.
	Detail string `json:"detail"`
}

// Decisions returns the decisions in a thread, in order.
func (c *Client) Decisions(ctx context.Context, threadID string) ([]Decision, error) {
	events, err := pages[event.PagedEvent](ctx, c, threadID, "events", eventsPage)
	if err != nil {
		return nil, err
	}
	var all []Decision
	for _, e := range events {
		if s := e.Status; s != nil && (s.Status == event.StatusIntercepted || s.Status == event.StatusUnanswered) {
			digits, _, _ := strings.Cut(e.ID, ".")
			seq, _ := strconv.ParseInt(digits, 10, 64) // of the event's record
			all = append(all, Decision{seq, s.Status, s.Detail})
		}
	}
	return all, nil
}
