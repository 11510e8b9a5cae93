// Package redaction searches everything that is kept for text that must not be.
package redaction

import (
	"testing"

	"github.com/threadmill/threadmill/tests/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
