package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPresence says who else looks at a thread.
func TestPresence(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, http.StatusCreated, w.call("POST", "/v1/threads", object{"id": "t1"}).status)
	see := func(body object) []any {
		t.Helper()
		others := w.call("POST", "/v1/threads/t1/presence", body).ok(t, http.StatusOK).body["others"].([]any)
		for _, o := range others {
			require.NotEmpty(t, o.(object)["since"])
			delete(o.(object), "since")
		}
		return others
	}
	assert.Empty(t, see(object{"id": "w1", "by": "ann"}))
	assert.Equal(t, []any{object{"name": "ann"}}, see(object{"id": "w1", "by": "bob"}), "the same id of somebody else is another window")
	assert.Equal(t, []any{object{"name": "ann"}, object{"name": "bob"}}, see(object{"id": "w2", "by": "ann"}))
	assert.Empty(t, see(object{"id": "w1", "by": "ann", "left": true}))
	assert.Equal(t, []any{object{"name": "ann"}}, see(object{"id": "w1", "by": "bob"}))

	w.call("POST", "/v1/threads/nobody/presence", object{"id": "w1", "by": "ann"}).problem(t, http.StatusNotFound)
	assert.Equal(t, []string{"body.by"}, w.call("POST", "/v1/threads/t1/presence", object{"id": "w1"}).problem(t, 422))
	assert.Equal(t, []string{"body.id"}, w.call("POST", "/v1/threads/t1/presence", object{"id": "", "by": "ann"}).problem(t, 422))
	require.NoError(t, w.stream.Close())
	w.call("POST", "/v1/threads/t1/presence", object{"id": "w1", "by": "ann"}).problem(t, http.StatusServiceUnavailable)
}
