package registry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	known "github.com/threadmill/threadmill/internal/names"
	"github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
)

func TestSave(t *testing.T) {
	kept := newStore(t)
	r := registry.New(configured, kept, known.Known{})
	save := func(text string, after int) (registry.Entry, bool) {
		t.Helper()
		e, created, err := r.Save(t.Context(), ns, edited("clerk", text), registry.Change{By: "ann", After: after})
		require.NoError(t, err)
		return e, created
	}
	first, created := save("one", 0)
	require.True(t, created)
	require.Equal(t, registry.Entry{Agent: edited("clerk", "one"), Source: registry.Stored, Version: 1, By: "ann", At: first.At}, first)
	for _, after := range []int{-1, 1} {
		again, created := save("one", after)
		require.False(t, created)
		require.Equal(t, first, again, "what is stored already is no new version")
	}
	second, created := save("two", 1)
	require.False(t, created)
	require.Equal(t, 2, second.Version)

	var conflict *store.ConflictError
	_, _, err := r.Save(t.Context(), ns, edited("clerk", "two"), registry.Change{After: 1})
	require.ErrorAs(t, err, &conflict, "also if it would be the same: somebody else has made it so")
	require.Equal(t, 2, conflict.Newest)
	require.ErrorIs(t, r.Delete(t.Context(), ns, "clerk", registry.Change{After: 1}), store.ErrConflict)
	require.NoError(t, r.Delete(t.Context(), ns, "CLERK", registry.Change{By: "bob", After: 2}))
	require.ErrorIs(t, r.Delete(t.Context(), ns, "clerk", registry.Change{After: -1}), store.ErrNotFound)
	require.ErrorIs(t, r.Delete(t.Context(), ns, "critic", registry.Change{After: -1}), store.ErrNotFound, "it is only configured")
	require.ErrorIs(t, r.Delete(t.Context(), ns, "cl\x00", registry.Change{After: -1}), store.ErrNotFound)

	back, created := save("two", 0)
	require.True(t, created, "0 is for one that was deleted as well")
	require.Equal(t, 4, back.Version)
}

func TestSaveRefused(t *testing.T) {
	kept := newStore(t)
	r := registry.New(configured, kept, known.Known{})
	bad := edited("clerk", "x")
	bad.Limits.MaxSteps = 5000
	_, _, err := r.Save(t.Context(), ns, bad, registry.Change{After: -1})
	var field *event.FieldError
	require.ErrorAs(t, err, &field)
	require.Equal(t, "limits.maxSteps", field.Field)

	_, _, err = r.Save(t.Context(), ns, edited("clerk", strings.Repeat("x", store.MaxAgentDefinition)), registry.Change{After: -1})
	var large *registry.TooLargeError
	require.ErrorAs(t, err, &large)
	require.Greater(t, large.Size, store.MaxAgentDefinition)
	changes, err := kept.AgentChanges(t.Context(), ns, 0, 0)
	require.NoError(t, err)
	require.Empty(t, changes)

	_, _, err = registry.New(configured, broken{}, known.Known{}).Save(t.Context(), ns, edited("clerk", "x"), registry.Change{After: -1})
	require.ErrorIs(t, err, errDown)
}

// overtaken is a store in which another writer saves between a read and a save.
type overtaken struct {
	teststore.Store
	quicker func()
}

func (o *overtaken) SaveAgent(ctx context.Context, namespace string, v store.AgentVersion, after int) (store.AgentVersion, error) {
	if o.quicker != nil {
		o.quicker()
	}
	return o.Store.SaveAgent(ctx, namespace, v, after)
}

func TestSaveOvertaken(t *testing.T) {
	kept := &overtaken{Store: newStore(t)}
	r := registry.New(agent.Fixed{}, kept, known.Known{})
	put(t, kept, edited("clerk", "one"))
	kept.quicker = func() { put(t, kept.Store, edited("clerk", "theirs")) }
	_, _, err := r.Save(t.Context(), ns, edited("clerk", "mine"), registry.Change{After: 1})
	require.ErrorIs(t, err, store.ErrConflict)
	require.Equal(t, "theirs", instructions(t, r, "clerk"))
	remove(t, kept.Store, "clerk")
	_, _, err = r.Save(t.Context(), ns, edited("clerk", "mine"), registry.Change{After: 0})
	require.ErrorIs(t, err, store.ErrConflict, "it was made anew meanwhile")
}
