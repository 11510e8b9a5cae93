package bedrock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm/anthropic"
	"github.com/threadmill/threadmill/llm/anthropic/bedrock"
)

func TestNew(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "eu-west-1")
	for field, config := range map[string]bedrock.Config{
		"bedrock: Region":     {},
		"bedrock: Region: \"": {Region: "europe"},
		"anthropic: APIKey":   {Region: "eu-west-1", Config: anthropic.Config{APIKey: "sk"}},
		"anthropic: BaseURL":  {Region: "eu-west-1", Config: anthropic.Config{BaseURL: "x"}},
	} {
		_, err := bedrock.New(t.Context(), config)
		require.ErrorContains(t, err, field)
	}
	_, err := bedrock.New(t.Context(), bedrock.Config{Region: "us-gov-west-1"})
	require.NoError(t, err)
}
