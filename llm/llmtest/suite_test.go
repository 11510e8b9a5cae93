package llmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
)

func TestDemo(t *testing.T) {
	llmtest.Run(t, func(*testing.T, *llmtest.Server) llm.Provider {
		return demo.New(demo.Config{Quiet: true})
	})
}

func TestOpenAI(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, s *llmtest.Server) llm.Provider {
		p, err := openai.New(openai.Config{BaseURL: s.URL, APIKey: "test"})
		require.NoError(t, err)
		return p
	})
}
