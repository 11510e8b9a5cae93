package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoRedirects: what a person posts goes to the configured server only.
func TestNoRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other server was asked") }))
	t.Cleanup(other.Close)
	for _, status := range []int{302, 307, 308} {
		c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, status)
		}))
		_, err := c.Agents(t.Context(), AllAgents)
		require.ErrorContains(t, err, "redirects to "+strings.TrimPrefix(other.URL, "http://"))
	}
}
