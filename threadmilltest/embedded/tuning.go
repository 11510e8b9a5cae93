package embedded

import (
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// tuning adapts a cluster's defaults to one process with one developer.
var tuning = map[string]any{
	// By default each queue is polled 20 times a second: every workflow task after an activity, a
	// signal or a timer would wait up to 50 ms.
	"history.transferProcessorMaxPollRPS":   pollRPS,
	"history.timerProcessorMaxPollRPS":      pollRPS,
	"history.visibilityProcessorMaxPollRPS": pollRPS,
	"history.outboundProcessorMaxPollRPS":   pollRPS,

	// A closed workflow can be deleted once these queues have noted that it was closed, by default after
	// up to 30 s: an erasure would wait for it.
	"history.transferProcessorUpdateAckInterval":   ackInterval,
	"history.visibilityProcessorUpdateAckInterval": ackInterval,

	// One matching host gains nothing from partitions and pays for forwarding between them.
	"matching.numTaskqueueReadPartitions":  1,
	"matching.numTaskqueueWritePartitions": 1,

	// On the task queue of a limited model provider, tenants take turns.
	"matching.enableFairness": true,

	// A client that waits for a result is woken by a notification, which the server drops when two
	// coincide (about one turn in 300 on a busy machine). The client then waits for this interval,
	// 20 s by default.
	"history.longPollExpirationInterval": time.Second,

	// A worker that stops is told that it gets no more tasks. By default it disconnects, and a task
	// that was on its way to it is lost: a thread then stands still until the server gives the task
	// up, after 10 s or more.
	"frontend.enableCancelWorkerPollsOnShutdown": true,

	// By default, all clients of a namespace share 10 queries of visibility a second. Lists of threads, and the looks of
	// erasures at what is left, would wait for one another, and fail after a few seconds.
	"frontend.namespaceRPS.visibility": 1000,

	// The server never stops these workers, so they would outlive Stop. They only clean up after
	// large or crashed clusters; children are closed in place instead.
	"system.enableParentClosePolicyWorker": false,
	"worker.taskQueueScannerEnabled":       false,
	"worker.historyScannerEnabled":         false,

	// Search attributes that are added at run time apply immediately.
	"system.forceSearchAttributesCacheRefreshOnRead": true,

	// The server sends nothing to other machines.
	"frontend.enableServerVersionCheck": false,
}

const ackInterval = 500 * time.Millisecond

// pollRPS makes a queue's poll interval shorter than a millisecond.
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
