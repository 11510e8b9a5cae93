package program

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
)

// TestModels calls the providers of a file, with credentials of the environment, and makes them fail:
// the errors name the settings.
func TestModels(t *testing.T) {
	s := llmtest.NewServer(llmtest.Config{T: t})
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", s.GoogleCredentials(t, "account-1"))
	t.Setenv("MODELS_KEY", "sk-1")
	file := fmt.Sprintf(`
models:
  chat: {type: openai, baseURL: %[1]s/v1, apiKeyEnv: MODELS_KEY}
  local: {type: openai, baseURL: %[1]s/v1}
  responses: {type: openai-responses, baseURL: %[1]s/v1, apiKeyEnv: MODELS_KEY, reasoningSummary: concise}
  azure: {type: openai-azure, baseURL: %[1]s, apiKeyEnv: MODELS_KEY, apiVersion: 2024-10-21, deployment: big}
  azure2: {type: openai-responses-azure, baseURL: %[1]s, apiKeyEnv: MODELS_KEY, apiVersion: 2025-04-01-preview}
  claude: {type: anthropic, baseURL: %[1]s, apiKeyEnv: MODELS_KEY}
  bedrock: {type: anthropic-bedrock, baseURL: %[1]s, region: eu-west-1}
  vertex: {type: anthropic-vertex, baseURL: %[1]s, region: us-east5, project: project-1}
  gemini: {type: google, baseURL: %[1]s, apiKeyEnv: MODELS_KEY}
  vertex2: {type: google-vertex, baseURL: %[1]s, region: global, project: project-1}
agents: [{name: a, model: demo/demo}]
`, s.Root)
	dir := t.TempDir()
	path := filepath.Join(dir, "f.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	settings, err := Load(SettingsConfig{File: path, Workspace: dir})
	require.NoError(t, err)

	const (
		key    = "check the key in the environment variable MODELS_KEY"
		aws    = "check the AWS credentials (AWS_ACCESS_KEY_ID"
		google = "check the Google credentials (the file in GOOGLE_APPLICATION_CREDENTIALS)"
	)
	for name, want := range map[string]struct{ url, key, place string }{
		"chat":      {"/v1/chat/completions", key, "models.chat.baseURL (" + s.URL + ")"},
		"local":     {"/v1/chat/completions", "set models.local.apiKeyEnv", "models.local.baseURL (" + s.URL + ")"},
		"responses": {"/v1/responses", key, "models.responses.baseURL"},
		"azure":     {"/openai/deployments/big/chat/completions?api-version=2024-10-21", key, "models.azure.deployment (big), models.azure.apiVersion (2024-10-21)"},
		"azure2":    {"/openai/responses?api-version=2025-04-01-preview", key, "models.azure2.apiVersion (2025-04-01-preview)"},
		"claude":    {"/v1/messages", key, "models.claude.baseURL"},
		"bedrock":   {"/model/stand-in/invoke-with-response-stream", aws, "models.bedrock.region (eu-west-1)"},
		"vertex":    {"/v1/projects/project-1/locations/us-east5/publishers/anthropic/models/stand-in:streamRawPredict", google, "models.vertex.region (us-east5), models.vertex.project (project-1)"},
		"gemini":    {"/v1beta/models/stand-in:streamGenerateContent?alt=sse", key, "models.gemini.baseURL"},
		"vertex2":   {"/v1beta1/projects/project-1/locations/global/publishers/google/models/stand-in:streamGenerateContent?alt=sse", google, "models.vertex2.region (global)"},
	} {
		t.Run(name, func(t *testing.T) {
			say := func(faults ...llmtest.Fault) (llm.Response, error) {
				s.Reset()
				s.Fail(faults...)
				return settings.Models[name].Generate(t.Context(), llm.Request{Model: "stand-in", Messages: []llm.Message{{Role: "user", Content: "hello"}}}, nil)
			}
			resp, err := say()
			require.NoError(t, err)
			require.Equal(t, "hello", resp.Content)
			require.Equal(t, want.url, s.Requests()[0].URL)

			_, err = say(llmtest.Status(401, "").WithError("", "No."))
			require.ErrorContains(t, err, name+" answered 401: No. (")
			require.ErrorContains(t, err, want.key)
			_, err = say(llmtest.Status(403, "").WithError("", "No."))
			require.ErrorContains(t, err, `may use the model "stand-in", and `+want.place)
			_, err = say(llmtest.Status(404, "").WithError("", "No."))
			require.ErrorContains(t, err, fmt.Sprintf(`check the model, %q, and `, name+"/stand-in")+want.place)
			_, err = say(llmtest.Status(400, "").WithError("", "API key not valid. Please pass a valid API key."))
			require.ErrorContains(t, err, want.key)
			_, err = say(llmtest.Status(400, "").WithError("", "The provided model identifier is invalid."))
			require.ErrorContains(t, err, "check the model")
			_, err = say(llmtest.Status(400, "").WithError("", "Your organization must be verified to generate reasoning summaries."))
			require.ErrorContains(t, err, "or set models."+name+".reasoningSummary: off")
			_, err = say(llmtest.Status(400, "").WithError("", "Temperature is too high."))
			require.EqualError(t, err, name+" answered 400: Temperature is too high.")
		})
	}
}

func TestUnknownHost(t *testing.T) {
	a := &advised{settings: config.Provider{Name: "m", Type: config.AnthropicBedrock, Place: config.Place{Region: "us-nowhere-1"}}}
	failed := &llm.Error{Retryable: true, Cause: fmt.Errorf("dial: %w", &net.DNSError{IsNotFound: true})}
	require.Equal(t, "check models.m.region (us-nowhere-1)", a.advice("x", failed))
	require.Empty(t, a.advice("x", &llm.Error{Retryable: true, Cause: errors.New("reset")}))
}

// TestModelMistakes: what a driver finds wrong is named at start.
func TestModelMistakes(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")
	for entry, problem := range map[string]string{
		"{type: google-vertex, region: global, project: project-1}":    "models.m: google: no Google credentials: set GOOGLE_APPLICATION_CREDENTIALS",
		"{type: anthropic-vertex, region: global, project: project-1}": "models.m: vertex: no Google credentials: set GOOGLE_APPLICATION_CREDENTIALS",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "f.yaml")
		require.NoError(t, os.WriteFile(path, []byte("models: {m: "+entry+"}\nagents: [{name: a, model: m/x}]\n"), 0o600))
		_, err := Load(SettingsConfig{File: path, Workspace: dir})
		require.ErrorContains(t, err, problem)
	}
}
