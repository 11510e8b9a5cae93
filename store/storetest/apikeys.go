package storetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

// apiKeys are the tests of [store.APIKeys].
var apiKeys = []suiteTest{
	{"API keys are created and found", testKeyRoundTrip},
	{"API key names are taken until they are revoked", testKeyNames},
	{"API keys are listed, revoked ones last", testKeyList},
	{"API keys are rotated", testKeyRotated},
	{"API keys are revoked for good", testKeyRevoked},
	{"API keys of namespaces keep apart", testKeyNamespaces},
	{"API keys that cannot be stored are refused", testKeyRefused},
	{"API keys of one name at once are one", testKeyConcurrent},
}

func apiKey(id, name string) store.APIKey {
	return store.APIKey{ID: id, Namespace: ns, Name: name, Roles: []string{"read", "post"}, Hash: "hash of " + id, CreatedBy: "root"}
}

func createKey(t *testing.T, s whole, k store.APIKey) store.APIKey {
	t.Helper()
	made, err := s.CreateAPIKey(t.Context(), k)
	require.NoError(t, err)
	return made
}

func testKeyRoundTrip(t *testing.T, s whole) {
	has, err := s.HasAPIKeys(t.Context())
	require.NoError(t, err)
	require.False(t, has)
	_, err = s.APIKey(t.Context(), "k1")
	require.ErrorIs(t, err, store.ErrNotFound)
	for _, id := range []string{"", "a\x00b", "\xff"} {
		_, err = s.APIKey(t.Context(), id)
		require.ErrorIs(t, err, store.ErrNotFound, "%q", id)
	}

	given := apiKey("k1", "Ann \u00e9")
	given.ExpiresAt = start
	given.RevokedAt, given.RevokedBy, given.PreviousHash = start, "eve", "old"
	before := time.Now().Add(-time.Minute)
	made := createKey(t, s, given)
	require.WithinRange(t, made.CreatedAt, before, time.Now().Add(time.Minute))
	require.Equal(t, time.UTC, made.CreatedAt.Location())
	want := given
	want.CreatedAt, want.ExpiresAt = made.CreatedAt, start.UTC().Truncate(time.Microsecond)
	want.RevokedAt, want.RevokedBy, want.PreviousHash = time.Time{}, "", ""
	require.Equal(t, want, made)

	found, err := s.APIKey(t.Context(), "k1")
	require.NoError(t, err)
	require.Equal(t, made, found)
	has, err = s.HasAPIKeys(t.Context())
	require.NoError(t, err)
	require.True(t, has)
}

func testKeyNames(t *testing.T, s whole) {
	createKey(t, s, apiKey("k1", "ann"))
	for _, k := range []store.APIKey{apiKey("k1", "bob"), apiKey("k2", "ann"), apiKey("k2", "ANN")} {
		_, err := s.CreateAPIKey(t.Context(), k)
		require.ErrorIs(t, err, store.ErrExists, "%s %s", k.ID, k.Name)
	}
	_, err := s.RevokeAPIKey(t.Context(), ns, "k1", "root")
	require.NoError(t, err)
	createKey(t, s, apiKey("k2", "ANN"))
	_, err = s.CreateAPIKey(t.Context(), apiKey("k1", "bob"))
	require.ErrorIs(t, err, store.ErrExists, "the id of a revoked key stays taken")
}

func testKeyList(t *testing.T, s whole) {
	none, err := s.APIKeys(t.Context(), ns)
	require.NoError(t, err)
	require.Empty(t, none)
	a := createKey(t, s, apiKey("k1", "ann"))
	createKey(t, s, apiKey("k2", "Bob"))
	c := createKey(t, s, apiKey("k3", "carl"))
	b, err := s.RevokeAPIKey(t.Context(), ns, "k2", "root")
	require.NoError(t, err)
	all, err := s.APIKeys(t.Context(), ns)
	require.NoError(t, err)
	require.Equal(t, []store.APIKey{a, c, b}, all)
}

func testKeyRotated(t *testing.T, s whole) {
	createKey(t, s, apiKey("k1", "ann"))
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	rotated, err := s.RotateAPIKey(t.Context(), ns, "k1", "second", until)
	require.NoError(t, err)
	require.Equal(t, "second", rotated.Hash)
	require.Equal(t, "hash of k1", rotated.PreviousHash)
	require.Equal(t, until, rotated.PreviousUntil)
	require.False(t, rotated.RotatedAt.IsZero())
	found, err := s.APIKey(t.Context(), "k1")
	require.NoError(t, err)
	require.Equal(t, rotated, found)

	rotated, err = s.RotateAPIKey(t.Context(), ns, "k1", "third", time.Time{})
	require.NoError(t, err)
	require.Empty(t, rotated.PreviousHash)
	require.True(t, rotated.PreviousUntil.IsZero())

	for name, k := range map[string][2]string{"unknown": {ns, "k9"}, "elsewhere": {"other", "k1"}, "no text": {ns, "\x00"}} {
		_, err = s.RotateAPIKey(t.Context(), k[0], k[1], "fourth", time.Time{})
		require.ErrorIs(t, err, store.ErrNotFound, name)
	}
	_, err = s.RevokeAPIKey(t.Context(), ns, "k1", "root")
	require.NoError(t, err)
	_, err = s.RotateAPIKey(t.Context(), ns, "k1", "fourth", time.Time{})
	require.ErrorIs(t, err, store.ErrNotFound, "a revoked key does not come back")
}

func testKeyRevoked(t *testing.T, s whole) {
	createKey(t, s, apiKey("k1", "ann"))
	revoked, err := s.RevokeAPIKey(t.Context(), ns, "k1", "root")
	require.NoError(t, err)
	require.False(t, revoked.RevokedAt.IsZero())
	require.Equal(t, "root", revoked.RevokedBy)
	again, err := s.RevokeAPIKey(t.Context(), ns, "k1", "eve")
	require.NoError(t, err)
	require.Equal(t, revoked, again)
	found, err := s.APIKey(t.Context(), "k1")
	require.NoError(t, err)
	require.Equal(t, revoked, found)
	has, err := s.HasAPIKeys(t.Context())
	require.NoError(t, err)
	require.True(t, has, "a revoked key counts")
	for name, k := range map[string][2]string{"unknown": {ns, "k9"}, "elsewhere": {"other", "k1"}} {
		_, err = s.RevokeAPIKey(t.Context(), k[0], k[1], "root")
		require.ErrorIs(t, err, store.ErrNotFound, name)
	}
}

func testKeyNamespaces(t *testing.T, s whole) {
	mine := createKey(t, s, apiKey("k1", "ann"))
	other := apiKey("k2", "ann")
	other.Namespace = "other"
	other = createKey(t, s, other)
	for namespace, want := range map[string]store.APIKey{ns: mine, "other": other} {
		all, err := s.APIKeys(t.Context(), namespace)
		require.NoError(t, err)
		require.Equal(t, []store.APIKey{want}, all)
	}
	found, err := s.APIKey(t.Context(), "k2")
	require.NoError(t, err)
	require.Equal(t, "other", found.Namespace, "the id alone finds a key")
}

func testKeyRefused(t *testing.T, s whole) {
	for name, change := range map[string]func(*store.APIKey){
		"no id":        func(k *store.APIKey) { k.ID = "" },
		"no namespace": func(k *store.APIKey) { k.Namespace = "" },
		"no name":      func(k *store.APIKey) { k.Name = "" },
		"bad name":     func(k *store.APIKey) { k.Name = "a\x00" },
		"no hash":      func(k *store.APIKey) { k.Hash = "" },
		"no roles":     func(k *store.APIKey) { k.Roles = nil },
		"empty role":   func(k *store.APIKey) { k.Roles = []string{""} },
		"bad creator":  func(k *store.APIKey) { k.CreatedBy = "\xff" },
	} {
		k := apiKey("k1", "ann")
		change(&k)
		_, err := s.CreateAPIKey(t.Context(), k)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.CreateAPIKey(ended, apiKey("k1", "ann"))
	require.Error(t, err)
	has, err := s.HasAPIKeys(t.Context())
	require.NoError(t, err)
	require.False(t, has, "nothing was stored")
}

func testKeyConcurrent(t *testing.T, s whole) {
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		wg.Go(func() { _, results[i] = s.CreateAPIKey(t.Context(), apiKey("k"+strings.Repeat("x", i+1), "ann")) })
	}
	wg.Wait()
	created := 0
	for _, err := range results {
		if err == nil {
			created++
			continue
		}
		require.ErrorIs(t, err, store.ErrExists)
	}
	require.Equal(t, 1, created)
}
