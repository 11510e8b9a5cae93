// Package examples runs the programs of examples/, and checks that the guides show their code.
package examples

import (
	"testing"

	"github.com/threadmill/threadmill/tests/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
