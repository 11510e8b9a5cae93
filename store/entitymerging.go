package store

import (
	"context"
	"errors"
)

// Merging is a transaction of a driver that merges entities of a namespace.
type Merging interface {
	// RootOf returns the root of an entity, Merge a merge by its id. Without one, the error is ErrNotFound.
	RootOf(ctx context.Context, id string) (string, error)
	Merge(ctx context.Context, id string) (EntityMerge, error)

	// MergeInto merges a root into another one, and records it.
	MergeInto(ctx context.Context, m EntityMerge) error
}

// MergeRoots merges a root into another one as [Entities].MergeEntities does.
func MergeRoots(ctx context.Context, tx Merging, m EntityMerge) (EntityMerge, error) {
	there, err := tx.Merge(ctx, m.ID)
	if !errors.Is(err, ErrNotFound) {
		if err == nil && (there.From != m.From || there.Into != m.Into) {
			err = invalid("merge %q: exists, and is of other entities", m.ID)
		}
		return there, err
	}
	for _, id := range []string{m.From, m.Into} {
		if err := RequireRoot(ctx, tx, id); err != nil {
			return m, err
		}
	}
	if err := tx.MergeInto(ctx, m); err != nil {
		return m, err
	}
	return tx.Merge(ctx, m.ID)
}

// RequireRoot returns ErrNotFound unless an entity is a root.
func RequireRoot(ctx context.Context, tx Merging, id string) error {
	root, err := tx.RootOf(ctx, id)
	if err == nil && root != id {
		err = ErrNotFound
	}
	return err
}

// MergeFound merges an entity that was found in a text into the root of another one, as far as there is something to merge.
func MergeFound(ctx context.Context, tx Merging, m EntityMerge) error {
	from, err := tx.RootOf(ctx, m.From)
	if err == nil {
		m.Into, err = tx.RootOf(ctx, m.Into)
	}
	if err == nil && (from != m.From || from == m.Into) {
		return nil
	}
	if err == nil {
		_, err = tx.Merge(ctx, m.ID)
		if errors.Is(err, ErrNotFound) {
			return tx.MergeInto(ctx, m)
		}
	}
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
