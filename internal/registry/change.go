package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/store"
)

// TooLargeError says that a definition has more bytes than the store keeps.
type TooLargeError struct{ Size int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the definition is %d bytes as JSON, at most %d are kept", e.Size, store.MaxAgentDefinition)
}

// Change says who changes a stored agent, and what.
type Change struct {
	By string

	// After is the version that is changed: 0 if none is stored, negative if it may be any.
	// If another one is the newest, the change is a [*store.ConflictError].
	After int
}

// Save stores a definition, which holds from the next model call on. Created says that none
// was stored before. A definition that is the newest already stays the version that it is.
// Errors are those of [agent.Agent.Validate], a [*TooLargeError], or the store's.
func (r *Registry) Save(ctx context.Context, namespace string, a agent.Agent, c Change) (e Entry, created bool, err error) {
	if err := a.Validate(); err != nil {
		return Entry{}, false, err
	}
	definition, err := a.MarshalJSON()
	if err != nil {
		return Entry{}, false, err
	}
	if len(definition) > store.MaxAgentDefinition {
		return Entry{}, false, &TooLargeError{len(definition)}
	}
	newest, err := r.newest(ctx, namespace, a.Name)
	if err != nil {
		return Entry{}, false, err
	}
	if same(newest, definition) && (c.After < 0 || c.After == newest.Version) {
		return entry(newest), false, nil
	}
	v, err := r.kept.SaveAgent(ctx, namespace, store.AgentVersion{Name: a.Name, Definition: definition, By: c.By}, c.after(newest))
	if err != nil {
		return Entry{}, false, err
	}
	return entry(v), v.Change == store.AgentCreated, nil
}

// Delete deletes a stored agent: the configured one of its name, if there is one, shows
// again. One that is not stored is [store.ErrNotFound].
func (r *Registry) Delete(ctx context.Context, namespace, name string, c Change) error {
	if _, ok := store.AgentKey(namespace, name); !ok {
		return store.ErrNotFound
	}
	_, err := r.kept.SaveAgent(ctx, namespace, store.AgentVersion{Name: name, Deleted: true, By: c.By}, c.After)
	return err
}

// newest is the newest version that is stored, which may be none at all.
func (r *Registry) newest(ctx context.Context, namespace, name string) (store.AgentVersion, error) {
	v, err := r.kept.Agent(ctx, namespace, name)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return v, err
}

func same(newest store.AgentVersion, definition json.RawMessage) bool {
	return newest.Version > 0 && !newest.Deleted && bytes.Equal(newest.Definition, definition)
}

// after is what the store calls the version that is changed. It goes on counting where an
// agent was deleted; those who make one anew need not know that.
func (c Change) after(newest store.AgentVersion) int {
	if c.After == 0 && newest.Deleted {
		return newest.Version
	}
	return c.After
}
