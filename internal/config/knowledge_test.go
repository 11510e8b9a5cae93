package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKnowledgeModels: each model of knowledge is one of a provider that exists, and an error names its field.
func TestKnowledgeModels(t *testing.T) {
	parse := func(field, model string) (*Config, error) {
		return Parse("f", []byte(fmt.Sprintf(`
models:
  m: {type: openai, baseURL: "http://127.0.0.1:1/v1"}
  chain: {type: fallback, chain: [m/a, m/b]}
agents: [{name: a, model: m/x}]
knowledge: {%s: %s}
`, field, model)), "", Env(env()))
	}
	for field, value := range map[string]func(Knowledge) string{
		"contextModel": func(k Knowledge) string { return k.ContextModel },
		"rerankModel":  func(k Knowledge) string { return k.RerankModel },
		"entityModel":  func(k Knowledge) string { return k.EntityModel },
	} {
		c, err := parse(field, "m/model")
		require.NoError(t, err, field)
		require.Equal(t, "m/model", value(c.Knowledge))
		for model, want := range map[string]string{
			"n/model": `unknown provider "n"`, "m": "is only the provider", "m/": "does not say the model", "chain": "is a fallback chain: name one model",
		} {
			_, err := parse(field, model)
			require.ErrorContains(t, err, "knowledge."+field, model)
			require.ErrorContains(t, err, want, model)
		}
	}
}
