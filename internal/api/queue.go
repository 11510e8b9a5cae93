package api

import (
	"context"
	"net/http"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Ended returns the last ended events of a thread's queue, with their payloads.
func (c *Client) Ended(ctx context.Context, threadID string) ([]event.Item, error) {
	queue, err := call[signals.Queue](ctx, c, http.MethodGet, c.url(nil, "threads", threadID, "queue"), nil, "reading the queue of thread %q", threadID)
	return queue.Ended, err
}
