package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/server"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello %s", auth.FromContext(r.Context()).Name)
})

// TestRoutes: handlers of the application have the API's authentication.
func TestRoutes(t *testing.T) {
	w := newWorld(t, withBadges, func(c *server.Config) {
		c.Routes = func() []server.Route {
			return []server.Route{
				{Pattern: "POST /refunds/{id}", Handler: hello, Role: auth.RolePost},
				{Pattern: "/anybody", Handler: hello},
				{Pattern: "GET /welcome", Handler: hello, Public: true},
				{Pattern: "GET /broken", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oops") }), Public: true},
			}
		}
	})
	for _, c := range []struct {
		method, path, badge string
		status              int
		text                string
	}{
		{"POST", "/refunds/1", "", http.StatusUnauthorized, "show a badge"},
		{"POST", "/refunds/1", "ann read", http.StatusForbidden, "this needs the role post"},
		{"POST", "/refunds/1", "elsewhere", http.StatusForbidden, "another namespace"},
		{"POST", "/refunds/1", "ann post", http.StatusOK, "hello ann"},
		{"GET", "/refunds/1", "ann post", http.StatusMethodNotAllowed, "GET is not allowed here: POST"},
		{"GET", "/anybody", "", http.StatusUnauthorized, "show a badge"},
		{"GET", "/anybody", "bob read", http.StatusOK, "hello bob"},
		{"GET", "/welcome", "", http.StatusOK, "hello "},
		{"GET", "/broken", "", http.StatusInternalServerError, "internal error"},
	} {
		var header []string
		if c.badge != "" {
			header = bearer(c.badge)
		}
		got := w.call(c.method, c.path, nil, header...)
		require.Equal(t, c.status, got.status, "%+v: %s", c, got.text)
		require.Contains(t, got.text, c.text, "%+v", c)
	}
}

func TestRoutesRefused(t *testing.T) {
	w := newWorld(t)
	for says, r := range map[string]server.Route{
		`pattern "GET /v1/threads" is in the paths of the API`: {Pattern: "GET /v1/threads", Handler: hello},
		`pattern "/metrics" is in the paths of the API`:        {Pattern: "/metrics", Handler: hello},
		`pattern "GET evil.example/" must be a path`:           {Pattern: "GET evil.example/", Handler: hello},
		`pattern "" must be a path`:                            {Handler: hello},
		`pattern "/a" has no handler`:                          {Pattern: "/a"},
		`pattern "/a" is public and needs the role post`:       {Pattern: "/a", Handler: hello, Public: true, Role: auth.RolePost},
		`pattern "/a": unknown role "chef"`:                    {Pattern: "/a", Handler: hello, Role: "chef"},
		`pattern "GET /{": `:                                   {Pattern: "GET /{", Handler: hello},
		`Config.Routes[0]: pattern "GET /{$}": pattern "GET`:   {Pattern: "GET /{$}", Handler: hello},
	} {
		_, err := server.New(server.Config{
			Threads: w.threads, Backend: w.backend(),
			Routes: func() []server.Route { return []server.Route{r} },
		})
		require.ErrorContains(t, err, says)
	}
}
