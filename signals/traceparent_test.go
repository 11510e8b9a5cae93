package signals

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTraceparent: only a trace context is accepted, so that no other text gets into traces.
func TestTraceparent(t *testing.T) {
	p := UserMessage("t1", "ann", "hello")
	for _, ok := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"} {
		p.Traceparent = ok
		require.NoError(t, p.Validate("t1"))
	}
	for _, bad := range []string{
		"x", "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-and more",
	} {
		p.Traceparent = bad
		require.ErrorContains(t, p.Validate("t1"), "traceparent: ", bad)
	}
}
