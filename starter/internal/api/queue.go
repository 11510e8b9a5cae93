package api

import (
	"context"
	"fmt"

	"github.com/threadmill/threadmill/event"
)

// Ended returns the last events of a thread's queue that have ended, with their payloads.
func (c *Client) Ended(ctx context.Context, threadID string) ([]event.Item, error) {
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	queue, err := readPage[struct {
		Ended []event.Item `json:"ended"`
	}](ctx, c, threadID, "queue", nil)
	if err != nil {
		return nil, fmt.Errorf("reading the queue of thread %q: %w", threadID, err)
	}
	return queue.Ended, nil
}
