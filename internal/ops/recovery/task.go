package recovery

import (
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/threadmill/threadmill/internal/step"
)

// Kinds of tasks.
const (
	workflowTask = "workflow"
	activityTask = "activity"

	// stickyQueue is no task: it is the task queue of the threads in a worker's cache.
	stickyQueue = "sticky"
)

// task is what a process has to give back.
type task struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"` // of Temporal
	Token     []byte `json:"token,omitempty"`
	Attempt   int32  `json:"attempt,omitempty"`
	Queue     string `json:"queue,omitempty"`

	// run is the run of a workflow task. A run has one workflow task at a time.
	run string
}

func (t task) key() string { return t.Kind + string(t.Token) + t.Queue }

const (
	// identity is the identity under which tasks are failed.
	identity = "threadmill-recovery"

	lostMessage = "The worker was lost while the step ran."

	// atOnce is a retry delay: Temporal's smallest, as none would mean that of the retry policy.
	atOnce = time.Millisecond
)

// release returns the request that frees a task of a dead worker, or nil if the task must wait for its timeout: what
// is lost again and again may be what kills the workers. For the same reason, only the first retry of an activity comes at
// once, and later ones by the retry policy.
func (t task) release() any {
	switch t.Kind {
	case stickyQueue:
		return &workflowservice.ShutdownWorkerRequest{Namespace: t.Namespace, StickyTaskQueue: t.Queue, Identity: identity, Reason: "the worker was lost"}
	case workflowTask:
		if t.Attempt > 1 {
			return nil
		}
		return &workflowservice.RespondWorkflowTaskFailedRequest{
			Namespace: t.Namespace, TaskToken: t.Token, Identity: identity,
			Cause:   enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE,
			Failure: lost(nil),
		}
	case activityTask:
		var delay *durationpb.Duration
		if t.Attempt <= 1 {
			delay = durationpb.New(atOnce)
		}
		return &workflowservice.RespondActivityTaskFailedRequest{Namespace: t.Namespace, TaskToken: t.Token, Identity: identity, Failure: lost(delay)}
	}
	return nil
}

func lost(delay *durationpb.Duration) *failurepb.Failure {
	return &failurepb.Failure{
		Message: lostMessage, Source: identity,
		FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
			Type: step.ErrTypeLost, NextRetryDelay: delay,
		}},
	}
}
