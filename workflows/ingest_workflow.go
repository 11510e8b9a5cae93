package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/job"
)

// ingestWithin limits one attempt of a step of an ingestion.
const ingestWithin = time.Hour

// ingest ingests one revision of a document: it fetches, splits and embeds it, and makes it visible as a whole. Its steps run
// on a task queue of their own, at the lowest priority.
func (w *Workflows) ingest(ctx workflow.Context, in job.IngestStep) (job.IngestResult, error) {
	i := &ingestion{in: in}
	ctx = knowledgeOptions(w.context(ctx), in.Namespace)
	out := i.run(ctx)
	// A cancelled ingestion has failed, which the document has to show.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if out.Status != job.IngestSuperseded {
		finish := job.FinishStep{IngestStep: in, Result: out}
		err := workflow.ExecuteActivity(summarized(ctx, "finish: "+string(out.Status)), job.ActivityFinishDocument, finish).Get(ctx, nil)
		if superseded(err) {
			out = job.IngestResult{Status: job.IngestSuperseded}
		} else if err != nil {
			return out, err
		}
	}
	i.show(ctx, string(out.Status))
	return out, nil
}

// ingestion is the ingestion of a document in its workflow.
type ingestion struct{ in job.IngestStep }

func (i *ingestion) show(ctx workflow.Context, doing string) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%s**: %s\n\n- document `%s` of `%s`, revision %d", i.in.Source, doing, i.in.Document, i.in.Namespace, i.in.Revision))
}

// knowledgeOptions returns the options of the steps that index documents. Namespaces take turns.
func knowledgeOptions(ctx workflow.Context, namespace string) workflow.Context {
	ctx = activity(ctx, "")
	opts := workflow.GetActivityOptions(ctx)
	opts.TaskQueue = job.KnowledgeTaskQueue(workflow.GetInfo(ctx).TaskQueueName)
	opts.StartToCloseTimeout = ingestWithin
	opts.Priority = temporal.Priority{PriorityKey: lowestPriority, FairnessKey: job.FairnessKey(namespace)}
	return workflow.WithActivityOptions(ctx, opts)
}

func summarized(ctx workflow.Context, text string) workflow.Context {
	opts := workflow.GetActivityOptions(ctx)
	opts.Summary = brief(text)
	return workflow.WithActivityOptions(ctx, opts)
}

func (i *ingestion) run(ctx workflow.Context) job.IngestResult {
	i.show(ctx, "is fetched")
	var fetched job.FetchedDocument
	if err := workflow.ExecuteActivity(summarized(ctx, "fetch "+i.in.Source), job.ActivityFetchDocument, i.in).Get(ctx, &fetched); err != nil {
		return endedBy(err)
	}
	if fetched.Unchanged {
		return job.IngestResult{Status: job.IngestUnchanged}
	}
	i.show(ctx, "is split into chunks")
	var parsed job.ParsedDocument
	if err := workflow.ExecuteActivity(summarized(ctx, fmt.Sprintf("split %d bytes", fetched.Bytes)), job.ActivitySplitDocument, i.in).Get(ctx, &parsed); err != nil {
		return endedBy(err)
	}
	if parsed.Contextualize {
		if err := i.contextualize(ctx, parsed.Chunks); err != nil {
			return endedBy(err)
		}
	}
	for done, more := 0, true; more; {
		i.show(ctx, fmt.Sprintf("%d of %d chunks are embedded", done, parsed.Chunks))
		var batch job.EmbeddedChunks
		if err := workflow.ExecuteActivity(summarized(ctx, fmt.Sprintf("embed, %d of %d", done, parsed.Chunks)), job.ActivityEmbedChunks, i.in).Get(ctx, &batch); err != nil {
			return endedBy(err)
		}
		done, more = done+batch.Chunks, batch.More
	}
	return job.IngestResult{Status: job.IngestIndexed, Format: parsed.Format, Title: parsed.Title, Bytes: fetched.Bytes, Chunks: parsed.Chunks}
}

// contextualize gives chunks their contexts, a batch in each step.
func (i *ingestion) contextualize(ctx workflow.Context, chunks int) error {
	without := 0
	for done := 0; done < chunks; {
		doing := fmt.Sprintf("%d of %d chunks have a context", done-without, chunks)
		if without > 0 {
			doing += fmt.Sprintf(", %d got none", without)
		}
		i.show(ctx, doing)
		var batch job.ContextualizedChunks
		next := job.ContextualizeStep{IngestStep: i.in, From: done}
		err := workflow.ExecuteActivity(summarized(ctx, fmt.Sprintf("contexts, %d of %d", done, chunks)), job.ActivityContextualizeChunks, next).Get(ctx, &batch)
		if err != nil || batch.Chunks == 0 {
			return err
		}
		done, without = done+batch.Chunks, without+batch.Without
	}
	return nil
}

// endedBy returns the result of an ingestion whose step failed.
func endedBy(err error) job.IngestResult {
	switch {
	case superseded(err):
		return job.IngestResult{Status: job.IngestSuperseded}
	case temporal.IsCanceledError(err):
		return job.IngestResult{Status: job.IngestFailed, Error: "the ingestion was cancelled"}
	}
	why, _ := explain(err)
	return job.IngestResult{Status: job.IngestFailed, Error: why}
}

func superseded(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == job.SupersededType
}

// embed adds vectors of an embedder to the visible documents and the entities of a namespace, after the embedder has changed,
// and drops those of other embedders in the end.
func (w *Workflows) embed(ctx workflow.Context, in job.EmbedStep) (int, error) {
	ctx = knowledgeOptions(w.context(ctx), in.Namespace)
	show := func(names int) {
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%d chunks** and **%d names of entities** of `%s` have new vectors of `%s`", in.Done, names, in.Namespace, in.Embedder))
	}
	for {
		show(0)
		var batch job.EmbeddedChunks
		next := job.IngestStep{Namespace: in.Namespace, Embedder: in.Embedder}
		if err := workflow.ExecuteActivity(summarized(ctx, fmt.Sprintf("embed, %d done", in.Done)), job.ActivityEmbedChunks, next).Get(ctx, &batch); err != nil {
			return in.Done, err
		}
		in.Done += batch.Chunks
		if !batch.More {
			show(batch.Names)
			return in.Done, nil
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return in.Done, workflow.NewContinueAsNewError(ctx, job.EmbedWorkflow, in)
		}
	}
}

// extract finds entities in the queued texts of a namespace, one after the other, until none is queued.
func (w *Workflows) extract(ctx workflow.Context, in job.ExtractStep) error {
	ctx = knowledgeOptions(w.context(ctx), in.Namespace)
	woken := workflow.GetSignalChannel(ctx, job.SignalExtract)
	for {
		for woken.ReceiveAsync(nil) {
			continue // the queue in the store says what is to be done
		}
		var out job.ExtractedEntities
		if err := workflow.ExecuteActivity(summarized(ctx, "find entities"), job.ActivityExtractEntities, in).Get(ctx, &out); err != nil {
			return err
		}
		switch {
		case out.ID != "" && workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			return workflow.NewContinueAsNewError(ctx, job.ExtractWorkflow, in)
		case out.ID == "" && woken.Len() == 0:
			return nil
		}
	}
}
