package check

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
)

// MovesOften makes threads continue as new after few events.
var MovesOften = map[string]any{"limit.historyCount.suggestContinueAsNew": 40}

// Work runs a worker until stop is called or the test ends.
func Work(t *testing.T, cfg threadmill.Config) (stop func()) {
	t.Helper()
	r, err := threadmill.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(t, r.Run(ctx))
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}
