package server

import (
	"context"

	"github.com/threadmill/threadmill/store"
)

// The operations of the API on documents; what only the steps of ingestions call has no time limit here.

func (s *timedStore) BeginKnowledge(ctx context.Context, namespace string, d store.KnowledgeDocument, begin store.KnowledgeBegin) (store.KnowledgeDocument, error) {
	return call(ctx, s, func(ctx context.Context) (store.KnowledgeDocument, error) {
		return s.Store.BeginKnowledge(ctx, namespace, d, begin)
	})
}

func (s *timedStore) KnowledgeContent(ctx context.Context, namespace string, r store.KnowledgeRevision) (store.KnowledgeContent, error) {
	return call(ctx, s, func(ctx context.Context) (store.KnowledgeContent, error) {
		return s.Store.KnowledgeContent(ctx, namespace, r)
	})
}

func (s *timedStore) DeleteKnowledge(ctx context.Context, namespace, id string) error {
	_, err := call(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Store.DeleteKnowledge(ctx, namespace, id)
	})
	return err
}

func (s *timedStore) KnowledgeDocument(ctx context.Context, namespace, id string) (store.KnowledgeDocument, error) {
	return call(ctx, s, func(ctx context.Context) (store.KnowledgeDocument, error) {
		return s.Store.KnowledgeDocument(ctx, namespace, id)
	})
}

func (s *timedStore) KnowledgeDocuments(ctx context.Context, namespace string, page store.KnowledgePage) ([]store.KnowledgeDocument, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.KnowledgeDocument, error) {
		return s.Store.KnowledgeDocuments(ctx, namespace, page)
	})
}

func (s *timedStore) Chunks(ctx context.Context, namespace string, r store.KnowledgeRevision, from, limit int) ([]store.KnowledgeChunk, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.KnowledgeChunk, error) {
		return s.Store.Chunks(ctx, namespace, r, from, limit)
	})
}

func (s *timedStore) KnowledgeIndex(ctx context.Context, namespace string) (store.KnowledgeIndex, error) {
	return call(ctx, s, func(ctx context.Context) (store.KnowledgeIndex, error) {
		return s.Store.KnowledgeIndex(ctx, namespace)
	})
}

func (s *timedStore) KnowledgeCollections(ctx context.Context, namespace string) ([]string, error) {
	return call(ctx, s, func(ctx context.Context) ([]string, error) { return s.Store.KnowledgeCollections(ctx, namespace) })
}

func (s *timedStore) SearchText(ctx context.Context, namespace, query string, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.KnowledgeHit, error) {
		return s.Store.SearchText(ctx, namespace, query, in)
	})
}

func (s *timedStore) SearchVectors(ctx context.Context, namespace, embedder string, vector []float32, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.KnowledgeHit, error) {
		return s.Store.SearchVectors(ctx, namespace, embedder, vector, in)
	})
}
