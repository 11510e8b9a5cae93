package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tool"
)

type oneServer struct{ url string }

func (s oneServer) Servers(context.Context, string) ([]Server, error) {
	return []Server{{Name: "mine", URL: s.url}}, nil
}

// TestIdleNamespace: the connections of a namespace that nobody uses end, and begin again when somebody does.
func TestIdleNamespace(t *testing.T) {
	remote := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		return sdk.NewServer(&sdk.Implementation{Name: "empty"}, nil)
	}, nil))
	t.Cleanup(remote.Close)
	m, err := New(Config{Source: oneServer{remote.URL}, SourcePrivate: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	ready := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			states, err := m.States(ctx, "a")
			return err == nil && states[0].Status == tool.ServerReady
		}, testenv.Patience, time.Millisecond)
	}
	ready()
	require.False(t, m.forget("a"))
	require.False(t, m.forget(""))
	c := m.connection(account{key: key{"a", "mine"}})
	m.mu.Lock()
	m.namespaces["a"].usedAt = time.Now().Add(-2 * idleAfter)
	m.mu.Unlock()
	m.forget("a")
	<-c.stopped
	require.Nil(t, m.connection(account{key: key{"a", "mine"}}))
	ready()
	cancel()
	require.NoError(t, <-done)
}
