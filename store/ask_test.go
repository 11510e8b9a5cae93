package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
)

func TestAsk(t *testing.T) {
	all := struct{ teststore.Store }{}
	agents, err := store.Ask[store.Agents](all)
	require.NoError(t, err)
	require.Equal(t, all, agents)

	type both interface {
		store.Store
		store.Documents
		store.Erasures
	}
	_, err = store.Ask[both](struct {
		store.Store
		store.Erasures
	}{})
	require.EqualError(t, err, "struct { store.Store; store.Erasures } does not implement store.Documents")
	_, err = store.Ask[both](nil)
	require.EqualError(t, err, "<nil> does not implement store.Store")
	_, err = store.Ask[interface{ Fly() }](all)
	require.EqualError(t, err, "struct { teststore.Store } does not implement interface { Fly() }")
}
