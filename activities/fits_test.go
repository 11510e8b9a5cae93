package activities

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFits: of the numbers in an error, those are taken that can be the tokens of the request and a limit.
func TestFits(t *testing.T) {
	for said, want := range map[string]float64{
		"maximum context length is 25000 tokens. However, you requested about 100000 tokens.":                0.25,
		"prompt is too long: 210000 tokens > 105000 maximum":                                                 0.5,
		"gpt-4-0125 (2026-11-30, request 98765432109): prompt has 100000 tokens, the limit is 80000":         0.8,
		"The input token count (128000) exceeds the maximum number of tokens allowed (32000). code 400 2024": 0.25,
		"claude-3-5-sonnet-20241022: input is too long":                                                      0.5,
		"input is too long":               0.5,
		"100000 tokens are too many":      0.5,
		"limit 900, you sent 100000":      0.5,
		"99999999999999999999999999 9999": 0.5,
	} {
		require.InDelta(t, want, fits(said, 400_000), 1e-9, said)
	}
}
