package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
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

// Decisions returns what hooks have decided in a thread, in order.
func (c *Client) Decisions(ctx context.Context, threadID string) ([]Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	var all []Decision
	query := url.Values{"limit": {strconv.Itoa(eventsPage)}}
	for {
		page, err := readPage[eventPage](ctx, c, threadID, "events", query)
		if err != nil {
			return nil, fmt.Errorf("reading the events of thread %q: %w", threadID, err)
		}
		for _, e := range page.Events {
			if s := e.Status; s != nil && s.Status == event.StatusIntercepted {
				all = append(all, Decision{e.seq(), s.Detail})
			}
		}
		if page.Next == "" || page.Next == query.Get("cursor") {
			return all, nil
		}
		query.Set("cursor", page.Next)
	}
}

type eventPage struct {
	Events []pagedEvent `json:"events"`
	Next   string       `json:"next"`
}

// pagedEvent is an agent event with its id.
type pagedEvent struct {
	event.AgentEvent
	id string
}

// UnmarshalJSON reads the id, which an agent event has not, beside its fields.
func (e *pagedEvent) UnmarshalJSON(data []byte) error {
	var head struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	e.id = head.ID
	return json.Unmarshal(data, &e.AgentEvent)
}

// seq is the record that the event was made of: the digits with which its id begins.
func (e *pagedEvent) seq() int64 {
	digits, _, _ := strings.Cut(e.id, ".")
	seq, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return seq
}
