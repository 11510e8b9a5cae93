package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Ended returns the last ended events of a thread's queue, with their payloads.
func (c *Client) Ended(ctx context.Context, threadID string) ([]event.Item, error) {
	var queue signals.Queue
	if err := c.exchange(ctx, http.MethodGet, c.threadURL(threadID, "queue"), nil, nil, &queue); err != nil {
		return nil, fmt.Errorf("reading the queue of thread %q: %w", threadID, err)
	}
	return queue.Ended, nil
}
