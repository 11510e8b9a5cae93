package embedded

import (
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// tuning is what one process with one developer wants different from a cluster's defaults.
var tuning = map[string]any{
	// By default each queue is polled 20 times a second: every workflow task that follows an activity,
	// a signal or a timer would wait for its 50 ms slot.
	"history.transferProcessorMaxPollRPS":   pollRPS,
	"history.timerProcessorMaxPollRPS":      pollRPS,
	"history.visibilityProcessorMaxPollRPS": pollRPS,
	"history.outboundProcessorMaxPollRPS":   pollRPS,

	// One matching host gains nothing from partitions and pays for forwarding between them.
	"matching.numTaskqueueReadPartitions":  1,
	"matching.numTaskqueueWritePartitions": 1,

	// A client that waits for a result is told by a notification, which the server drops when two come at
	// once (about one turn in 300 on a busy machine). It then waits for this interval, 20 s by default.
	"history.longPollExpirationInterval": time.Second,

	// A worker that stops hears that it gets no more tasks. By default it hangs up, and a task that was on its
	// way to it is lost: a thread then stands still until the server gives the task up, after 10 s or more.
	"frontend.enableCancelWorkerPollsOnShutdown": true,

	// The server never stops the workers of these, so they would outlive Stop. They only tidy up what a
	// large or a crashed cluster leaves; closing children is done in place instead.
	"system.enableParentClosePolicyWorker": false,
	"worker.taskQueueScannerEnabled":       false,
	"worker.historyScannerEnabled":         false,

	// Search attributes added while running are there at once.
	"system.forceSearchAttributesCacheRefreshOnRead": true,

	// Nothing leaves the machine.
	"frontend.enableServerVersionCheck": false,
}

// pollRPS keeps a queue's slot under a millisecond.
const pollRPS = 2000

func dynamicConfig(overrides map[string]any) dynamicconfig.StaticClient {
	values := make(dynamicconfig.StaticClient, len(tuning)+len(overrides))
	for key, value := range tuning {
		values[dynamicconfig.MakeKey(key)] = value
	}
	for key, value := range overrides {
		values[dynamicconfig.MakeKey(key)] = value
	}
	return values
}
