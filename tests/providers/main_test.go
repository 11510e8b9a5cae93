package providers

import (
	"testing"

	"github.com/threadmill/threadmill/tests/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
