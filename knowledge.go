package threadmill

import (
	"context"
	"fmt"
	"strings"

	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/document"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/job/jobclient"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

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
