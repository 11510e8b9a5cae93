package threadmill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/document"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/job/jobclient"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Documents are the documents of a namespace that agents search: see docs/knowledge.md. [Config].Store lists
// and deletes them, as a [store.Knowledge].
type Documents struct {
	library   *library.Library
	temporal  client.Client
	namespace string
}

// Documents returns the documents of the runtime's namespace. [Runtime.Run], in this process or another one, indexes them.
func (r *Runtime) Documents() *Documents {
	return &Documents{library: r.library, temporal: r.cfg.Temporal, namespace: r.client.Namespace()}
}

// In returns the documents of another namespace, such as that of [SendOptions].Namespace. Nothing of one namespace is found in
// another one.
func (d *Documents) In(namespace string) *Documents {
	other := *d
	other.namespace = namespace
	return &other
}

// NewDocument is a document to add. Source is required.
type NewDocument struct {
	// Source names the document within its collection: its address or, with Content, any name, such as the path of a file.
	Source string

	// Content is the document, at most 32 MiB of text, Markdown, HTML, PDF, DOCX, CSV or source code. Nil: it is fetched
	// from Source.
	Content []byte

	// MediaType says what Content is, such as "text/markdown". Default: what the name of Source and the content say.
	MediaType string

	// Collection groups documents, so that agents can search some of them. Default "default".
	Collection string

	// Title defaults to the one that the document states, and Metadata, an object, to that of the revision before.
	Title    string
	Metadata json.RawMessage

	// ForceReindex indexes the document even if it has not changed.
	ForceReindex bool

	// ThreadID is a thread that is told when the document is indexed or has failed. Default: none.
	ThreadID string

	// By is who adds it. Default: nobody is named.
	By string
}

// Add begins to index a document, and returns it while it is processed; [Documents.Await] waits for the end. It replaces one
// with the same collection and source, which is found until then. A document that has not changed is returned as it is.
//
// The error is an [*event.FieldError] or wraps [store.ErrInvalid] if a field is wrong. After any other error, adding the document
// again is harmless.
func (d *Documents) Add(ctx context.Context, n NewDocument) (store.KnowledgeDocument, error) {
	asked := signals.Ingestion{Source: n.Source, Collection: n.Collection, Title: n.Title, Metadata: n.Metadata}
	err := signals.ValidateID("namespace", d.namespace)
	if err == nil {
		err = asked.Validate()
	}
	if err == nil && n.ThreadID != "" {
		err = signals.ValidateID("threadId", n.ThreadID)
	}
	if err != nil {
		return store.KnowledgeDocument{}, fmt.Errorf("threadmill: adding a document: %w", err)
	}
	collection, title := asked.Named()
	in := library.Addition{
		Collection: collection, Source: n.Source, Title: title, Metadata: n.Metadata, Force: n.ForceReindex, ThreadID: n.ThreadID, By: n.By,
	}
	if n.Content != nil {
		in.Content = library.Given(n.Source, n.MediaType, n.Content)
	}
	doc, err := d.library.Add(ctx, d.namespace, in)
	if refused, ok := errors.AsType[*library.Error](err); ok {
		err = event.FieldErrorf("source", "%s", strings.TrimPrefix(refused.Reason, "source: "))
	}
	if err != nil {
		return doc, fmt.Errorf("threadmill: adding the document %q: %w", n.Source, err)
	}
	return doc, nil
}

// Reindex begins to index a document again, although it has not changed: what was added from an address is fetched again. by is
// who asks, or empty. The error wraps [store.ErrNotFound] if there is none with this id.
func (d *Documents) Reindex(ctx context.Context, id, by string) (store.KnowledgeDocument, error) {
	doc, err := d.library.Reindex(ctx, d.namespace, id, by)
	if err != nil {
		return doc, fmt.Errorf("threadmill: indexing the document %q again: %w", id, err)
	}
	return doc, nil
}

// DocumentError means that a document could not be indexed. It can be added again.
type DocumentError struct {
	ID     string
	Source string

	// Reason is the error as users see it.
	Reason string
}

func (e *DocumentError) Error() string {
	return fmt.Sprintf("threadmill: the document %q failed: %s", e.Source, e.Reason)
}

// Await waits until the newest revision of a document is processed, and returns the document. The error is a [*DocumentError] if it
// failed; [store.KnowledgeDocument].Indexed is then the revision that is still found. The error wraps [store.ErrNotFound] if there is
// no document with this id.
func (d *Documents) Await(ctx context.Context, id string) (store.KnowledgeDocument, error) {
	for ended := 0; ; {
		doc, err := d.library.Store().KnowledgeDocument(ctx, d.namespace, id)
		switch {
		case err != nil:
			return doc, fmt.Errorf("threadmill: waiting for the document %q: %w", id, err)
		case doc.Status == store.KnowledgeFailed:
			return doc, &DocumentError{ID: doc.ID, Source: doc.Source, Reason: doc.Error}
		case doc.Status != store.KnowledgeProcessing:
			return doc, nil
		case doc.Revision == ended:
			return doc, fmt.Errorf("threadmill: the ingestion of the document %q has ended in another store: add it again", doc.Source)
		}
		run := d.temporal.GetWorkflow(ctx, job.IngestWorkflowID(d.namespace, id, doc.Revision), "")
		if err := run.Get(ctx, nil); err != nil {
			return doc, fmt.Errorf("threadmill: waiting for the document %q, which can be added again: %w", doc.Source, err)
		}
		ended = doc.Revision
	}
}

// DocumentSearch limits a search. The zero value has the defaults.
type DocumentSearch struct {
	// Collections to search. Default: all of the namespace.
	Collections []string

	// Limit is the maximum number of passages. Default 5, at most 50.
	Limit int
}

// FoundPassages are the passages that a search has found, the best first.
type FoundPassages struct {
	Passages []event.Passage

	// Warning says why documents were searched by their words alone, although they have vectors, or why the reranking model did
	// not order the passages.
	Warning string
}

// Search returns the passages that fit a text best, such as the words or the question of a person.
func (d *Documents) Search(ctx context.Context, text string, s DocumentSearch) (FoundPassages, error) {
	if !store.Storable(text) {
		return FoundPassages{}, event.FieldErrorf("text", "must be UTF-8 without NUL characters")
	}
	found, err := d.library.Search(ctx, d.namespace, library.Query{Text: text, Collections: s.Collections, Limit: s.Limit})
	if err != nil {
		return FoundPassages{}, fmt.Errorf("threadmill: searching documents: %w", err)
	}
	return FoundPassages{Passages: found.Passages, Warning: found.Warning}, nil
}

// Knowledge configures how documents are indexed and found. The zero value finds documents by their words alone.
type Knowledge struct {
	// Embedder, "provider/model", turns texts into vectors, by which documents are found that say the same in other words.
	// Its provider must be one of Models that embeds, such as OpenAI's and Google's. Default: none. When a worker starts with
	// another one than before, all documents and entities get its vectors, and lose the others in the end. Workers of a task queue
	// have the same one, except while they are replaced: what one with the old embedder indexes after that is found by its words,
	// until a worker starts again. With [Deployment].Build, the embedder of a build counts once the build is the current one.
	Embedder string

	// Dimension of the vectors, for models with several. Default: the model's own.
	Dimension int

	// ChunkTokens is the maximum size of a chunk, in tokens; default 512. OverlapTokens is how much of it repeats the end of the
	// chunk before; default 50, negative = nothing. Documents keep their chunks until they are ingested again.
	ChunkTokens, OverlapTokens int

	// ContextModel, "provider/model", writes one or two sentences for each chunk that place it in its document, by which it is
	// found too. Default: none. Documents that were indexed before get them when they are indexed again; a worker without a model
	// leaves chunks without. Each chunk costs a call of the model, which sees the document, or of one of more than 8,000 tokens the
	// headings, the beginning and what surrounds the chunk.
	ContextModel string

	// RerankModel, "provider/model", puts the best 50 passages of a search into their final order: by the endpoint /rerank of
	// servers that are compatible with OpenAI, such as Jina, Cohere, vLLM and llama.cpp, or of [llm.Reranker]; other providers
	// are asked in a chat. Default: none. It has 5 seconds; if it fails, the search goes on without it, with a warning.
	RerankModel string

	// EntityModel, "provider/model", finds the people and things that messages mention, for agents that enable
	// [agent.Knowledge].Entities. It needs an Embedder too, which compares their names. Default: none.
	EntityModel string

	// Reader reads the documents that are added, such as formats.Reader() of package document/formats, which adds 12 MB to a program.
	// Default: none, and a document that such a worker gets fails. All workers of a task queue need one.
	Reader document.Reader

	// PrivateAddresses permits to ingest documents from addresses of private networks.
	PrivateAddresses bool
}

// knowledgeSlots bounds how many steps of ingestions a worker runs at once.
const knowledgeSlots = 4

// libraryConfig returns the configuration of the library of documents.
func (r *Runtime) libraryConfig() (library.Config, error) {
	k := r.cfg.Knowledge
	cfg := library.Config{
		Store: r.store, Model: k.Embedder, Dimension: k.Dimension, ChunkTokens: k.ChunkTokens, OverlapTokens: k.OverlapTokens,
		ContextModel: k.ContextModel, RerankModel: k.RerankModel, Reader: k.Reader, Private: k.PrivateAddresses, Redact: r.cfg.Redact, Logger: r.cfg.Logger, Observe: r.observer.Retrieval,
		Start: func(ctx context.Context, namespace string, doc store.KnowledgeDocument, force bool) error {
			return r.jobs().Ingest(ctx, job.IngestStep{Namespace: namespace, Document: doc.ID, Revision: doc.Revision, Source: doc.Source, Force: force})
		},
	}
	switch {
	case k.Dimension < 0 || k.Dimension > store.MaxKnowledgeDimension:
		return cfg, fmt.Errorf("threadmill: Config.Knowledge.Dimension is %d, must be 1 to %d, or 0 for the model's own", k.Dimension, store.MaxKnowledgeDimension)
	case k.ChunkTokens != 0 && (k.ChunkTokens < minChunkTokens || k.ChunkTokens > maxChunkTokens):
		return cfg, fmt.Errorf("threadmill: Config.Knowledge.ChunkTokens is %d, must be %d to %d", k.ChunkTokens, minChunkTokens, maxChunkTokens)
	}
	var err error
	if cfg.ContextProvider, err = r.knowledgeModel("ContextModel", k.ContextModel); err != nil {
		return cfg, err
	}
	cfg.ContextProvider = activities.CheckedProvider(r.cfg.Redact, cfg.ContextProvider)
	if _, err := r.knowledgeModel("EntityModel", k.EntityModel); err != nil {
		return cfg, err
	}
	reranking, err := r.knowledgeModel("RerankModel", k.RerankModel)
	if reranking != nil {
		cfg.Reranker = llm.RerankerOf(reranking)
	}
	if err != nil || k.Embedder == "" {
		return cfg, err
	}
	provider, model, _ := strings.Cut(k.Embedder, "/")
	embedder, ok := r.cfg.Models[provider].(llm.Embedder)
	switch {
	case model == "":
		return cfg, fmt.Errorf("threadmill: Config.Knowledge.Embedder is %q, must be provider/model", k.Embedder)
	case r.cfg.Models[provider] == nil:
		return cfg, fmt.Errorf("threadmill: Config.Knowledge.Embedder is %q: there is no provider %q in Config.Models", k.Embedder, provider)
	case !ok:
		return cfg, fmt.Errorf("threadmill: Config.Knowledge.Embedder is %q: the provider %q makes no vectors", k.Embedder, provider)
	}
	cfg.Embedder = embedder
	return cfg, nil
}

// jobs starts the workflows beside those of threads.
func (r *Runtime) jobs() jobclient.Client {
	return jobclient.Client{Temporal: r.cfg.Temporal, TaskQueue: r.cfg.TaskQueue}
}

// knowledgeModel returns the provider of a model that a field of Config.Knowledge names; nil without one.
func (r *Runtime) knowledgeModel(field, name string) (llm.Provider, error) {
	provider, model, _ := strings.Cut(name, "/")
	if name != "" && (r.cfg.Models[provider] == nil || model == "") {
		return nil, fmt.Errorf("threadmill: Config.Knowledge.%s is %q, must be provider/model with a provider of Config.Models", field, name)
	}
	return r.cfg.Models[provider], nil
}

// Bounds of Knowledge.ChunkTokens: a chunk is to be understood alone, and embedders take no more.
const (
	minChunkTokens = 16
	maxChunkTokens = 4096
)

// knowledgeWorker returns the worker of the steps that index documents. It has few slots, so that they never take those of
// threads.
func (r *Runtime) knowledgeWorker(options worker.Options) worker.Worker {
	options.DisableWorkflowWorker = true
	options.MaxConcurrentActivityExecutionSize = knowledgeSlots
	options.ActivityTaskPollerBehavior = worker.NewPollerBehaviorSimpleMaximum(worker.PollerBehaviorSimpleMaximumOptions{MaximumNumberOfPollers: 1})
	w := worker.New(r.cfg.Temporal, job.KnowledgeTaskQueue(r.cfg.TaskQueue), options)
	r.activities.RegisterKnowledge(w)
	return w
}

// prepareKnowledge says once how documents are found, embeds what has no vectors of the current embedder, and finds entities in
// what is queued.
func (r *Runtime) prepareKnowledge(ctx context.Context) {
	if err := r.embedDocuments(ctx); err != nil {
		r.cfg.Logger.Warn("the documents cannot be read", "error", err)
	}
	if r.cfg.Knowledge.EntityModel == "" || r.library.Embedder() == "" {
		return
	}
	if err := r.embedEntities(ctx); err != nil {
		r.cfg.Logger.Warn("the entities cannot be read", "error", err)
	}
	queued, err := r.store.ExtractionNamespaces(ctx)
	if err != nil {
		r.cfg.Logger.Warn("the queued searches for entities cannot be read", "error", err)
	}
	for _, namespace := range queued {
		if err := r.jobs().Extract(ctx, namespace); err != nil {
			r.cfg.Logger.Warn("the search for entities was not started", "namespace", namespace, "error", err)
		}
	}
}

func (r *Runtime) embedDocuments(ctx context.Context) error {
	namespaces, err := r.store.KnowledgeNamespaces(ctx)
	if err != nil {
		return err
	}
	if r.library.Embeds() == "" {
		if len(namespaces) > 0 {
			r.cfg.Logger.Warn("documents are found by their words alone: " + r.library.WithoutVectors())
		}
		return nil
	}
	for _, namespace := range namespaces {
		missing, err := r.library.Missing(ctx, namespace)
		if err != nil {
			return err
		}
		if missing > 0 {
			r.embed(ctx, "documents get vectors of another embedder", namespace, "chunks", missing)
		}
	}
	return nil
}

func (r *Runtime) embedEntities(ctx context.Context) error {
	namespaces, err := r.store.EntityNamespaces(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		missing, err := r.store.EntitiesWithout(ctx, namespace, r.library.Embedder(), "", 1)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			r.embed(ctx, "the names of entities get vectors of another embedder", namespace)
		}
	}
	return nil
}

// embed starts the workflow that adds vectors of the embedder to what a namespace has.
func (r *Runtime) embed(ctx context.Context, what, namespace string, about ...any) {
	about = append([]any{"namespace", namespace, "embedder", r.library.Embedder()}, about...)
	r.cfg.Logger.Info(what, about...)
	if err := r.jobs().Embed(ctx, namespace, r.library.Embedder()); err != nil {
		r.cfg.Logger.Warn("the vectors of another embedder cannot be added", "namespace", namespace, "error", err)
	}
}
