package threadmilltest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/threadmilltest/embedded"
)

// server starts the Temporal server that the tests of a binary share. It is in memory and ends with
// the process.
var server = sync.OnceValues(func() (*embedded.Server, error) {
	return embedded.Start(context.Background(), embedded.Config{
		Addr: "127.0.0.1:0", SearchAttributes: searchattr.Types(), Logger: slog.New(slog.DiscardHandler),
		DynamicConfig: map[string]any{"frontend.WorkflowTimeSkippingEnabled": true, "history.timerProcessorMaxTimeShift": time.Millisecond},
	})
})

// Temporal returns a client of the Temporal server that the tests of a binary share, for tests that
// need no [Runtime]. It is closed when the test ends.
func Temporal(t testing.TB) client.Client {
	t.Helper()
	return dial(t, slog.New(slog.DiscardHandler))
}

func dial(t testing.TB, log *slog.Logger) client.Client {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatalf("threadmilltest: starting the Temporal server of the tests: %v", err)
	}
	c, err := client.Dial(client.Options{
		HostPort: s.Addr(), Namespace: s.Namespace(), Identity: t.Name(), Logger: sdklog.NewStructuredLogger(log),
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: patience, GrpcCompression: &client.GrpcCompressionNone{}},
	})
	if err != nil {
		t.Fatalf("threadmilltest: connecting to the Temporal server of the tests: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}
