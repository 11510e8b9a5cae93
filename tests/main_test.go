package tests

import (
	"testing"

	"github.com/threadmill/threadmill/tests/internal/killing"
)

// TestMain turns the test binary into a worker, for tests that kill it.
func TestMain(m *testing.M) {
	killing.Main(m, map[string]killing.Kind{
		"plays": plays,
	})
}
