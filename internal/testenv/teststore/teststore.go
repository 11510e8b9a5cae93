// Package teststore changes what the calls of a store do, for tests.
package teststore

import (
	"context"
	"slices"

	"github.com/threadmill/threadmill/store"
)

// Before returns a store that runs do before its calls of these names, or before all without names. A call whose do fails, fails with
// its error.
func Before(s store.Store, do func(context.Context) error, names ...string) store.Store {
	return store.With(s, func(ctx context.Context, name string, call func(context.Context) error) error {
		if len(names) == 0 || slices.Contains(names, name) {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return call(ctx)
	})
}

// Store is a store with all that the drivers have, for tests to embed.
type Store interface {
	store.Store
	store.Agents
	store.APIKeys
	store.Documents
	store.Knowledge
	store.Entities
	store.Erasures
}

// Of returns a store with all that the drivers have.
func Of(s store.Store) Store { return s.(Store) }
