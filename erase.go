package threadmill

import (
	"context"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Erase erases a thread and the threads of its sub-agents for good: their records, their workflows in Temporal and all that was
// derived from them. It returns the receipt when nothing is found any more; the erasure goes on if ctx ends before. by is the
// person or program that asks for it. See docs/erasure.md.
func (r *Runtime) Erase(ctx context.Context, threadID, by string) (signals.Erasure, error) {
	return r.client.Erase(ctx, threadID, by)
}

// Erasure returns the receipt of the erasure of a thread. The error wraps [store.ErrNotFound] if there is none.
func (r *Runtime) Erasure(ctx context.Context, threadID string) (signals.Erasure, error) {
	e, err := erasures.Load(ctx, r.cfg.Store, r.client.Namespace(), threadID)
	if err != nil {
		return e, fmt.Errorf("reading the receipt of the erasure of thread %q: %w", threadID, err)
	}
	return e, nil
}

// ErasePerson erases a person in all threads of the namespace: threads in which nobody else wrote are erased, in the others the
// person is replaced. name is the name under which the person wrote and decided, terms are further words by which the person is
// known. It returns the receipt when nothing is found any more; the erasure goes on if ctx ends before. An invalid name or term is
// an [*event.FieldError]. See docs/erasure.md.
func (r *Runtime) ErasePerson(ctx context.Context, name string, terms []string, by string) (signals.PersonErasure, error) {
	id, by, err := erasures.BeginPerson(ctx, r.cfg.Store, r.client.Namespace(), erasures.PersonRequest{Person: name, Terms: terms}, by)
	if err != nil {
		return signals.PersonErasure{}, fmt.Errorf("erasing a person: %w", err)
	}
	return r.client.ErasePerson(ctx, id, by)
}

// erased asks the store. While it is unavailable, a thread counts as one that exists: it refuses what comes for an erased one.
func (cfg *Config) erased(ctx context.Context, namespace, threadID string) (bool, error) {
	_, err := cfg.Store.Thread(ctx, event.ThreadKey{Namespace: namespace, ThreadID: threadID})
	return errors.Is(err, store.ErrErased), nil
}
