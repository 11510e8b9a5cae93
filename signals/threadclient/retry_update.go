package threadclient

import (
	"context"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// Limits of the attempts to send an update: at most 9 retries, over about 5 s.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	maxSends   = 10
)

// retryUpdate sends an update, and retries while the server answers that the workflow was not
// ready: the server rejected the workflow task with the update, for example because a signal
// arrived just when the thread continued as new. The effects of that task are discarded, so nothing
// happens twice; Temporal leaves the retry to the client.
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
