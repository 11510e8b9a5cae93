package check

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
)

// Calm is a Config.StaleAfter for tests that count runs: longer than a machine stalls, so that
// no step counts as lost and runs twice. It is well below [testenv.Patience], because the server may give
// a step to a worker that has just stopped, which only this limit detects.
const Calm = 40 * time.Second

// Arrives waits for a moment.
func Arrives(t *testing.T, moment <-chan struct{}, what string) {
	t.Helper()
	limit := time.NewTimer(testenv.Patience)
	defer limit.Stop()
	select {
	case <-moment:
	case <-limit.C:
		require.Fail(t, "never came: "+what)
	}
}

// Decode decodes a payload.
func Decode[T any](t *testing.T, payload []byte) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(payload, &v))
	return v
}
