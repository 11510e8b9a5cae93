package near_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/names/near"
)

func TestTo(t *testing.T) {
	known := []string{"apiKeyEnv", "model", "gome", "gone-2", "refund", "other"}
	for name, want := range map[string][]string{
		"api_key_env": {"apiKeyEnv"},
		"modle":       {"model"},
		"gone":        {"gome", "gone-2"},
		"api":         {"apiKeyEnv"},
		"oter":        {"other"},
		"nobody":      {},
		"":            {},
		"-":           {},
	} {
		require.Equal(t, want, near.To(name, known), name)
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"refund", "add"}
	for name, want := range map[string]string{
		"refnd":        `did you mean "refund"?`,
		"Refund":       `did you mean "refund"? (upper and lower case differ)`,
		"refund\u200b": `did you mean "refund"? (yours has a character that is not visible)`,
		"refund ":      `did you mean "refund"? (yours has a character that is not visible)`,
		"pay_back":     "known are add, refund",
	} {
		require.Equal(t, want, near.Suggest(name, known), "%q", name)
	}
	require.Equal(t, "none exists", near.Suggest("refund", nil))
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf("tool_%04d", i))
	}
	require.Contains(t, near.Suggest("x", many), "tool_0019 and 4980 others")
}
