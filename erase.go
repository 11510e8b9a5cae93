package threadmill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/ops/doctor"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Erase erases a thread and the threads of its sub-agents for good: their records, their workflows in Temporal and all that was
// derived from them. It returns the receipt when nothing is found any more; the erasure goes on if ctx ends before. by is the
// person or program that asks for it. See docs/erasure.md.
func (r *Runtime) Erase(ctx context.Context, threadID, by string) (signals.Erasure, error) {
	out, err := r.client.Erase(ctx, threadID, by)
	if err != nil {
		return out, fmt.Errorf("threadmill: %w", err)
	}
	return out, nil
}

// Erasure returns the receipt of the erasure of a thread. The error wraps [store.ErrNotFound] if there is none.
func (r *Runtime) Erasure(ctx context.Context, threadID string) (signals.Erasure, error) {
	e, err := erasures.Load(ctx, r.store, r.client.Namespace(), threadID)
	if err != nil {
		return e, fmt.Errorf("threadmill: reading the receipt of the erasure of thread %q: %w", threadID, err)
	}
	return e, nil
}

// ErasePerson erases a person in all threads of the namespace: threads in which nobody else wrote are erased, in the others the
// person is replaced. name is the name under which the person wrote and decided, terms are further words by which the person is
// known. It returns the receipt when nothing is found any more; the erasure goes on if ctx ends before. An invalid name or term is
// an [*event.FieldError]. See docs/erasure.md.
func (r *Runtime) ErasePerson(ctx context.Context, name string, terms []string, by string) (signals.PersonErasure, error) {
	e, err := erasures.BeginPerson(ctx, r.store, r.client.Namespace(), erasures.PersonRequest{Person: name, Terms: terms}, by)
	if err != nil {
		return signals.PersonErasure{}, fmt.Errorf("threadmill: erasing a person: %w", err)
	}
	out, err := r.client.ErasePerson(ctx, e.ID, e.By)
	if err != nil {
		return out, fmt.Errorf("threadmill: %w", err)
	}
	return out, nil
}

// longWait is the time after which a thread for which the erasure of a person waits is worth a look.
const longWait = 10 * time.Minute

// checkErasures finds threads for which the erasure of a person waits.
func (r *Runtime) checkErasures(ctx context.Context) (found []doctor.Finding) {
	const check = "erasures"
	all, err := erasures.PeopleInProgress(ctx, r.store, r.client.Namespace())
	if err != nil {
		return nil // the check of the store tells it
	}
	for _, e := range all {
		for _, w := range e.Waiting {
			if time.Since(w.Since) > longWait {
				found = append(found, doctor.Odd(check, "end what it waits for, or close or erase the thread: the others are erased, and the receipt waits for this one",
					"a thread of a person's erasure waits: %s, of erasure %s, since %s: %s", w.ThreadID, e.ID, w.Since.Format(time.RFC3339), w.Why))
			}
		}
	}
	return found
}

// erased asks the store. While it is unavailable, a thread counts as one that exists: it refuses what comes for an erased one.
func (cfg *Config) erased(ctx context.Context, namespace, threadID string) (bool, error) {
	_, err := cfg.Store.Thread(ctx, event.ThreadKey{Namespace: namespace, ThreadID: threadID})
	return errors.Is(err, store.ErrErased), nil
}
