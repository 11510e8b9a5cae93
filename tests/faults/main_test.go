// Package faults tests what threads keep when their worker, store, stream or provider fails.
package faults

import (
	"testing"

	"github.com/threadmill/threadmill/tests/internal/killing"
)

// TestMain turns the test binary into a worker, for tests that kill it.
func TestMain(m *testing.M) {
	killing.Main(m, map[string]killing.Kind{"guarded": guarded, "recovering": recovering})
}
