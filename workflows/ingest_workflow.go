package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/signals"
)

// ingestWithin limits one attempt of a step of an ingestion.
const ingestWithin = time.Hour

// ingest ingests one revision of a document: it fetches, splits and embeds it, and makes it visible as a whole. Its steps run
// on a task queue of their own, at the lowest priority.
func (w *Workflows) ingest(ctx workflow.Context, in signals.IngestStep) (signals.IngestResult, error) {
	i := &ingestion{in: in}
	ctx = knowledgeOptions(w.context(ctx), in.Namespace)
	out := i.run(ctx)
	// A cancelled ingestion has failed, which the document has to show.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if out.Status != signals.IngestSuperseded {
		finish := signals.FinishStep{IngestStep: in, Result: out}
		err := workflow.ExecuteActivity(summarized(ctx, "finish: "+string(out.Status)), signals.ActivityFinishDocument, finish).Get(ctx, nil)
		if superseded(err) {
			out = signals.IngestResult{Status: signals.IngestSuperseded}
		} else if err != nil {
			return out, err
		}
	}
	i.show(ctx, string(out.Status))
	return out, nil
}

// ingestion is the ingestion of a document in its workflow.
type ingestion struct{ in signals.IngestStep }

func (i *ingestion) show(ctx workflow.Context, doing string) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%s**: %s\n\n- document `%s` of `%s`, revision %d", i.in.Source, doing, i.in.Document, i.in.Namespace, i.in.Revision))
}

// knowledgeOptions returns the options of the steps that index documents. Namespaces take turns.
func knowledgeOptions(ctx workflow.Context, namespace string) workflow.Context {
	ctx = activity(ctx, "")
	opts := workflow.GetActivityOptions(ctx)
	opts.TaskQueue = signals.KnowledgeTaskQueue(workflow.GetInfo(ctx).TaskQueueName)
	opts.StartToCloseTimeout = ingestWithin
	opts.Priority = temporal.Priority{PriorityKey: lowestPriority, FairnessKey: signals.FairnessKey(namespace)}
	return workflow.WithActivityOptions(ctx, opts)
}

func summarized(ctx workflow.Context, text string) workflow.Context {
	opts := workflow.GetActivityOptions(ctx)
	opts.Summary = brief(text)
	return workflow.WithActivityOptions(ctx, opts)
}

func (i *ingestion) run(ctx workflow.Context) signals.IngestResult {
	i.show(ctx, "is fetched")
	var fetched signals.FetchedDocument
	if err := workflow.ExecuteActivity(summarized(ctx, "fetch "+i.in.Source), signals.ActivityFetchDocument, i.in).Get(ctx, &fetched); err != nil {
		return endedBy(err)
	}
	if fetched.Unchanged {
		return signals.IngestResult{Status: signals.IngestUnchanged}
	}
	i.show(ctx, "is split into chunks")
	var parsed signals.ParsedDocument
	if err := workflow.ExecuteActivity(summarized(ctx, fmt.Sprintf("split %d bytes", fetched.Bytes)), signals.ActivitySplitDocument, i.in).Get(ctx, &parsed); err != nil {
		return endedBy(err)
	}
	if parsed.Contextualize {
		if err := i.contextualize(ctx, parsed.Chunks); err != nil {
			return endedBy(err)
		}
	}
	for done, more := 0, true; more; {
		i.show(ctx, fmt.Sprintf("%d of %d chunks are embedded", done, parsed.Chunks))
		var batch signals.EmbeddedChunks
		if err := workflow.ExecuteActivity(summarized(ctx, fmt.Sprintf("embed, %d of %d", done, parsed.Chunks)), signals.ActivityEmbedChunks, i.in).Get(ctx, &batch); err != nil {
			return endedBy(err)
		}
		done, more = done+batch.Chunks, batch.More
	}
	return signals.IngestResult{Status: signals.IngestIndexed, Format: parsed.Format, Title: parsed.Title, Bytes: fetched.Bytes, Chunks: parsed.Chunks}
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
		var batch signals.ContextualizedChunks
		step := signals.ContextualizeStep{IngestStep: i.in, From: done}
		err := workflow.ExecuteActivity(summarized(ctx, fmt.Sprintf("contexts, %d of %d", done, chunks)), signals.ActivityContextualizeChunks, step).Get(ctx, &batch)
		if err != nil || batch.Chunks == 0 {
			return err
		}
		done, without = done+batch.Chunks, without+batch.Without
	}
	return nil
}

// endedBy returns the result of an ingestion whose step failed.
func endedBy(err error) signals.IngestResult {
	switch {
	case superseded(err):
		return signals.IngestResult{Status: signals.IngestSuperseded}
	case temporal.IsCanceledError(err):
		return signals.IngestResult{Status: signals.IngestFailed, Error: "the ingestion was cancelled"}
	}
	why, _ := explain(err)
	return signals.IngestResult{Status: signals.IngestFailed, Error: why}
}

func superseded(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == signals.SupersededType
}

// embed adds vectors of an embedder to the visible documents and the entities of a namespace, after the embedder has changed,
// and drops those of other embedders in the end.
func (w *Workflows) embed(ctx workflow.Context, in signals.EmbedStep) (int, error) {
	ctx = knowledgeOptions(w.context(ctx), in.Namespace)
	show := func(names int) {
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%d chunks** and **%d names of entities** of `%s` have new vectors of `%s`", in.Done, names, in.Namespace, in.Embedder))
	}
	for {
		show(0)
		var batch signals.EmbeddedChunks
		step := signals.IngestStep{Namespace: in.Namespace, Embedder: in.Embedder}
		if err := workflow.ExecuteActivity(summarized(ctx, fmt.Sprintf("embed, %d done", in.Done)), signals.ActivityEmbedChunks, step).Get(ctx, &batch); err != nil {
			return in.Done, err
		}
		in.Done += batch.Chunks
		if !batch.More {
			show(batch.Names)
			return in.Done, nil
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return in.Done, workflow.NewContinueAsNewError(ctx, signals.EmbedWorkflow, in)
		}
	}
}

// extract finds entities in the queued texts of a namespace, one after the other, until none is queued.
func (w *Workflows) extract(ctx workflow.Context, in signals.ExtractStep) error {
	ctx = knowledgeOptions(w.context(ctx), in.Namespace)
	woken := workflow.GetSignalChannel(ctx, signals.SignalExtract)
	for {
		for woken.ReceiveAsync(nil) {
			continue // the queue in the store says what is to be done
		}
		var out signals.ExtractedEntities
		if err := workflow.ExecuteActivity(summarized(ctx, "find entities"), signals.ActivityExtractEntities, in).Get(ctx, &out); err != nil {
			return err
		}
		switch {
		case out.ID != "" && workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			return workflow.NewContinueAsNewError(ctx, signals.ExtractWorkflow, in)
		case out.ID == "" && woken.Len() == 0:
			return nil
		}
	}
}
