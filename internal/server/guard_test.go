package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/server"
)

// TestDNSRebinding: a web page that has pointed its own name at this machine is the same
// origin for its browser, so that only Host tells its requests from others.
func TestDNSRebinding(t *testing.T) {
	w := newWorld(t, func(c *server.Config) { c.AllowedHosts = []string{"threadmill.example"} })
	port := w.url[strings.LastIndex(w.url, ":"):]
	status := func(host, method, path, body string) int {
		req, err := http.NewRequestWithContext(w.ctx, method, w.url+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Host = host
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", "http://"+host)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	for _, path := range []string{"/docs", "/openapi.json", "/healthz", "/readyz", "/v1/threads", "/nothing"} {
		require.Equal(t, http.StatusMisdirectedRequest, status("evil.example"+port, "GET", path, ""), path)
	}
	require.Equal(t, http.StatusMisdirectedRequest, status("evil.example"+port, "POST", "/v1/threads", `{"id":"t1"}`))
	require.Empty(t, w.threads.opens)
	for _, host := range []string{"localhost" + port, "threadmill.example", "threadmill.example" + port} {
		require.Equal(t, http.StatusOK, status(host, "GET", "/healthz", ""), host)
		require.Equal(t, http.StatusCreated, status(host, "POST", "/v1/threads", `{}`), host)
	}
	_, err := server.New(server.Config{Threads: w.threads, Backend: w.backend(), AllowedHosts: []string{"http://a"}})
	require.ErrorContains(t, err, `Config.AllowedHosts: "http://a" is not a host name`)
	_, err = server.New(server.Config{Threads: w.threads, Backend: w.backend(), Limits: guard.Limits{BodyTimeout: -time.Second}})
	require.ErrorContains(t, err, "Config.Limits.BodyTimeout")
}
