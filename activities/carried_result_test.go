package activities_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/tool"
)

// TestToolResultInHistory: history has a shortened result, like a reply; the store has all of it. A
// retried step returns the same.
func TestToolResultInHistory(t *testing.T) {
	repeat := tool.MustFunc("repeat", "Repeats.", func(_ context.Context, _ tool.Call, in struct {
		N int `json:"n"`
	},
	) (string, error) {
		return strings.Repeat("é", in.N), nil
	})
	w := newFixture(t, nil, repeat)
	in := w.asked(call("c1", "repeat", `{"n":10000}`))
	for range 2 {
		out, err := w.runTool(in)
		require.NoError(t, err)
		require.Equal(t, `{"n":10000}`, out.Arguments)
		require.Equal(t, strings.Repeat("é", step.MaxCarriedContent/2), out.Result)
		require.True(t, out.Truncated)
		require.Len(t, stored[event.Message](w, "c1.result").Content, 20000)
	}
}
