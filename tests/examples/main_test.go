// Package examples runs the programs of examples/, checks that the guides show their code, and tests the main use cases on
// every combination of store and stream.
package examples

import (
	"testing"

	"github.com/threadmill/threadmill/tests/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
