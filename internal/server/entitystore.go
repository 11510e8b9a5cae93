package server

import (
	"context"

	"github.com/threadmill/threadmill/store"
)

// The operations of the API on entities.

func (s *timedStore) Entity(ctx context.Context, namespace, id string) (store.Entity, error) {
	return call(ctx, s, func(ctx context.Context) (store.Entity, error) { return s.Store.Entity(ctx, namespace, id) })
}

func (s *timedStore) Entities(ctx context.Context, namespace string, page store.EntityPage) ([]store.Entity, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.Entity, error) { return s.Store.Entities(ctx, namespace, page) })
}

func (s *timedStore) Mentions(ctx context.Context, namespace, id string, page store.MentionPage) ([]store.Mention, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.Mention, error) { return s.Store.Mentions(ctx, namespace, id, page) })
}

func (s *timedStore) Relations(ctx context.Context, namespace, id string) ([]store.Relation, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.Relation, error) { return s.Store.Relations(ctx, namespace, id) })
}

func (s *timedStore) Merges(ctx context.Context, namespace, id string) ([]store.EntityMerge, error) {
	return call(ctx, s, func(ctx context.Context) ([]store.EntityMerge, error) { return s.Store.Merges(ctx, namespace, id) })
}

func (s *timedStore) MergeEntities(ctx context.Context, namespace string, m store.EntityMerge) (store.EntityMerge, error) {
	return call(ctx, s, func(ctx context.Context) (store.EntityMerge, error) { return s.Store.MergeEntities(ctx, namespace, m) })
}

func (s *timedStore) UndoMerge(ctx context.Context, namespace, id, by string) (store.EntityMerge, error) {
	return call(ctx, s, func(ctx context.Context) (store.EntityMerge, error) { return s.Store.UndoMerge(ctx, namespace, id, by) })
}

func (s *timedStore) DeleteEntity(ctx context.Context, namespace, id string) error {
	_, err := call(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Store.DeleteEntity(ctx, namespace, id)
	})
	return err
}
