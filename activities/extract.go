package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library/entities"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// extractions are the texts in which entities are to be found after a reply: the messages of people that it answers. They are
// queued in the transaction of the reply, so none is lost, and cost the thread nothing.
func (c *modelCall) extractions() []store.Extraction {
	if !c.agent.Knowledge.Entities || c.in.Observe != nil {
		return nil
	}
	if !c.knowsEntities() {
		c.warnOfEntities()
		return nil
	}
	var out []store.Extraction
	for _, id := range append([]string{c.in.EventID}, c.in.Joined...) {
		out = append(out, store.Extraction{
			ID: c.in.Thread.ThreadID + "/" + id, ThreadID: c.in.Thread.ThreadID, EventID: c.eventID(), SourceType: event.TypeMessage, SourceID: id,
		})
	}
	return out
}

// warnOfEntities logs, once, why an agent learns nothing about people and things.
func (c *modelCall) warnOfEntities() {
	if _, known := c.a.missing.LoadOrStore("entities of "+c.agent.Name, true); !known {
		c.a.log.Warn("the agent learns nothing about the people and things that messages mention", "agent", c.agent.Name, "reason", c.a.entities.Lacks())
	}
}

// wakeWithin bounds how long a reply waits until entities are searched.
const wakeWithin = 2 * time.Second

// wakeExtraction makes entities be found in queued texts. If that fails, the next reply does, or the start of a worker.
func (a *Activities) wakeExtraction(ctx context.Context, namespace string) {
	if a.cfg.Extract == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wakeWithin) // a reply waits for it
	defer cancel()
	if err := a.cfg.Extract(ctx, namespace); err != nil {
		a.log.WarnContext(ctx, "the search for entities was not started", "namespace", namespace, "error", err)
	}
}

// extract queues the text in which an event of a thread asks to find entities.
func (a *Activities) extract(ctx context.Context, in step.Event) error {
	if _, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush); err != nil {
		return err
	}
	if lacks := a.entities.Lacks(); lacks != "" {
		a.log.WarnContext(ctx, "no entities are found in the text of an event", "thread", in.Thread.ThreadID, "event", in.EventID, "reason", lacks)
		return a.endEvent(ctx, in)
	}
	payload, err := a.customPayload(ctx, in.Thread, in.EventID)
	if err != nil {
		return err
	}
	var asked job.EntityExtraction
	if err := event.DecodeJSON("payload", payload, &asked); err != nil {
		return temporal.NewNonRetryableApplicationError("the event has no text: "+err.Error(), signals.RefusedType, err)
	}
	if event.Blank(asked.Content) {
		return temporal.NewNonRetryableApplicationError("the event has no text: content is required", signals.RefusedType, nil)
	}
	if asked.Namespace != "" && asked.Namespace != in.Thread.Namespace {
		a.log.WarnContext(ctx, "the namespace of an extraction is ignored: entities belong to that of the thread", "thread", in.Thread.ThreadID, "event", in.EventID, "namespace", asked.Namespace)
	}
	x := store.Extraction{
		ID: in.Thread.ThreadID + "/" + in.EventID, ThreadID: in.Thread.ThreadID, EventID: in.EventID, Content: asked.Content,
		SourceType: asked.SourceType, SourceID: asked.SourceID,
	}
	if x.SourceType == "" || x.SourceID == "" {
		x.SourceType, x.SourceID = "event", in.EventID
	}
	if err := a.entities.Store().QueueExtraction(ctx, in.Thread.Namespace, x); err != nil {
		return ingestError(ctx, err)
	}
	a.wakeExtraction(ctx, in.Thread.Namespace)
	return a.endEvent(ctx, in)
}

// endEvent stores the end of the turn of an event, if the step stores it.
func (a *Activities) endEvent(ctx context.Context, in step.Event) error {
	if in.Ends == "" {
		return nil
	}
	_, err := a.append(context.WithoutCancel(ctx), in.Thread, store.Batch{Records: []event.Record{
		ended(in.Ends, step.TurnEvent(in.Root, in.EventID), in.TraceID, nil, nil, "", time.Now()),
	}}, step.Flush{})
	return err
}

// extractEntities does the oldest queued extraction of a namespace.
func (a *Activities) extractEntities(ctx context.Context, in job.ExtractStep) (job.ExtractedEntities, error) {
	return indexStep(ctx, func(ctx context.Context) (job.ExtractedEntities, error) {
		id, err := a.entities.Next(ctx, in.Namespace)
		if unavailable, ok := errors.AsType[*entities.Unavailable](err); ok {
			err = temporal.NewApplicationErrorWithCause(fmt.Sprintf("%s; it is tried again", unavailable.Reason), step.ErrTypeRetry, err)
		}
		return job.ExtractedEntities{ID: id}, err
	})
}
