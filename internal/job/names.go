package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Names of the runs of schedules.
const (
	// DeliverWorkflow is one run of a schedule: it posts to the schedule's thread. Its input is the
	// [signals.Schedule], and its id a [DeliverWorkflowID] followed by the time of the run, which Temporal
	// appends.
	DeliverWorkflow = "deliver"
	ActivityDeliver = "deliver"
)

// FairnessKey returns the fairness key of what belongs to a namespace: the threads of namespaces take turns on a task queue.
func FairnessKey(namespace string) string {
	const limit = 64 // bytes, the server's limit
	if len(namespace) <= limit {
		return namespace
	}
	sum := sha256.Sum256([]byte(namespace))
	return hex.EncodeToString(sum[:])
}

// QueueOwnerWorkflowID returns the id of the workflow whose memo tells which program serves a task queue of threads. No worker runs it.
func QueueOwnerWorkflowID(taskQueue string) string { return "queue/" + taskQueue }

// DeliverWorkflowID returns the workflow id of a schedule's runs. Temporal appends "-" and the
// time.
func DeliverWorkflowID(namespace, id string) string { return "deliver/" + namespace + "/" + id }

// LocalName returns the type under which an activity runs as a local activity: Temporal's Web UI shows nothing else of it. It is not for
// clients.
func LocalName(activity, shown string) string { return activity + betweenNames + shown }

// ActivityOf returns the type of an activity by its [LocalName].
func ActivityOf(name string) string {
	activity, _, _ := strings.Cut(name, betweenNames)
	return activity
}

// betweenNames separates the type of an activity from what its name says beyond it.
const betweenNames = " · "
