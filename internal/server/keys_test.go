package server_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/server"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
)

// withKeys lets the server accept API keys; pass moves its clock, so that keys are read again.
func withKeys(t *testing.T, required bool, configured ...auth.Key) (change func(*server.Config), pass func()) {
	now := time.Now()
	return func(c *server.Config) {
		keys, err := auth.NewKeys(auth.KeysConfig{
			Store: teststore.Of(c.Store), Required: required, Keys: configured, Now: func() time.Time { return now },
		})
		require.NoError(t, err)
		c.Authenticator = keys
	}, func() { now = now.Add(3 * time.Second) }
}

func tokenOf(t *testing.T, got answer, status int) (id string, header []string) {
	t.Helper()
	require.Equal(t, status, got.status, got.text)
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	return got.body["key"].(object)["id"].(string), bearer(got.body["token"].(string))
}

// TestFirstKey: without keys everybody is let in; the first key has to be an administrator's, and
// from then on everybody needs one.
func TestFirstKey(t *testing.T) {
	keys, pass := withKeys(t, false)
	w := newWorld(t, keys)
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/threads", nil).status)
	got := w.call("POST", "/v1/keys", object{"name": "ci", "roles": []string{"read"}})
	assert.Equal(t, []string{"body.roles"}, got.problem(t, http.StatusUnprocessableEntity))
	assert.Contains(t, got.text, "first key")

	_, root := tokenOf(t, w.call("POST", "/v1/keys", object{"name": "root", "roles": []string{"admin"}}), http.StatusCreated)
	pass()
	denied := w.call("GET", "/v1/threads", nil)
	denied.problem(t, http.StatusUnauthorized)
	assert.Contains(t, denied.text, "starter keys create", "the way out")
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/threads", nil, root...).status)
	tokenOf(t, w.call("POST", "/v1/keys", object{"name": "ci", "roles": []string{"read"}}, root...), http.StatusCreated)
}

func TestKeys(t *testing.T) {
	ops := auth.TokenFor("ops")
	log := &bytes.Buffer{}
	keys, pass := withKeys(t, true, auth.Key{Name: "ops", Roles: auth.Roles{auth.RoleAdmin}, Hash: ops.Hash()},
		auth.Key{Name: "elsewhere", Namespace: "other", Roles: auth.Roles{auth.RoleAdmin}, Hash: auth.TokenFor("x").Hash()})
	w := newWorld(t, keys, func(c *server.Config) {
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	admin := bearer(ops.Reveal())
	status := func(header []string) int {
		pass()
		return w.call("GET", "/v1/threads", nil, header...).status
	}
	id, ann := tokenOf(t, w.call("POST", "/v1/keys", object{"name": "ann", "roles": []string{"approve", "read"}}, admin...), http.StatusCreated)
	require.Equal(t, http.StatusOK, status(ann))

	t.Run("listed without secrets", func(t *testing.T) {
		got := w.call("GET", "/v1/keys", nil, admin...).ok(t, http.StatusOK)
		list := got.body["keys"].([]any)
		require.Len(t, list, 2, "not that of another namespace")
		assert.Equal(t, object{"name": "ops", "roles": []any{"admin"}, "source": "configured"}, list[0])
		assert.Equal(t, "ops", list[1].(object)["createdBy"])
		assert.Equal(t, []any{"read", "approve"}, list[1].(object)["roles"])
		assert.NotContains(t, got.text, "sha256")
		assert.NotContains(t, got.text, "tmk_")
	})
	for name, c := range map[string]struct {
		body     object
		status   int
		location string
	}{
		"taken":           {object{"name": "ANN", "roles": []string{"read"}}, 409, ""},
		"configured":      {object{"name": "Ops", "roles": []string{"read"}}, 409, ""},
		"reserved":        {object{"name": "system", "roles": []string{"read"}}, 422, "body.name"},
		"invisible":       {object{"name": "ann\u200b", "roles": []string{"read"}}, 422, "body.name"},
		"unknown role":    {object{"name": "x", "roles": []string{"root"}}, 422, "body.roles[0]"},
		"no role":         {object{"name": "x", "roles": []string{}}, 422, "body.roles"},
		"role twice":      {object{"name": "x", "roles": []string{"read", "read"}}, 422, "body.roles"},
		"expired already": {object{"name": "x", "roles": []string{"read"}, "expiresAt": "2020-01-01T00:00:00Z"}, 422, "body.expiresAt"},
	} {
		t.Run(name, func(t *testing.T) {
			locations := w.call("POST", "/v1/keys", c.body, admin...).problem(t, c.status)
			if c.location != "" {
				assert.Equal(t, []string{c.location}, locations)
			}
		})
	}

	rotated, next := tokenOf(t, w.call("POST", "/v1/keys/"+id+"/rotate", object{"overlap": "1h"}, admin...), http.StatusOK)
	require.Equal(t, id, rotated)
	require.Equal(t, http.StatusOK, status(ann))
	require.Equal(t, http.StatusOK, status(next))
	_, last := tokenOf(t, w.call("POST", "/v1/keys/"+id+"/rotate", nil, admin...), http.StatusOK)
	require.Equal(t, http.StatusUnauthorized, status(ann))
	require.Equal(t, http.StatusUnauthorized, status(next))
	require.Equal(t, http.StatusOK, status(last))
	for _, overlap := range []string{"1", "-1h", "200h"} {
		assert.Equal(t, []string{"body.overlap"}, w.call("POST", "/v1/keys/"+id+"/rotate", object{"overlap": overlap}, admin...).problem(t, 422))
	}

	rootID, root := tokenOf(t, w.call("POST", "/v1/keys", object{"name": "root", "roles": []string{"admin"}}, admin...), http.StatusCreated)
	w.call("DELETE", "/v1/keys/"+rootID, nil, root...).problem(t, http.StatusConflict)
	require.Equal(t, http.StatusNoContent, w.call("DELETE", "/v1/keys/"+id, nil, root...).status)
	require.Equal(t, http.StatusUnauthorized, status(last))
	require.Equal(t, http.StatusNoContent, w.call("DELETE", "/v1/keys/"+id, nil, root...).status, "again")
	w.call("POST", "/v1/keys/"+id+"/rotate", nil, root...).problem(t, http.StatusNotFound)
	w.call("DELETE", "/v1/keys/nobody", nil, root...).problem(t, http.StatusNotFound)
	w.call("POST", "/v1/keys/no%20body/rotate", nil, root...).problem(t, http.StatusNotFound)
	assert.Len(t, w.call("GET", "/v1/keys", nil, root...).body["keys"], 2)
	all := w.call("GET", "/v1/keys?revoked=true", nil, root...).body["keys"].([]any)
	require.Len(t, all, 3)
	assert.Equal(t, "root", all[2].(object)["revokedBy"])

	assert.Contains(t, log.String(), "API key revoked")
	for _, secret := range [][]string{admin, ann, next, last, root} {
		assert.NotContains(t, log.String(), strings.TrimPrefix(secret[1], "Bearer "))
	}
}

// TestKeysWithoutRing: where keys would do nothing, none is created.
func TestKeysWithoutRing(t *testing.T) {
	w := newWorld(t)
	w.call("POST", "/v1/keys", object{"name": "root", "roles": []string{"admin"}}).problem(t, http.StatusConflict)
	w.call("POST", "/v1/keys/x/rotate", nil).problem(t, http.StatusConflict)
}

// TestRevokedKeyEndsStreams: with stored keys, from the creation to the end.
func TestRevokedKeyEndsStreams(t *testing.T) {
	w := newWorld(t, func(c *server.Config) {
		c.AuthCheckInterval = 20 * time.Millisecond
		keys, err := auth.NewKeys(auth.KeysConfig{Store: teststore.Of(c.Store), Required: true})
		require.NoError(t, err)
		c.Authenticator = keys
	})
	id, token := auth.NewToken()
	_, err := w.store.CreateAPIKey(w.ctx, store.APIKey{
		ID: id, Namespace: "default", Name: "root", Roles: []string{"admin"}, Hash: token.Hash(),
	})
	require.NoError(t, err)
	root := bearer(token.Reveal())
	require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": "t1"}, root...).status)
	viewer, reads := tokenOf(t, w.call("POST", "/v1/keys", object{"name": "viewer", "roles": []string{"read"}}, root...), http.StatusCreated)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.url+"/v1/threads/t1/events", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set(reads[0], reads[1])
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, http.StatusNoContent, w.call("DELETE", "/v1/keys/"+viewer, nil, root...).status)
	_, err = new(bytes.Buffer).ReadFrom(res.Body)
	require.NoError(t, err, "the stream ends")
}
