// Package hooks tests hooks, processors and the queue of events before them.
package hooks

import (
	"testing"

	"github.com/threadmill/threadmill/tests/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
