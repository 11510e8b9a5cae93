package vertex_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm/anthropic/vertex"
)

func TestNew(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_PROJECT", "another-project")
	for field, config := range map[string]vertex.Config{
		"Region: is required":     {Project: "project-1"},
		"Region: \"us-east-5\"":   {Project: "project-1", Region: "us-east-5"},
		"Project: is required":    {Region: "us-east5"},
		"Project: \"My Project\"": {Project: "My Project", Region: "us-east5"},
	} {
		_, err := vertex.New(config)
		require.ErrorContains(t, err, "vertex: "+field)
	}
}
