package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/store"
)

// eraseInBatches repeats a transaction until it deletes less than [store.EraseBatch] rows.
func eraseInBatches(transaction func() (deleted int64, err error)) error {
	for {
		if deleted, err := transaction(); err != nil || deleted < store.EraseBatch {
			return err
		}
	}
}

// standing is what is left of an entity without the mentions of a thread.
type standing struct {
	// Mentions are its own mentions. Parent is the entity that it was merged into, "" of a root. Heir is the oldest of those
	// that were merged into it, if there are any.
	Mentions     int
	Parent, Heir string

	// Name is its name if a mention uses it, or else the one of its newest mention.
	Name, Uses string
}

// forgetMentions forgets mentions of a thread as [store.Erasures].EraseThread and ForgetMessages do, at most [store.EraseBatch] of those whose
// sources have these ids; nil = of all. It returns how many it has deleted.
func (r resolving) forgetMentions(ctx context.Context, threadID string, sources []string) (deleted int64, err error) {
	ids, err := r.dropMentions(ctx, threadID, sources)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	deleted = int64(len(ids))
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if err := r.dropDerived(ctx, ids); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := r.forgetEntity(ctx, id); err != nil {
			return 0, fmt.Errorf("entity %q: %w", id, err)
		}
	}
	return deleted, nil
}

func (r resolving) forgetEntity(ctx context.Context, id string) error {
	s, err := r.standing(ctx, id)
	if err != nil {
		return err
	}
	if s.Mentions > 0 {
		if s.Name != s.Uses {
			if err := r.rename(ctx, id, s.Uses); err != nil {
				return err
			}
		}
		return r.recount(ctx, id)
	}
	next := s.Parent
	if next == "" && s.Heir != "" {
		next = s.Heir
		if err := r.promote(ctx, next, id); err != nil {
			return err
		}
	}
	if s.Heir != "" {
		if err := r.repoint(ctx, id, next); err != nil {
			return err
		}
	}
	if err := r.remove(ctx, id); err != nil || next == "" {
		return err
	}
	return r.recount(ctx, next)
}

// forgetNamed deletes entities as [store.Erasures].ForgetEntities does. names returns all names of the next entities after an id, in the
// order of their ids. remove deletes the root of an entity with everything that was merged into it, or returns ErrNotFound.
func forgetNamed(
	ctx context.Context, match func(name string) bool,
	names func(ctx context.Context, after string) ([]store.EntityVector, error), remove func(ctx context.Context, id string) error,
) (forgotten int, err error) {
	for after := ""; ; {
		page, err := names(ctx, after)
		if err != nil || len(page) == 0 {
			return forgotten, err
		}
		for _, e := range page {
			if !match(e.Name) {
				continue
			}
			err := remove(ctx, e.ID)
			if errors.Is(err, store.ErrNotFound) {
				continue // deleted because of another name
			}
			if err != nil {
				return forgotten, err
			}
			forgotten++
		}
		after = page[len(page)-1].ID
	}
}
