package main

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// patience is the time that a message waits for a person.
const patience = 24 * time.Hour

// Ruling is a person's decision: the payload of signal "rule".
type Ruling struct {
	Release bool   `json:"release"`
	By      string `json:"by"`
}

// Review is a hook workflow. It holds a message back until a person has decided or a day has
// passed. Workers may restart meanwhile: Temporal keeps the timer.
func Review(ctx workflow.Context, _ hook.Request) (hook.Verdict, error) {
	var ruling Ruling
	late := false
	ctx, stop := workflow.WithCancel(ctx)
	defer stop()
	first := workflow.NewSelector(ctx)
	first.AddReceive(workflow.GetSignalChannel(ctx, "rule"), func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, &ruling)
	})
	first.AddFuture(workflow.NewTimer(ctx, patience), func(workflow.Future) { late = true })
	first.Select(ctx)
	switch {
	case ctx.Err() != nil:
		// The turn was interrupted.
		return hook.Verdict{}, ctx.Err()
	case late:
		return instead("Nobody has released the reply within a day."), nil
	case !ruling.Release:
		return instead(ruling.By + " has held the reply back."), nil
	}
	// An empty verdict lets the message pass.
	return hook.Verdict{}, nil
}

func instead(content string) hook.Verdict {
	return hook.Verdict{Responses: []hook.Response{{SenderType: event.CreatedBySystem, SenderID: "review", Content: content}}}
}
