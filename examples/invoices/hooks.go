package main

import (
	"context"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// once refuses to pay an invoice twice. The agent is told why, and nobody is asked.
func (l *ledger) once() hook.Hook {
	h := hook.OnToolCall("once", func(_ context.Context, e event.ToolCallEvent) (hook.Result, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, call := range e.ToolCalls {
			if in, ok := payment(call); ok && l.paid[in.Number] != (invoice{}) {
				e.Refuse(call.ID, in.Number+" is paid.")
			}
		}
		return hook.Replace(e), nil
	})
	h.Filter.Tools = []string{"pay"}
	return h
}

// payment returns the input of a call of pay.
func payment(call event.ToolCall) (in invoice, ok bool) {
	ok = call.Function.Name == "pay" && json.Unmarshal([]byte(call.Function.Arguments), &in) == nil
	return in, ok
}

// suppliers are those that were paid before.
var suppliers = map[string]bool{"Paper Ltd": true, "Power Ltd": true}

// verify names the workflow Verify, which decides on payments.
func verify() hook.Hook {
	h := hook.InWorkflow("verify", hook.Workflow{Type: "Verify"})
	h.Filter = hook.Filter{Types: []string{event.TypeToolCall}, Tools: []string{"pay"}}
	return h
}

// Verify holds payments to new suppliers until somebody has called them, which is signal "called", or refuses them after three days.
func Verify(ctx workflow.Context, request hook.Request) (hook.Verdict, error) {
	var e event.ToolCallEvent
	if err := json.Unmarshal(request.Event, &e); err != nil {
		return hook.Verdict{}, err
	}
	var unknown []event.ToolCall
	for _, call := range e.ToolCalls {
		if in, ok := payment(call); ok && !suppliers[in.Supplier] {
			unknown = append(unknown, call)
		}
	}
	if len(unknown) == 0 {
		return hook.Verdict{}, nil // it passes
	}
	called, _ := workflow.GetSignalChannel(ctx, "called").ReceiveWithTimeout(ctx, 72*time.Hour, nil)
	if called || ctx.Err() != nil {
		return hook.Verdict{}, ctx.Err()
	}
	for _, call := range unknown {
		e.Refuse(call.ID, "Nobody has called the supplier within three days.")
	}
	raw, err := json.Marshal(e)
	return hook.Verdict{Event: raw}, err
}
