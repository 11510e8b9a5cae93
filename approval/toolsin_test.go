package approval_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/approval"
)

func TestToolsIn(t *testing.T) {
	for when, want := range map[string][]string{
		"":                            nil,
		"tool ==":                     nil,
		`args.tool == "refund"`:       nil,
		`tool.startsWith("ref")`:      nil,
		`tool == "refund"`:            {"refund"},
		`"refund" != tool && true`:    {"refund"},
		`tool in ["refund", "order"]`: {"refund", "order"},
		`tool in args.tools`:          nil,
		`args.tools.exists(tool, tool == "hammer")`:                                 nil,
		`has(args.x) ? tool == agent : (tool == "a" || ["b"].exists(x, tool == x))`: {"a"},
	} {
		require.Equal(t, want, approval.ToolsIn(when), when)
	}
}
