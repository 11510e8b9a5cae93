package activities

import (
	"context"
	"strings"

	"github.com/threadmill/threadmill/internal/entities"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

// Knowledge configures how documents are indexed and found, and how the people and things that messages mention are found.
type Knowledge struct {
	// Embedder calls Model, "provider/model", for vectors with a Dimension; 0 = the model's default. Nil: documents are
	// found by their words alone.
	Embedder  llm.Embedder
	Model     string
	Dimension int

	// ChunkTokens and OverlapTokens are the sizes of chunks. 0 = the defaults, 512 and 50.
	ChunkTokens, OverlapTokens int

	// Private permits documents at addresses of private networks.
	Private bool

	// Start starts the ingestion of the newest revision of a document, unless it runs already.
	Start func(ctx context.Context, namespace string, d store.KnowledgeDocument, force bool) error

	// ContextModel, "provider/model", writes the contexts of chunks. Empty: they have none.
	ContextModel string

	// RerankModel, "provider/model", puts what a search has found into its final order. Empty: the fused order is final.
	RerankModel string

	// EntityModel, "provider/model", finds entities in texts. Empty: none are found.
	EntityModel string

	// Extract wakes the workflow that finds entities in the queued texts of a namespace.
	Extract func(ctx context.Context, namespace string) error

	// Observe runs a search. Default: it only does.
	Observe func(ctx context.Context, search func(context.Context) error) error
}

func (cfg Config) newLibrary() *library.Library {
	k := cfg.Knowledge
	out := library.Config{
		Store: cfg.Store, Embedder: k.Embedder, Model: k.Model, Dimension: k.Dimension, ChunkTokens: k.ChunkTokens, OverlapTokens: k.OverlapTokens,
		ContextModel: k.ContextModel, RerankModel: k.RerankModel, Private: k.Private, Start: k.Start, Redact: cfg.Redact, Observe: k.Observe, Logger: cfg.Logger,
	}
	if provider, _, _ := strings.Cut(k.ContextModel, "/"); provider != "" {
		out.ContextProvider = checkedProvider(cfg.Redact, cfg.Models[provider])
	}
	if provider, _, _ := strings.Cut(k.RerankModel, "/"); provider != "" {
		out.Reranker = llm.RerankerOf(cfg.Models[provider])
	}
	return library.New(out)
}

func (cfg Config) newEntities(l *library.Library) *entities.Entities {
	out := entities.Config{Store: cfg.Store, Threads: cfg.Store, Embedder: l.Embedder(), Logger: cfg.Logger}
	if out.Embedder != "" {
		out.Embed = l.Vectors
	}
	if provider, _, _ := strings.Cut(cfg.Knowledge.EntityModel, "/"); provider != "" {
		out.Provider, out.Model = checkedProvider(cfg.Redact, cfg.Models[provider]), cfg.Knowledge.EntityModel
	}
	return entities.New(out)
}

// WithoutEntities says why no people and things are found in messages. Empty = they are.
func (a *Activities) WithoutEntities() string { return a.entities.Lacks() }
