package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// one parses a file with one provider that an agent uses.
func one(fields string, environment ...string) (Provider, error) {
	c, err := Parse("f", []byte(fmt.Sprintf("models: {m: {%s}}\nagents: [{name: a, model: m/x}]\n", fields)), "", Env(env(environment...)))
	if err != nil {
		return Provider{}, err
	}
	return c.Models[0], nil
}

func TestClouds(t *testing.T) {
	const address = "https://ann.openai.azure.com"
	for _, tt := range []struct {
		name, fields string
		env          []string
		want         Provider
	}{
		{
			"Azure, of the file", "type: openai-azure, baseURL: " + address + ", apiKeyEnv: K, apiVersion: 2024-10-21, deployment: big",
			[]string{"K", "sk-1"},
			Provider{Type: OpenAIAzure, BaseURL: address, APIKey: "sk-1", Place: Place{APIVersion: "2024-10-21", Deployment: "big"}},
		},
		{
			"Azure, of the environment", "type: openai-responses-azure, reasoningSummary: detailed",
			[]string{"AZURE_OPENAI_API_KEY", "sk-1", "AZURE_OPENAI_ENDPOINT", address, "OPENAI_API_VERSION", "2025-04-01-preview"},
			Provider{Type: OpenAIResponsesAzure, BaseURL: address, APIKey: "sk-1", Place: Place{APIVersion: "2025-04-01-preview", ReasoningSummary: "detailed"}},
		},
		{"Bedrock, of the file", "type: anthropic-bedrock, region: us-gov-west-1", []string{"AWS_REGION", "eu-west-1"}, Provider{Type: AnthropicBedrock, Place: Place{Region: "us-gov-west-1"}}},
		{
			"Bedrock, of the environment", "type: anthropic-bedrock, baseURL: http://127.0.0.1:1",
			[]string{"AWS_DEFAULT_REGION", "eu-west-1", "ANTHROPIC_API_KEY", "sk-1"},
			Provider{Type: AnthropicBedrock, BaseURL: "http://127.0.0.1:1", Place: Place{Region: "eu-west-1"}},
		},
		{"Claude on Vertex", "type: anthropic-vertex, region: us-east5, project: project-1", nil, Provider{Type: AnthropicVertex, Place: Place{Region: "us-east5", Project: "project-1"}}},
		{
			"Gemini on Vertex", "type: google-vertex",
			[]string{"GOOGLE_CLOUD_PROJECT", "project-1", "GOOGLE_CLOUD_LOCATION", "global", "GEMINI_API_KEY", "sk-1"},
			Provider{Type: GoogleVertex, Place: Place{Region: "global", Project: "project-1"}},
		},
		{"a dialect", "type: openai, dialect: mistral, baseURL: 'https://api.mistral.ai/v1', apiKeyEnv: K", []string{"K", "sk-1"}, Provider{Type: OpenAI, BaseURL: "https://api.mistral.ai/v1", APIKey: "sk-1", Place: Place{Dialect: "mistral"}}},
		{"Responses", "type: openai-responses, reasoningSummary: off", []string{"OPENAI_API_KEY", "sk-1"}, Provider{Type: OpenAIResponses, APIKey: "sk-1", Place: Place{ReasoningSummary: "off"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Name = "m"
			got, err := one(tt.fields, tt.env...)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	c, err := Parse("f", []byte("agents: [{name: a, model: openai-responses/gpt-5}]\n"), "", Env(env(EnvAPIKey, "sk-1")))
	require.NoError(t, err, "it needs no entry")
	require.Equal(t, []Provider{{Name: "openai-responses", Type: OpenAIResponses, APIKey: "sk-1"}}, c.Models)
	require.Equal(t, map[string]string{"openai-responses": EnvAPIKey}, c.Keys)
	_, err = Parse("f", []byte("models: {m: {type: anthropic-bedrock}}\nagents: [{name: a, model: demo/demo}]\n"), "", Env(env()))
	require.NoError(t, err, "what nobody uses may be incomplete")
}

// TestCloudMistakes: what is wrong or missing is named with the way out.
func TestCloudMistakes(t *testing.T) {
	const azure = "type: openai-azure, baseURL: https://ann.openai.azure.com, apiKeyEnv: K"
	for _, tt := range []struct {
		name, fields string
		env          []string
		problem      string
	}{
		{"no region", "type: anthropic-bedrock", nil, "models.m.region: a provider of type anthropic-bedrock needs region: add region: us-east-1, or set AWS_REGION"},
		{"a region of Google", "type: anthropic-bedrock, region: us-east5", nil, `models.m.region: "us-east5" is no region of type anthropic-bedrock: write one such as us-east-1`},
		{"a region of AWS", "type: anthropic-vertex, project: project-1, region: us-east-1", nil, `models.m.region: "us-east-1" is no region of type anthropic-vertex: write one such as us-east5`},
		{"a region of the environment", "type: anthropic-bedrock", []string{"AWS_REGION", "europe"}, `the environment variable AWS_REGION is "europe", which is no region`},
		{"no project", "type: google-vertex, region: global", nil, "models.m.project: a provider of type google-vertex needs project: add project: my-project-123, or set GOOGLE_CLOUD_PROJECT"},
		{"a project that is none", "type: google-vertex, region: global, project: My Project", nil, `models.m.project: "My Project" is no project`},
		{"a key of Bedrock", "type: anthropic-bedrock, region: us-east-1, apiKeyEnv: K", []string{"K", "sk-1"}, "models.m.apiKeyEnv: a provider of type anthropic-bedrock takes the credentials of the cloud"},
		{"a region of OpenAI", "type: openai, baseURL: http://127.0.0.1:1, region: us-east-1", nil, "models.m.region: a provider of type openai has no region: remove the field (it is one of anthropic-bedrock, anthropic-vertex, google-vertex)"},
		{"a region of demo", "type: demo, region: us-east-1", nil, "models.m.region: a provider of type demo has no region"},
		{"no version", azure, []string{"K", "sk-1"}, "models.m.apiVersion: a provider of type openai-azure needs apiVersion: add apiVersion: 2024-10-21, or set OPENAI_API_VERSION"},
		{"a version that is none", azure + ", apiVersion: v4", []string{"K", "sk-1"}, `models.m.apiVersion: "v4" is no apiVersion`},
		{"a deployment that is none", azure + ", apiVersion: 2024-10-21, deployment: a/b", []string{"K", "sk-1"}, `models.m.deployment: "a/b" is no deployment`},
		{"Azure without a key", "type: openai-azure, baseURL: https://ann.openai.azure.com", nil, "add apiKeyEnv: AZURE_OPENAI_API_KEY"},
		{"Azure without a key, by variable", "type: openai-azure, baseURLEnv: U", []string{"U", "https://ann.openai.azure.com"}, "add apiKeyEnv: AZURE_OPENAI_API_KEY"},
		{"Azure without an address", "type: openai-azure, apiKeyEnv: K", []string{"K", "sk-1"}, "add baseURL: https://my-resource.openai.azure.com"},
		{"Azure without its variables", "type: openai-azure", nil, "the environment variable AZURE_OPENAI_ENDPOINT is not set"},
		{"Azure without its key", "type: openai-azure", []string{"AZURE_OPENAI_ENDPOINT", "https://ann.openai.azure.com"}, "the environment variable AZURE_OPENAI_API_KEY is not set"},
		{"a dialect that is none", "type: openai, apiKeyEnv: K, dialect: latin", []string{"K", "sk-1"}, `"latin" is no dialect of type openai: write compatible, mistral or openai`},
		{"a dialect of another type", "type: anthropic, apiKeyEnv: K, dialect: mistral", []string{"K", "sk-1"}, "a provider of type anthropic has no dialect: remove the field (it is one of openai)"},
		{"summaries that are none", "type: openai-responses, apiKeyEnv: K, reasoningSummary: long", []string{"K", "sk-1"}, "write auto, concise, detailed or off"},
		{"an undeclared cloud", "type: demo}, n: {type: anthropic-vertx", nil, "models.n.type: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := one(tt.fields, tt.env...)
			require.ErrorContains(t, err, tt.problem)
		})
	}
}
