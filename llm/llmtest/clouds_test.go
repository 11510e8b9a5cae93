package llmtest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/anthropic"
	"github.com/threadmill/threadmill/llm/anthropic/bedrock"
	"github.com/threadmill/threadmill/llm/google"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
)

func newAzureDeployment(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	p, err := openai.NewResponses(openai.Config{BaseURL: s.Root, APIKey: key, Azure: &openai.Azure{APIVersion: "2025-04-01-preview", Deployment: "big"}})
	require.NoError(t, err)
	return p
}

func newBedrockToken(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", key)
	p, err := bedrock.New(t.Context(), bedrock.Config{Region: "us-gov-west-1", Config: anthropic.Config{BaseURL: s.Root}})
	require.NoError(t, err)
	return p
}

// TestClouds: requests to clouds have the path, the credentials and the body that each wants.
func TestClouds(t *testing.T) {
	for name, tt := range map[string]struct {
		build                  llmtest.Build
		model, path            string
		header, authentication string
		body                   string
	}{
		"Azure":           {newAzure, "gpt/4?1", "/openai/deployments/gpt%2F4%3F1/chat/completions?api-version=2024-10-21", "Api-Key", "^key-of-ann$", `"model":"gpt/4?1"`},
		"Azure Responses": {newAzureResponses, "gpt-5", "/openai/responses?api-version=2025-04-01-preview", "Api-Key", "^key-of-ann$", `"model":"gpt-5"`},
		"Azure, one deployment": {
			newAzureDeployment, "gpt-5", "/openai/responses?api-version=2025-04-01-preview", "Api-Key", "^key-of-ann$", `"model":"big"`,
		},
		"Bedrock": {
			newBedrock, "anthropic.claude-sonnet-4-6-v1:0", "/model/anthropic.claude-sonnet-4-6-v1%3A0/invoke-with-response-stream", "Authorization",
			`^AWS4-HMAC-SHA256 Credential=key-of-ann/\d{8}/eu-west-1/bedrock/aws4_request, SignedHeaders=.*host.*, Signature=[0-9a-f]{64}$`,
			`"anthropic_version":"bedrock-2023-05-31"`,
		},
		"Bedrock with an API key": {
			newBedrockToken, "claude", "/model/claude/invoke-with-response-stream", "Authorization", "^Bearer key-of-ann$", `"cache_control":{"ttl":"5m","type":"ephemeral"}`,
		},
		"Claude on Vertex": {
			newVertex, "claude-opus-4-8@default", "/v1/projects/project-1/locations/us-east5/publishers/anthropic/models/claude-opus-4-8@default:streamRawPredict",
			"Authorization", "^Bearer key-of-ann$", `"anthropic_version":"vertex-2023-10-16"`,
		},
		"Gemini on Vertex": {
			newGoogleVertex, "gemini-3-pro", "/v1beta1/projects/project-1/locations/global/publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse",
			"Authorization", "^Bearer key-of-ann$", `"contents"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Other credentials of the environment are not for these requests.
			for _, variable := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"} {
				t.Setenv(variable, "sk-of-another")
			}
			s := llmtest.NewServer(llmtest.Config{T: t})
			p := tt.build(t, s, "key-of-ann")
			req := llm.Request{Model: tt.model, Messages: []llm.Message{{Role: "user", Content: "hello"}}}
			resp, err := p.Generate(t.Context(), req, func(llm.Delta) {})
			require.NoError(t, err)
			require.Equal(t, "hello", resp.Content)
			got := s.Requests()[0]
			require.Equal(t, tt.path, got.URL)
			require.Regexp(t, tt.authentication, got.Header.Get(tt.header))
			require.NotContains(t, got.Header, "X-Api-Key")
			require.NotContains(t, got.Header, "X-Goog-Api-Key")
			require.Contains(t, string(got.Body), tt.body)
		})
	}
}

// TestNoCredentials: what is missing is named at start.
func TestNoCredentials(t *testing.T) {
	for _, variable := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"} {
		t.Setenv(variable, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")
	_, err := bedrock.New(t.Context(), bedrock.Config{Region: "eu-west-1"})
	require.ErrorContains(t, err, "set AWS_ACCESS_KEY_ID")
	_, err = google.New(google.Config{Vertex: &google.Vertex{Project: "project-1", Region: "global"}})
	require.ErrorContains(t, err, "set GOOGLE_APPLICATION_CREDENTIALS")
}

// TestLostCredentials: a token that is refused later is an error of credentials, which does not look
// like a broken connection.
func TestLostCredentials(t *testing.T) {
	for name, build := range map[string]llmtest.Build{"Claude": newVertex, "Gemini": newGoogleVertex} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.NewServer(llmtest.Config{})
			t.Cleanup(s.Close)
			_, err := build(t, s, llmtest.RevokedAccount).Generate(t.Context(), llm.Request{Model: "m", Messages: []llm.Message{{Role: "user", Content: "hello"}}}, nil)
			var e *llm.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Message, "no credentials: ")
			require.Contains(t, e.Message, "invalid_grant")
			require.False(t, e.Retryable)
			require.Zero(t, s.Calls())
		})
	}
}

// TestCloudProtocols: the stand-ins of clouds reject what they reject themselves.
func TestCloudProtocols(t *testing.T) {
	s := start(t, llmtest.Config{})
	const messages = `"max_tokens":10,"messages":[{"role":"user","content":"hi"}]`
	bearer, key := http.Header{"Authorization": {"Bearer k"}}, http.Header{"Api-Key": {"k"}}
	const vertexPath = "/v1/projects/p/locations/r/publishers/anthropic/models/m:streamRawPredict"
	for _, tt := range []struct {
		name, path, body string
		header           http.Header
		status           int
		problem          string
	}{
		{"Azure without a key", "/openai/responses?api-version=1", `{"model":"m","input":[]}`, nil, 401, "missing subscription key"},
		{"Azure without a version", "/openai/responses", `{"model":"m","input":[]}`, key, 404, "Resource not found"},
		{"Bedrock without a signature", "/model/m/invoke-with-response-stream", `{}`, nil, 403, "Missing Authentication Token"},
		{"Bedrock without a version", "/model/m/invoke-with-response-stream", `{` + messages + `}`, bearer, 400, "anthropic_version"},
		{"Vertex without a token", vertexPath, `{}`, nil, 401, "missing required authentication"},
		{"Vertex with the version of Bedrock", vertexPath, `{"anthropic_version":"bedrock-2023-05-31",` + messages + `}`, bearer, 400, "anthropic_version"},
		{"Vertex with a model", vertexPath, `{"anthropic_version":"vertex-2023-10-16","model":"m",` + messages + `}`, bearer, 400, "model: Extra inputs"},
		{"Vertex with a cache", vertexPath, `{"anthropic_version":"vertex-2023-10-16","cache_control":{"type":"ephemeral"},` + messages + `}`, bearer, 400, "cache_control: Extra inputs"},
		{"Anthropic with a version", "/v1/messages", `{"model":"m","anthropic_version":"x",` + messages + `}`, nil, 400, "anthropic_version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := posted(t, s.Root+tt.path, tt.body, tt.header)
			require.Equal(t, tt.status, status, body)
			require.Contains(t, body, tt.problem)
		})
	}
}
