// Package knowledge tests what agents find in documents, and what they know about people and things.
package knowledge

import (
	"testing"

	"github.com/threadmill/threadmill/tests/internal/killing"
)

// TestMain turns the test binary into a worker, for tests that kill it.
func TestMain(m *testing.M) {
	killing.Main(m, map[string]killing.Kind{"reads": reads, "learns": learns})
}
