package program

import (
	"context"
	"fmt"

	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/anthropic"
	"github.com/threadmill/threadmill/llm/anthropic/bedrock"
	"github.com/threadmill/threadmill/llm/anthropic/vertex"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/llm/google"
	"github.com/threadmill/threadmill/llm/openai"
)

// provider returns the driver of a provider. key is the environment variable with its API key.
func provider(p config.Provider, key string) (llm.Provider, error) {
	model, err := driver(p)
	if err != nil || p.Type == config.Demo {
		return model, err
	}
	out := advised{Provider: model, settings: p, key: key}
	if embedder, ok := model.(llm.Embedder); ok {
		return &advisedEmbedder{out, embedder}, nil
	}
	return &out, nil
}

func driver(p config.Provider) (llm.Provider, error) {
	openAI := openai.Config{Name: p.Name, APIKey: p.APIKey.Reveal(), BaseURL: p.BaseURL, Summary: p.ReasoningSummary, Dialect: p.Dialect}
	claude := anthropic.Config{Name: p.Name, APIKey: p.APIKey.Reveal(), BaseURL: p.BaseURL}
	gemini := google.Config{Name: p.Name, APIKey: p.APIKey.Reveal(), BaseURL: p.BaseURL}
	if p.APIVersion != "" {
		openAI.Azure = &openai.Azure{APIVersion: p.APIVersion, Deployment: p.Deployment}
	}
	switch p.Type {
	case config.Demo:
		return demo.New(demo.Config{}), nil
	case config.OpenAI, config.OpenAIAzure:
		return openai.New(openAI)
	case config.OpenAIResponses, config.OpenAIResponsesAzure:
		return openai.NewResponses(openAI)
	case config.Anthropic:
		return anthropic.New(claude)
	case config.AnthropicBedrock:
		return bedrock.New(context.Background(), bedrock.Config{Region: p.Region, Config: claude})
	case config.AnthropicVertex:
		return vertex.New(vertex.Config{Project: p.Project, Region: p.Region, Config: claude})
	case config.Google:
		return google.New(gemini)
	case config.GoogleVertex:
		gemini.Vertex = &google.Vertex{Project: p.Project, Region: p.Region}
		return google.New(gemini)
	}
	return nil, fmt.Errorf("type %q is unknown", p.Type)
}
