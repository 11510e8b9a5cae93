package activities_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/tool"
)

// TestUnfitCallNeverRuns plans a call that cannot run, and so needs no approval; when it gets its
// result, the tool has become able to run it.
func TestUnfitCallNeverRuns(t *testing.T) {
	dangerous := &raw{
		def: tool.Definition{Name: "dangerous", Description: "d", Parameters: []byte(`{"type":"object"}`), NeedsApproval: true},
		do:  func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Output: "ran"}, nil },
	}
	w := newFixture(t, nil, dangerous)
	in := w.asked(call("c1", "dangerous", `{}`))
	in.Invalid = true
	out, err := w.runTool(in)
	require.NoError(t, err)
	require.Equal(t, "failed", out.Status)
	require.Zero(t, dangerous.runs.Load())
}
