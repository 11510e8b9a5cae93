package recovery

import (
	"context"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
)

// ClientOptions makes the workers of a client keep the journal.
func (j *Journal) ClientOptions(o client.Options) client.Options {
	if j != nil {
		own := o.ConnectionOptions.DialOptions
		o.ConnectionOptions.DialOptions = append(own[:len(own):len(own)], grpc.WithChainUnaryInterceptor(j.intercept))
	}
	return o
}

// intercept keeps the journal by the requests of workers. A task ends with the first attempt at its answer, whatever comes of
// it: Temporal may have received it.
func (j *Journal) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if poll, ok := req.(*workflowservice.PollWorkflowTaskQueueRequest); ok && poll.GetTaskQueue().GetKind() == enumspb.TASK_QUEUE_KIND_STICKY {
		j.begin(task{Kind: stickyQueue, Namespace: poll.GetNamespace(), Queue: poll.GetTaskQueue().GetName()})
	}
	err := invoke(ctx, method, req, reply, conn, opts...)
	var namespace string
	switch req := req.(type) {
	case *workflowservice.PollWorkflowTaskQueueRequest:
		namespace = req.GetNamespace()
	case *workflowservice.PollActivityTaskQueueRequest:
		namespace = req.GetNamespace()
	case *workflowservice.RespondWorkflowTaskCompletedRequest:
		namespace = req.GetNamespace()
		j.end(workflowTask, req.GetTaskToken())
	case *workflowservice.RespondWorkflowTaskFailedRequest:
		j.end(workflowTask, req.GetTaskToken())
	case *workflowservice.RespondActivityTaskCompletedRequest:
		j.end(activityTask, req.GetTaskToken())
	case *workflowservice.RespondActivityTaskFailedRequest:
		j.end(activityTask, req.GetTaskToken())
	case *workflowservice.RespondActivityTaskCanceledRequest:
		j.end(activityTask, req.GetTaskToken())
	}
	if err != nil {
		return err
	}
	switch reply := reply.(type) {
	case *workflowservice.PollWorkflowTaskQueueResponse:
		j.beginWorkflowTask(namespace, reply)
	case *workflowservice.PollActivityTaskQueueResponse:
		j.beginActivity(namespace, reply)
	case *workflowservice.RespondWorkflowTaskCompletedResponse:
		j.beginWorkflowTask(namespace, reply.GetWorkflowTask())
		for _, a := range reply.GetActivityTasks() {
			j.beginActivity(namespace, a)
		}
	}
	return nil
}

func (j *Journal) beginWorkflowTask(namespace string, t *workflowservice.PollWorkflowTaskQueueResponse) {
	// An empty token is the end of a poll; a query has no workflow task.
	if len(t.GetTaskToken()) > 0 && t.GetQuery() == nil {
		j.begin(task{Kind: workflowTask, Namespace: namespace, Token: t.GetTaskToken(), Attempt: t.GetAttempt(), run: t.GetWorkflowExecution().GetRunId()})
	}
}

func (j *Journal) beginActivity(namespace string, t *workflowservice.PollActivityTaskQueueResponse) {
	if len(t.GetTaskToken()) > 0 {
		j.begin(task{Kind: activityTask, Namespace: namespace, Token: t.GetTaskToken(), Attempt: t.GetAttempt()})
	}
}
