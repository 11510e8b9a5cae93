package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/server"
)

// TestCORS sends what browsers send for pages of the server itself, of an allowed origin and of
// others.
func TestCORS(t *testing.T) {
	const app = "https://app.example"
	send := func(t *testing.T, w *world, method, origin string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(w.ctx, method, w.url+"/v1/threads", strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", origin)
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res
	}
	preflight := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,last-event-id"}

	t.Run("no origin by default", func(t *testing.T) {
		w := newWorld(t)
		assert.Equal(t, http.StatusForbidden, send(t, w, "POST", app).StatusCode)
		for _, res := range []*http.Response{send(t, w, "GET", app), send(t, w, "OPTIONS", app, preflight...)} {
			assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
		}
		assert.Empty(t, w.threads.opens)
	})
	w := newWorld(t, func(c *server.Config) { c.AllowedOrigins = []string{app} })
	t.Run("an allowed origin", func(t *testing.T) {
		res := send(t, w, "OPTIONS", app, preflight...)
		assert.Equal(t, http.StatusNoContent, res.StatusCode)
		assert.Equal(t, app, res.Header.Get("Access-Control-Allow-Origin"))
		assert.Equal(t, "POST", res.Header.Get("Access-Control-Allow-Methods"))
		assert.Equal(t, preflight[3], res.Header.Get("Access-Control-Allow-Headers"))
		assert.Empty(t, res.Header.Get("Access-Control-Allow-Credentials"))
		res = send(t, w, "POST", app)
		assert.Equal(t, http.StatusCreated, res.StatusCode)
		assert.Equal(t, app, res.Header.Get("Access-Control-Allow-Origin"))
		assert.Contains(t, res.Header.Get("Access-Control-Expose-Headers"), "Location")
	})
	for _, origin := range []string{"https://evil.example", "http://app.example", "https://app.example.evil", "https://app.example:444", "null"} {
		t.Run("another origin "+origin, func(t *testing.T) {
			opened := len(w.threads.opens)
			assert.Equal(t, http.StatusForbidden, send(t, w, "POST", origin).StatusCode)
			for _, res := range []*http.Response{send(t, w, "GET", origin), send(t, w, "OPTIONS", origin, preflight...)} {
				assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
			}
			assert.Len(t, w.threads.opens, opened)
		})
	}
	for _, origin := range []string{"*", "null", "app.example", "https://app.example/", "https://*.example", "ftp://app.example", "https://a b"} {
		_, err := server.New(server.Config{Threads: w.threads, Backend: w.backend(), AllowedOrigins: []string{origin}})
		require.ErrorContains(t, err, "Config.AllowedOrigins: ", origin)
	}
}
