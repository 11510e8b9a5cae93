package page

import (
	"testing"

	"github.com/threadmill/threadmill/internal/testenv"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestPageUnits runs the tests of the page's parts that need no browser: tests/npm/page.mjs.
func TestPageUnits(t *testing.T) {
	t.Parallel()
	proc.Output(t, testenv.Node(t, "page.mjs"))
}
