package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/llm"
)

// advised is a provider whose errors name the settings that may be wrong.
type advised struct {
	llm.Provider

	settings config.Provider
	key      string
}

func (a *advised) Generate(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
	resp, err := a.Provider.Generate(ctx, req, onDelta)
	return resp, a.advise(req.Model, err)
}

// Rerank implements [llm.Reranker].
func (a *advised) Rerank(ctx context.Context, req llm.RerankRequest) (llm.Ranking, error) {
	out, err := llm.RerankerOf(a.Provider).Rerank(ctx, req)
	return out, a.advise(req.Model, err)
}

// advisedEmbedder is an advised provider that makes vectors too.
type advisedEmbedder struct {
	advised

	embedder llm.Embedder
}

// Embed implements [llm.Embedder].
func (a *advisedEmbedder) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embeddings, error) {
	out, err := a.embedder.Embed(ctx, req)
	return out, a.advise(req.Model, err)
}

func (a *advised) advise(model string, err error) error {
	failed, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return err
	}
	advice := a.advice(model, failed)
	if advice == "" {
		return err
	}
	said := *failed
	said.Message += " (" + advice + ")"
	return &said
}

// What providers say of a wrong key, an unknown model, and summaries that an account may not see,
// with a status that does not say it.
var (
	wrongKey  = regexp.MustCompile(`(?i)api key not valid|invalid api key|security token .* invalid`)
	noModel   = regexp.MustCompile(`(?i)model identifier is invalid|on-demand throughput|model .*(not found|does not exist|not exist)`)
	noSummary = regexp.MustCompile(`(?i)verified to generate reasoning summar`)
)

// advice returns what to check after an error, or "".
func (a *advised) advice(model string, e *llm.Error) string {
	var dns *net.DNSError
	switch {
	case noSummary.MatchString(e.Message):
		return "or set " + a.field("reasoningSummary") + ": off"
	case e.StatusCode == http.StatusUnauthorized, wrongKey.MatchString(e.Message), strings.HasPrefix(e.Message, "no credentials: "):
		return "check " + a.credentials()
	case e.StatusCode == http.StatusForbidden:
		return fmt.Sprintf("check that %s may use the model %q", a.credentials(), model) + a.place(", and ")
	case e.StatusCode == http.StatusNotFound, noModel.MatchString(e.Message):
		return fmt.Sprintf("check the agent's model, %q", a.settings.Name+"/"+model) + a.place(", and ")
	case errors.As(e.Cause, &dns) && dns.IsNotFound:
		return a.place("check ")
	}
	return ""
}

// field returns the path of a field of the provider in the file.
func (a *advised) field(name string) string { return "models." + a.settings.Name + "." + name }

// credentials names the setting that says who calls.
func (a *advised) credentials() string {
	switch {
	case a.key != "":
		return "the key in the environment variable " + a.key
	case a.settings.Type == config.AnthropicBedrock:
		return "the AWS credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or AWS_BEARER_TOKEN_BEDROCK)"
	case a.settings.Type == config.AnthropicVertex, a.settings.Type == config.GoogleVertex:
		return "the Google credentials (the file in GOOGLE_APPLICATION_CREDENTIALS)"
	}
	return "whether the server needs a key, and set " + a.field("apiKeyEnv")
}

// place names the settings that say where the model is, after a word. Without any, it returns "".
func (a *advised) place(word string) string {
	var fields []string
	for _, f := range []struct{ name, value string }{
		{"region", a.settings.Region},
		{"project", a.settings.Project},
		{"deployment", a.settings.Deployment},
		{"apiVersion", a.settings.APIVersion},
		{"baseURL", a.settings.BaseURL},
	} {
		if f.value != "" {
			fields = append(fields, fmt.Sprintf("%s (%s)", a.field(f.name), f.value))
		}
	}
	if len(fields) == 0 {
		return ""
	}
	return word + strings.Join(fields, ", ")
}
