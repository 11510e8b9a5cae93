package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Review is the name of the workflow, Ruled that of the signal with a person's decision, and Case
// that of the query for its input.
const (
	Review = "review"
	Ruled  = "ruled"
	Case   = "case"
)

// Request is the input of a hook workflow.
type Request struct {
	Hook          string `json:"hook"`
	Namespace     string `json:"namespace"`
	ThreadID      string `json:"threadId"`
	EventID       string `json:"eventId"`
	TraceID       string `json:"traceId"`
	ParentEventID string `json:"parentEventId"`
	Agent         string `json:"agent"`
	Attempt       int    `json:"attempt"`
	Event         Event  `json:"event"`
}

// Event is a message, a tool_call, or an event of another type.
type Event struct {
	Type      string          `json:"type"`
	CreatedBy string          `json:"createdBy,omitempty"`
	ThreadID  string          `json:"threadId"`
	Message   *Message        `json:"message,omitempty"`
	AgentName string          `json:"agentName,omitempty"`
	ToolCalls []ToolCall      `json:"toolCalls,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"`
}

// Message is a message of the thread.
type Message struct {
	ThreadID   string         `json:"threadId"`
	SenderID   string         `json:"senderId"`
	SenderType string         `json:"senderType"`
	Content    string         `json:"content"`
	ToolCalls  []ToolCall     `json:"toolCalls,omitempty"`
	Metadata   map[string]any `json:"metadata,omitempty"`
}

// ToolCall is a tool call of an agent.
type ToolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Verdict is the result of a hook workflow.
type Verdict struct {
	Event     *Event     `json:"event,omitempty"`
	Responses []Response `json:"responses,omitempty"`
}

// Response is a message that replaces the default processing.
type Response struct {
	Content      string         `json:"content"`
	SenderID     string         `json:"senderId,omitempty"`
	SenderType   string         `json:"senderType,omitempty"`
	EnqueueAfter string         `json:"enqueueAfter,omitempty"`
	Metadata     map[string]any `json:"metadata,omitempty"`
}

// Ruling is a person's decision: another text, a response, or a failure of the workflow. The zero
// value lets the event pass.
type Ruling struct {
	Content string     `json:"content,omitempty"`
	Respond []Response `json:"respond,omitempty"`
	Fail    string     `json:"fail,omitempty"`

	// Raw is returned unchanged.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// review waits for a ruling, however long that takes.
func review(ctx workflow.Context, in Request) (any, error) {
	if err := workflow.SetQueryHandler(ctx, Case, func() (Request, error) { return in, nil }); err != nil {
		return nil, err
	}
	var r Ruling
	rulings := workflow.GetSignalChannel(ctx, Ruled)
	if err := workflow.Await(ctx, func() bool { return rulings.Len() > 0 }); err != nil {
		return nil, err
	}
	rulings.ReceiveAsync(&r)
	switch {
	case r.Fail != "":
		return nil, temporal.NewApplicationError(r.Fail, "refused")
	case len(r.Raw) > 0:
		return r.Raw, nil
	case len(r.Respond) > 0:
		return Verdict{Responses: r.Respond}, nil
	case r.Content != "" && in.Event.Message != nil:
		changed := in.Event
		message := *in.Event.Message
		message.Content = r.Content
		changed.Message = &message
		return Verdict{Event: &changed}, nil
	}
	return nil, nil
}

// Work runs a worker for the workflow on a task queue, until stop is called.
func Work(c client.Client, taskQueue string) (stop func(), err error) {
	w := worker.New(c, taskQueue, worker.Options{WorkerStopTimeout: time.Second})
	w.RegisterWorkflowWithOptions(review, workflow.RegisterOptions{Name: Review})
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("starting the worker of the hook workflow: %w", err)
	}
	return w.Stop, nil
}

// WorkflowID is the id of an event's hook workflow.
func WorkflowID(namespace, thread, event, hook string) string {
	return "hook/" + namespace + "/" + thread + "/" + event + "/" + hook
}

// Rule sends a person's decision to a workflow.
func Rule(ctx context.Context, c client.Client, workflowID string, r Ruling) error {
	return c.SignalWorkflow(ctx, workflowID, "", Ruled, r)
}
