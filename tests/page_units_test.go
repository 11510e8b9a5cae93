package tests

import (
	"testing"

	"github.com/threadmill/threadmill/internal/testenv"
)

// TestPageUnits runs the tests of the page's parts that need no browser: tests/npm/page.mjs.
func TestPageUnits(t *testing.T) {
	output(t, testenv.Node(t, "page.mjs"))
}
