//go:build resources

package markdown_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/threadmill/threadmill/internal/text/markdown"
)

// TestRenderCosts: no text takes more memory than a multiple of its size.
func TestRenderCosts(t *testing.T) {
	for _, size := range []int{4800, 52_000, 64 << 10, 400_000} {
		for name, source := range attacks(size) {
			t.Run(fmt.Sprintf("%s of %d bytes", name, size), func(t *testing.T) {
				var got []markdown.Node
				assert.Less(t, allocated(func() { got = markdown.Render(source) }), uint64(256))
				assert.Less(t, depth(got), 70)
				assert.Less(t, len(outline(got)), 2<<20+12*len(source))
			})
		}
	}
}

// TestRenderBudget: the texts of one request share a budget.
func TestRenderBudget(t *testing.T) {
	code := "```go\n" + strings.Repeat("if a { b(c) }\n", 1000) + "```"
	budget := markdown.NewBudget()
	rendered, plain := 0, 0
	assert.Less(t, allocated(func() {
		for range 200 {
			if got := outline(budget.Render(code)); got == "[pre "+code+"]" {
				plain++
			} else {
				rendered++
			}
		}
	}), uint64(512))
	assert.Positive(t, rendered)
	assert.Positive(t, plain)
}
