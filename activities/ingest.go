package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// ingestPatience is how long a step of an ingestion is retried while a server is unavailable. Then the document failed,
// and can be ingested again.
const ingestPatience = time.Hour

// otherWorker is the delay after which a step looks for a worker with another embedder.
const otherWorker = time.Second

// ingest begins the ingestion that an event of a thread asks for.
func (a *Activities) ingest(ctx context.Context, in step.Event) (store.KnowledgeDocument, error) {
	if _, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush); err != nil {
		return store.KnowledgeDocument{}, err
	}
	asked, err := a.ingestion(ctx, in)
	if err != nil {
		return store.KnowledgeDocument{}, err
	}
	collection, title := asked.Named()
	add := library.Addition{
		Collection: collection, Source: asked.Source, Title: title, Metadata: asked.Metadata, Force: asked.ForceReindex,
		ThreadID: in.Thread.ThreadID, By: in.By,
	}
	if asked.Text != "" {
		add.Content = library.Given(asked.Source, "text/markdown", []byte(asked.Text))
	}
	var begun begunIngestion
	add.Begun = func(doc store.KnowledgeDocument) {
		begun = begunIngestion{doc.Newest(), doc.Status == store.KnowledgeIndexed}
		activity.RecordHeartbeat(ctx, begun)
	}
	if activity.HasHeartbeatDetails(ctx) {
		// An attempt that got no answer has begun it. It may have ended meanwhile, and is not to begin again.
		if err := activity.GetHeartbeatDetails(ctx, &begun); err != nil {
			return store.KnowledgeDocument{}, err
		}
		add.Revision = begun.KnowledgeRevision
	}
	doc, err := a.library.Add(ctx, in.Thread.Namespace, add)
	if err == nil && begun.Unchanged {
		err = a.announceUnchanged(ctx, in, doc)
	}
	if err != nil {
		return doc, ingestError(ctx, err)
	}
	return doc, a.endEvent(ctx, in)
}

// begunIngestion is what an attempt to begin an ingestion leaves to the next one. An unchanged document needs none.
type begunIngestion struct {
	store.KnowledgeRevision
	Unchanged bool
}

// announceUnchanged tells a thread that a document which it asked for needs no ingestion, whoever has added it.
func (a *Activities) announceUnchanged(ctx context.Context, in step.Event, doc store.KnowledgeDocument) error {
	if a.cfg.Deliver == nil {
		return nil
	}
	doc.ThreadID = in.Thread.ThreadID
	input := job.IngestStep{Namespace: in.Thread.Namespace, Document: doc.ID, Revision: doc.Revision, Source: doc.Source}
	return a.announce(ctx, job.FinishStep{IngestStep: input, Result: job.IngestResult{Status: job.IngestUnchanged}}, doc, store.KnowledgeDigest([]byte(in.EventID))[:16])
}

// ingestion reads the payload of an event as hooks left it.
func (a *Activities) ingestion(ctx context.Context, in step.Event) (asked signals.Ingestion, err error) {
	payload, err := a.customPayload(ctx, in.Thread, in.EventID)
	if err != nil {
		return asked, err
	}
	if err = event.DecodeJSON("payload", payload, &asked); err == nil {
		err = asked.Validate()
	}
	if err != nil {
		return asked, temporal.NewNonRetryableApplicationError("the event asks for no document: "+err.Error(), signals.RefusedType, err)
	}
	return asked, nil
}

// customPayload returns the payload of a custom event with the changes of hooks.
func (a *Activities) customPayload(ctx context.Context, ref step.Ref, eventID string) ([]byte, error) {
	records, err := a.cfg.Store.RecordsByID(ctx, ref, recordid.Interception(eventID))
	if err != nil {
		return nil, readError(err)
	}
	for _, r := range records {
		var decision event.Interception
		if json.Unmarshal(r.Payload, &decision) == nil && decision.Custom != nil {
			return decision.Custom.Payload, nil
		}
	}
	it, err := transcript.Content(ctx, a.cfg.Store, ref, eventID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, configError(fmt.Errorf("event %s is not in the store, or cannot be read", eventID))
	}
	if err != nil {
		return nil, readError(err)
	}
	return it.Payload, nil
}

func revision(in job.IngestStep) store.KnowledgeRevision {
	return store.KnowledgeRevision{Document: in.Document, Number: in.Revision}
}

func (a *Activities) fetchDocument(ctx context.Context, in job.IngestStep) (job.FetchedDocument, error) {
	return indexStep(ctx, func(ctx context.Context) (job.FetchedDocument, error) {
		return a.library.Fetch(ctx, in.Namespace, revision(in), in.Force)
	})
}

func (a *Activities) splitDocument(ctx context.Context, in job.IngestStep) (job.ParsedDocument, error) {
	return indexStep(ctx, func(ctx context.Context) (job.ParsedDocument, error) {
		return a.library.Split(ctx, in.Namespace, revision(in))
	})
}

func (a *Activities) contextualizeChunks(ctx context.Context, in job.ContextualizeStep) (job.ContextualizedChunks, error) {
	return indexStep(ctx, func(ctx context.Context) (job.ContextualizedChunks, error) {
		return a.library.Contextualize(ctx, in.Namespace, revision(in.IngestStep), in.From)
	})
}

func (a *Activities) embedChunks(ctx context.Context, in job.IngestStep) (job.EmbeddedChunks, error) {
	return indexStep(ctx, func(ctx context.Context) (job.EmbeddedChunks, error) {
		if own := a.library.Embedder(); in.Embedder != "" && in.Embedder != own {
			// It may reach another worker. If none has this embedder any more, the step gives up in the end.
			return job.EmbeddedChunks{}, &library.Unavailable{
				Reason: fmt.Sprintf("the worker has the embedder %q, and is asked for vectors of %q", own, in.Embedder), After: otherWorker,
			}
		}
		out, err := a.library.Embed(ctx, in.Namespace, revision(in))
		if err == nil && !out.More && in.Document == "" {
			out.Names, err = a.entities.Renew(ctx, in.Namespace)
		}
		return out, err
	})
}

// finishDocument makes a revision visible, or notes why it failed, and announces it in the thread that asked for it.
func (a *Activities) finishDocument(ctx context.Context, in job.FinishStep) error {
	_, err := indexStep(ctx, func(ctx context.Context) (struct{}, error) {
		doc, err := a.library.Finish(ctx, in.Namespace, revision(in.IngestStep), in.Result)
		if err != nil || doc.ThreadID == "" || a.cfg.Deliver == nil {
			return struct{}{}, err
		}
		return struct{}{}, a.announce(ctx, in, doc, strconv.Itoa(in.Revision))
	})
	return err
}

// announce posts the end of an ingestion to the thread that asked for it. A thread that is closed or erased, or was never opened,
// is told nothing. An end is what the thread is told once.
func (a *Activities) announce(ctx context.Context, in job.FinishStep, doc store.KnowledgeDocument, end string) error {
	post := signals.NewPost(fmt.Sprintf("rag-%s-%s", doc.ID, end), event.NewMessage{
		ThreadID: doc.ThreadID, SenderID: signals.RAGSender, SenderType: event.CreatedBySystem, Content: announcement(in, doc),
		Metadata: map[string]any{"document": doc.ID, "source": doc.Source, "status": string(in.Result.Status)},
	})
	_, err := a.cfg.Deliver(ctx, signals.Delivery{Namespace: in.Namespace, ThreadID: doc.ThreadID, Post: post})
	if signals.Gone(err) {
		return nil
	}
	return err
}

func announcement(in job.FinishStep, doc store.KnowledgeDocument) string {
	name := doc.Source
	if doc.Title != "" {
		name = fmt.Sprintf("%s (%s)", doc.Title, doc.Source)
	}
	switch in.Result.Status {
	case job.IngestFailed:
		return fmt.Sprintf("The document %s could not be indexed: %s", name, in.Result.Error)
	case job.IngestUnchanged:
		return fmt.Sprintf("The document %s has not changed since it was indexed.", name)
	case job.IngestIndexed, job.IngestSuperseded:
	}
	if doc.Chunks == 1 {
		return fmt.Sprintf("The document %s is indexed, in one chunk.", name)
	}
	return fmt.Sprintf("The document %s is indexed, in %d chunks.", name, doc.Chunks)
}

// indexStep runs a step of an ingestion with heartbeats.
func indexStep[T any](ctx context.Context, run func(context.Context) (T, error)) (T, error) {
	defer beating(ctx)()
	out, err := run(ctx)
	return out, ingestError(ctx, err)
}

// ingestError makes errors non-retryable that a retry cannot fix, or that have lasted for too long.
func ingestError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, store.ErrSuperseded) {
		return temporal.NewNonRetryableApplicationError(err.Error(), job.SupersededType, err)
	}
	var failed *library.Error
	if errors.As(err, &failed) || errors.Is(err, store.ErrInvalid) {
		return temporal.NewNonRetryableApplicationError(err.Error(), signals.RefusedType, err)
	}
	var unavailable *library.Unavailable
	if !errors.As(err, &unavailable) {
		return err
	}
	info := activity.GetInfo(ctx)
	left := ingestPatience - time.Since(info.ScheduledTime)
	if left <= 0 {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("%s (gave up after %d attempts)", unavailable.Reason, info.Attempt), signals.RefusedType, err)
	}
	return temporal.NewApplicationErrorWithOptions(unavailable.Reason, step.ErrTypeRetry, temporal.ApplicationErrorOptions{NextRetryDelay: min(unavailable.After, left)})
}
