// Command plain-temporal drives a thread with a Temporal client and JSON. It imports nothing of
// Threadmill: any language with a Temporal SDK can do the same.
//
// It needs a running Threadmill, such as the devserver.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
)

type object = map[string]any

func main() {
	taskQueue := flag.String("task-queue", "threadmill", "task queue of the threads")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *taskQueue); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, taskQueue string) error {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return err
	}
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	defer temporal.Close()

	// A thread is the workflow thread/<namespace>/<thread id>. This opens it, and posts.
	threadID := fmt.Sprintf("plain-%d", time.Now().UnixNano())
	workflowID := "thread/default/" + threadID
	post := object{"id": "e1", "type": "message", "payload": object{
		"threadId": threadID, "senderId": "ann", "senderType": "user",
		"content": `use shell_cmd {"command": "echo hello"}`,
	}}
	_, err = temporal.SignalWithStartWorkflow(ctx, workflowID, "post", post,
		client.StartWorkflowOptions{TaskQueue: taskQueue}, "thread", object{})
	if err != nil {
		return err
	}

	// The command waits for a person.
	call, err := waiting(ctx, temporal, workflowID)
	if err != nil {
		return err
	}
	fmt.Println("waits:", call["toolName"], call["arguments"])
	var decided object
	if err := update(ctx, temporal, workflowID, "decide", object{
		"toolCallId": call["toolCallId"], "decision": "approve", "by": "ann",
	}, &decided); err != nil {
		return err
	}
	fmt.Println("decided:", decided["result"])

	// The same event id again posts nothing, and returns when its turn has ended.
	var turn struct {
		Status  string
		Message struct{ Content string }
	}
	if err := update(ctx, temporal, workflowID, "turn", post, &turn); err != nil {
		return err
	}
	fmt.Println("turn:", turn.Status)
	fmt.Println("reply:", turn.Message.Content)

	if err := temporal.SignalWorkflow(ctx, workflowID, "", "control", object{"action": "close", "by": "ann"}); err != nil {
		return err
	}
	return temporal.GetWorkflow(ctx, workflowID, "").Get(ctx, nil)
}

// waiting polls until a tool call waits for approval.
func waiting(ctx context.Context, temporal client.Client, workflowID string) (object, error) {
	for {
		answer, err := temporal.QueryWorkflow(ctx, workflowID, "", "approvals")
		if err != nil {
			return nil, err
		}
		var list struct{ Approvals []object }
		if err := answer.Get(&list); err != nil {
			return nil, err
		}
		if len(list.Approvals) > 0 {
			return list.Approvals[0], nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func update(ctx context.Context, temporal client.Client, workflowID, name string, in, out any) error {
	handle, err := temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflowID, UpdateName: name, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, out)
}
