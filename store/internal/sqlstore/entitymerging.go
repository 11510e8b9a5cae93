package sqlstore

import (
	"context"
	"errors"

	"github.com/threadmill/threadmill/store"
)

// mergeRoots merges a root into another one as [store.Entities].MergeEntities does.
func (r resolving) mergeRoots(ctx context.Context, m store.EntityMerge) (store.EntityMerge, error) {
	there, err := r.merge(ctx, m.ID)
	if !errors.Is(err, store.ErrNotFound) {
		if err == nil && (there.From != m.From || there.Into != m.Into) {
			err = invalid("merge %q: exists, and is of other entities", m.ID)
		}
		return there, err
	}
	for _, id := range []string{m.From, m.Into} {
		if err := r.requireRoot(ctx, id); err != nil {
			return m, err
		}
	}
	if err := r.mergeInto(ctx, m); err != nil {
		return m, err
	}
	return r.merge(ctx, m.ID)
}

// requireRoot returns ErrNotFound unless an entity is a root.
func (r resolving) requireRoot(ctx context.Context, id string) error {
	root, err := r.rootOf(ctx, id)
	if err == nil && root != id {
		err = store.ErrNotFound
	}
	return err
}

// mergeFound merges an entity that was found in a text into the root of another one, as far as there is something to merge.
func (r resolving) mergeFound(ctx context.Context, m store.EntityMerge) error {
	from, err := r.rootOf(ctx, m.From)
	if err == nil {
		m.Into, err = r.rootOf(ctx, m.Into)
	}
	if err == nil && (from != m.From || from == m.Into) {
		return nil
	}
	if err == nil {
		_, err = r.merge(ctx, m.ID)
		if errors.Is(err, store.ErrNotFound) {
			return r.mergeInto(ctx, m)
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
