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

// TooLargeError means that a definition exceeds the store's limit.
type TooLargeError struct{ Size int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the definition is %d bytes as JSON, at most %d are kept", e.Size, store.MaxAgentDefinition)
}

// Change is the author and the condition of a change of a stored agent.
type Change struct {
	By string

	// After is the expected newest version: 0 if none is stored, negative for any. If it differs,
	// the change fails with a [*store.ConflictError].
	After int
}

// Save stores a definition, which applies from the next model call on. Created reports that none
// was stored before. Saving the newest definition again makes no new version. Errors are those of
// [agent.Agent.Validate], an event.FieldError about a name, a [*TooLargeError], or the store's.
func (r *Registry) Save(ctx context.Context, namespace string, a agent.Agent, c Change) (e Entry, created bool, err error) {
	if err := a.Validate(); err != nil {
		return Entry{}, false, err
	}
	if err := r.known.Agent(a).First(); err != nil {
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

// Delete deletes a stored agent, which makes the configured one of its name effective again. If the
// agent is not stored, the error is [store.ErrNotFound].
func (r *Registry) Delete(ctx context.Context, namespace, name string, c Change) error {
	if _, ok := store.AgentKey(namespace, name); !ok {
		return store.ErrNotFound
	}
	_, err := r.kept.SaveAgent(ctx, namespace, store.AgentVersion{Name: name, Deleted: true, By: c.By}, c.After)
	return err
}

// newest returns the newest stored version, or the zero value.
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

// after returns the store's number of the version to change. The store continues the numbers of a
// deleted agent; callers who create it again need not know them.
func (c Change) after(newest store.AgentVersion) int {
	if c.After == 0 && newest.Deleted {
		return newest.Version
	}
	return c.After
}
