package threadclient

import (
	"context"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// How long an update is sent again: at most 9 times, over about 5 s.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	maxSends   = 10
)

// retryUpdate sends an update, and sends it again while the server answers that the thread was
// not ready: the workflow task that had taken the update was refused as a whole, as when
// a signal arrives just when a thread continues as new. Whatever the thread did with such
// an update is undone, so that nothing happens twice; Temporal leaves it to the client to
// send it again.
func retryUpdate(ctx context.Context, send func() (client.WorkflowUpdateHandle, error)) (client.WorkflowUpdateHandle, error) {
	pause := firstPause
	for sends := 1; ; sends++ {
		h, err := send()
		if !is[*serviceerror.WorkflowNotReady](err) || sends == maxSends {
			return h, err
		}
		select {
		case <-ctx.Done():
			return h, err
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		}
	}
}
