package llmtest_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/anthropic"
	"github.com/threadmill/threadmill/llm/anthropic/bedrock"
	"github.com/threadmill/threadmill/llm/anthropic/vertex"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/llm/google"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
)

func TestDemo(t *testing.T) {
	llmtest.Run(t, llmtest.Traits{NoResponseFormat: true}, func(*testing.T, *llmtest.Server) llm.Provider {
		return demo.New(demo.Config{Quiet: true})
	})
}

func newOpenAI(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	p, err := openai.New(openai.Config{BaseURL: s.URL, APIKey: key})
	require.NoError(t, err)
	return p
}

func newResponses(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	p, err := openai.NewResponses(openai.Config{BaseURL: s.URL, APIKey: key})
	require.NoError(t, err)
	return p
}

func newAnthropic(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	p, err := anthropic.New(anthropic.Config{BaseURL: s.Root, APIKey: key})
	require.NoError(t, err)
	return p
}

func newGoogle(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	p, err := google.New(google.Config{BaseURL: s.Root, APIKey: key})
	require.NoError(t, err)
	return p
}

func newAzure(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	p, err := openai.New(openai.Config{BaseURL: s.Root, APIKey: key, Azure: &openai.Azure{APIVersion: "2024-10-21"}})
	require.NoError(t, err)
	return p
}

func newAzureResponses(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	p, err := openai.NewResponses(openai.Config{BaseURL: s.Root, APIKey: key, Azure: &openai.Azure{APIVersion: "2025-04-01-preview"}})
	require.NoError(t, err)
	return p
}

func newBedrock(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	p, err := bedrock.New(t.Context(), bedrock.Config{Region: "eu-west-1", Config: anthropic.Config{BaseURL: s.Root}})
	require.NoError(t, err)
	return p
}

func newVertex(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", s.GoogleCredentials(t, key))
	p, err := vertex.New(vertex.Config{Project: "project-1", Region: "us-east5", Config: anthropic.Config{BaseURL: s.Root}})
	require.NoError(t, err)
	return p
}

func newGoogleVertex(t *testing.T, s *llmtest.Server, key string) llm.Provider {
	t.Helper()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", s.GoogleCredentials(t, key))
	p, err := google.New(google.Config{BaseURL: s.Root, Vertex: &google.Vertex{Project: "project-1", Region: "global"}})
	require.NoError(t, err)
	return p
}

var (
	openAI = llmtest.Traits{NoLifetimes: true, Tier: "default"}
	claude = llmtest.Traits{Tier: "standard"}
)

func TestAzure(t *testing.T)          { llmtest.RunHTTP(t, openAI, newAzure) }
func TestAzureResponses(t *testing.T) { llmtest.RunHTTP(t, openAI, newAzureResponses) }
func TestBedrock(t *testing.T)        { llmtest.RunHTTP(t, claude, newBedrock) }
func TestVertex(t *testing.T)         { llmtest.RunHTTP(t, claude, newVertex) }
func TestGoogleVertex(t *testing.T) {
	llmtest.RunHTTP(t, llmtest.Traits{ObjectArguments: true, NoCacheWrites: true, Tier: "ON_DEMAND"}, newGoogleVertex)
}

func TestOpenAI(t *testing.T)    { llmtest.RunHTTP(t, openAI, newOpenAI) }
func TestResponses(t *testing.T) { llmtest.RunHTTP(t, openAI, newResponses) }
func TestAnthropic(t *testing.T) { llmtest.RunHTTP(t, claude, newAnthropic) }
func TestGoogle(t *testing.T) {
	llmtest.RunHTTP(t, llmtest.Traits{ObjectArguments: true, NoCacheWrites: true, Tier: "standard"}, newGoogle)
}

// TestDialects: the driver does all that with servers of each dialect, too.
func TestDialects(t *testing.T) {
	for _, dialect := range llmtest.Dialects() {
		t.Run(dialect.Name, func(t *testing.T) {
			t.Parallel()
			llmtest.RunHTTP(t, llmtest.Traits{Dialect: dialect, NoLifetimes: true, Tier: "default"}, func(t *testing.T, s *llmtest.Server, key string) llm.Provider {
				t.Helper()
				p, err := openai.New(openai.Config{BaseURL: s.URL, APIKey: key, Dialect: dialect.Setting})
				require.NoError(t, err)
				return p
			})
		})
	}
}

// TestForms: a choice and a format arrive as they were asked for: models write properties in the order of the schema.
func TestForms(t *testing.T) {
	s := llmtest.NewServer(llmtest.Config{T: t})
	for name, p := range map[string]llm.Provider{
		"chat": newOpenAI(t, s, "k"), "responses": newResponses(t, s, "k"), "anthropic": newAnthropic(t, s, "k"), "google": newGoogle(t, s, "k"),
		"bedrock": newBedrock(t, s, "k"), "azure": newAzure(t, s, "k"), "google on vertex": newGoogleVertex(t, s, "k"),
	} {
		s.Reset()
		_, err := p.Generate(t.Context(), llm.Request{
			Model: "m", Messages: []llm.Message{{Role: event.RoleUser, Content: "hello"}}, Tools: []llm.Tool{{Name: "files.read"}, {Name: "now"}},
			ToolChoice: llm.ChooseTool("files.read"), ResponseFormat: &llm.ResponseFormat{Name: "an answer", Schema: []byte(closed)},
		}, nil)
		require.NoError(t, err, name)
		got := s.Requests()[0].Conversation
		require.Equal(t, llm.ChooseTool("files_read"), got.ToolChoice, name)
		require.Equal(t, closed, string(got.ResponseFormat.Schema), name)
		require.Contains(t, []string{"", "an_answer"}, got.ResponseFormat.Name)
	}
}

// TestSwitching goes from one provider, model and account to the next at every step, in the middle
// of turns with tools and thoughts. The servers reject signatures of another origin, and calls and
// thoughts without the signatures that they require.
func TestSwitching(t *testing.T) {
	s := llmtest.NewServer(llmtest.Config{T: t})
	type model struct {
		provider     llm.Provider
		name, effort string
	}
	models := []model{
		{newOpenAI(t, s, "one"), "gpt-5", "low"},
		{newResponses(t, s, "one"), "gpt-5", "high"},
		{newAnthropic(t, s, "one"), "claude-sonnet-4-5", "low"},
		{newAnthropic(t, s, "two"), "claude-sonnet-4-5", "2048"},
		{newAnthropic(t, s, "one"), "claude-opus-4-8", "high"},
		{newResponses(t, s, "two"), "gpt-5", ""},
		{newResponses(t, s, "one"), "gpt-4.1", ""},
		{newGoogle(t, s, "one"), "gemini-3-pro", "low"},
		{newGoogle(t, s, "two"), "gemini-3-pro", ""},
		{newGoogle(t, s, "one"), "gemini-2.5-flash", "high"},
	}
	tools := []llm.Tool{{Name: "read"}, {Name: "now"}}
	script := "think of it\nlook\nuse read {\"path\":\"a\"}\nuse now\nthen\nthink again\nuse now\nthen\nuse read {}\nthen\nthink last\nuse now\nthen\nthink\ndone"
	// Every pair of models, with one to three steps between the switches.
	for first := range models {
		for stride := range 3 * len(models) {
			t.Run(fmt.Sprint(first, " ", stride), func(t *testing.T) {
				messages := []llm.Message{{Role: event.RoleSystem, Content: "You help."}}
				step := 0
				for turn := range 2 {
					messages = append(messages, llm.Message{Role: event.RoleUser, Name: "ann", Content: script})
					for {
						m := models[(first+(step/(1+stride%3))*(1+stride/3))%len(models)]
						resp, err := m.provider.Generate(t.Context(), llm.Request{
							Model: m.name, ReasoningEffort: m.effort, Messages: llm.Repair(messages), Tools: tools,
						}, func(llm.Delta) {})
						require.NoError(t, err, "turn %d, step %d, %s", turn, step, m.name)
						step++
						messages = append(messages, llm.Message{Role: event.RoleAssistant, Content: resp.Content, ToolCalls: resp.ToolCalls, Opaque: resp.Opaque})
						for _, c := range resp.ToolCalls {
							messages = append(messages, llm.Message{Role: event.RoleTool, ToolCallID: c.ID, Content: "here"})
						}
						if len(resp.ToolCalls) == 0 {
							break
						}
					}
				}
			})
		}
	}
}

func TestEmbedders(t *testing.T) {
	for name, build := range map[string]llmtest.Build{"openai": newOpenAI, "azure": newAzure, "google": newGoogle} {
		t.Run(name, func(t *testing.T) {
			llmtest.RunEmbedder(t, func(t *testing.T, s *llmtest.Server, key string) llm.Embedder {
				t.Helper()
				e, ok := build(t, s, key).(llm.Embedder)
				require.True(t, ok)
				return e
			})
		})
	}
}

func TestRerankers(t *testing.T) {
	for name, build := range map[string]llmtest.Build{"openai": newOpenAI, "responses": newResponses} {
		t.Run(name, func(t *testing.T) {
			llmtest.RunReranker(t, func(t *testing.T, s *llmtest.Server, key string) llm.Reranker {
				t.Helper()
				return llm.RerankerOf(build(t, s, key))
			})
		})
	}
}

// TestRerankInChat: a provider without the endpoint answers in a chat.
func TestRerankInChat(t *testing.T) {
	req := llm.RerankRequest{Model: "stand-in", Query: "stones", Documents: []string{"one", "two", "three"}}
	want := llm.Ranking{Ranked: []llm.Ranked{{Index: 2}, {Index: 0}}}
	for name, build := range map[string]llmtest.Build{"azure": newAzure, "anthropic": newAnthropic, "google": newGoogle} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.NewServer(llmtest.Config{T: t, Script: func(llm.Request) string { return "[3,1]" }})
			got, err := llm.RerankerOf(build(t, s, "test")).Rerank(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, 1, s.Calls())
		})
	}
	for why, fault := range map[string]llmtest.Fault{
		"not found":                 llmtest.Status(http.StatusNotFound, ""),
		"another method":            llmtest.Status(http.StatusMethodNotAllowed, ""),
		"llama.cpp, not started so": llmtest.Status(http.StatusNotImplemented, ""),
		"vLLM, with a chat model":   llmtest.Status(http.StatusBadRequest, "").WithError("", "The model does not support Rerank (Score) API"),
		"LM Studio":                 llmtest.Status(http.StatusOK, "").WithError("", "Unexpected endpoint or method. (POST /v1/rerank)"),
	} {
		for name, build := range map[string]llmtest.Build{"openai": newOpenAI, "responses": newResponses} {
			t.Run(name+" without the endpoint: "+why, func(t *testing.T) {
				s := llmtest.NewServer(llmtest.Config{T: t, Script: func(llm.Request) string { return "[3,1]" }})
				s.Fail(fault)
				got, err := llm.RerankerOf(build(t, s, "test")).Rerank(t.Context(), req)
				require.NoError(t, err)
				require.Equal(t, want, got)
				require.Equal(t, 2, s.Calls())
			})
		}
	}
}

// TestEmbedPurpose: Google's models distinguish what vectors are for.
func TestEmbedPurpose(t *testing.T) {
	s := llmtest.NewServer(llmtest.Config{T: t})
	e, ok := newGoogle(t, s, "test").(llm.Embedder)
	require.True(t, ok)
	for i, c := range []struct {
		purpose llm.EmbedPurpose
		want    string
	}{{"", "RETRIEVAL_DOCUMENT"}, {llm.EmbedDocument, "RETRIEVAL_DOCUMENT"}, {llm.EmbedQuery, "RETRIEVAL_QUERY"}} {
		_, err := e.Embed(t.Context(), llm.EmbedRequest{Model: "embedder", Texts: []string{"one"}, Purpose: c.purpose})
		require.NoError(t, err)
		require.Contains(t, string(s.Requests()[i].Body), c.want)
	}
}

// TestEmbedding: texts that share words are similar.
func TestEmbedding(t *testing.T) {
	similarity := func(a, b string) float64 {
		sum := 0.0
		v := llmtest.Embedding(b, llmtest.EmbeddingDimension)
		for i, x := range llmtest.Embedding(a, llmtest.EmbeddingDimension) {
			sum += float64(x) * float64(v[i])
		}
		return sum
	}
	require.InDelta(t, 1, similarity("Sarah, of Acme!", "sarah of acme"), 1e-6)
	require.Greater(t, similarity("the mill has two stones", "how many stones has the mill"), 0.5)
	require.Less(t, similarity("the mill has two stones", "our office opens at nine"), 0.4)
}
