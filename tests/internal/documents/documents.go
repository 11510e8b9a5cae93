// Package documents has documents for agents to read, and worlds whose agents read them.
package documents

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/document/formats"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// partOfManual is the number of a section, as its text says it.
var partOfManual = regexp.MustCompile(`part \d+`)

// SectionTokens is a size of chunks with which each of [Sections] is one. ManySections are more than fit into a batch.
const (
	SectionTokens = 32
	ManySections  = 150
)

// Handbook is a document with two sections below its title.
const Handbook = "# Handbook\n\nWho we are.\n\n## Vacation\n\nEverybody has thirty days of vacation.\n\n## Travel\n\nTrains are preferred to planes.\n"

// Site serves documents at addresses of this machine, which the harness permits.
type Site struct {
	*httptest.Server
	Text atomic.Pointer[string]
	Gets atomic.Int64
}

// NewWriter is a provider whose model writes for each chunk that it is about walnuts, and where it is.
func NewWriter(t *testing.T) *llmtest.Server {
	t.Helper()
	s := llmtest.NewServer(llmtest.Config{Script: func(req llm.Request) string {
		return "Walnuts of " + partOfManual.FindString(req.Messages[len(req.Messages)-1].Content)
	}})
	t.Cleanup(s.Close)
	return s
}

// Writes configures a provider "writer" whose model writes contexts, beside an embedder. No model = no contexts.
func Writes(t *testing.T, s *llmtest.Server, model string) func(*threadmill.Config) {
	t.Helper()
	p, err := openai.New(openai.Config{APIKey: "test", BaseURL: s.URL, Dialect: openai.DialectOpenAI})
	require.NoError(t, err)
	vectors := Embeds(t, NewEmbeddings(t), "stand-in")
	return func(cfg *threadmill.Config) {
		vectors(cfg)
		cfg.Models["writer"] = p
		if model != "" {
			cfg.Knowledge.ContextModel = "writer/" + model
		}
	}
}

// Embeds configures a provider "vectors" that makes vectors only, and the embedder of its model. No model = no embedder.
func Embeds(t *testing.T, s *llmtest.Server, model string) func(*threadmill.Config) {
	t.Helper()
	p, err := openai.New(openai.Config{APIKey: "test", BaseURL: s.URL, Dialect: openai.DialectOpenAI})
	require.NoError(t, err)
	return func(cfg *threadmill.Config) {
		models := map[string]llm.Provider{"vectors": p}
		for name, model := range cfg.Models {
			if name != "vectors" {
				models[name] = model
			}
		}
		cfg.Models = models
		cfg.Knowledge = threadmill.Knowledge{Reader: formats.Reader(), PrivateAddresses: true, ChunkTokens: SectionTokens, OverlapTokens: -1}
		if model != "" {
			cfg.Knowledge.Embedder = "vectors/" + model
		}
	}
}

// NewEmbeddings is a provider that makes vectors.
func NewEmbeddings(t *testing.T) *llmtest.Server {
	t.Helper()
	s := llmtest.NewServer(llmtest.Config{})
	t.Cleanup(s.Close)
	return s
}

// Ingested ingests a text, and returns the document when that has ended.
func Ingested(w *harness.Harness, thread, source, text string) store.KnowledgeDocument {
	w.T.Helper()
	AskToIngest(w, thread, "ingest-"+signals.NewID(), signals.Ingestion{Source: source, Text: text})
	return AwaitDocument(w, source, 1)
}

// Works runs another runtime until the test ends, or stop is called.
func Works(t *testing.T, w *harness.Harness, configure func(*threadmill.Config)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	r := w.Beside(configure)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Sections is a document of which each section is a chunk. All of them contain the word "manual" and the edition.
func Sections(edition string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "## Section %d\n\nThe manual of the %s edition says in its part %d what is to be done.\n\n", i, edition, i)
	}
	return b.String()
}

// ToldOf are the announcements in a thread.
func ToldOf(w *harness.Harness, thread string) (told []event.Message) {
	w.T.Helper()
	for _, m := range w.Messages(thread) {
		if m.SenderID == signals.RAGSender {
			told = append(told, m)
		}
	}
	return told
}

// AwaitToldTimes waits for announcements of the ends of ingestions, one each, and until the thread has nothing else to do.
func AwaitToldTimes(t *testing.T, w *harness.Harness, thread string, n int) []event.Message {
	t.Helper()
	require.Eventually(t, func() bool { return len(ToldOf(w, thread)) >= n }, testenv.Patience, testenv.Tick)
	check.Settle(w, thread)
	told := ToldOf(w, thread)
	require.Len(t, told, n)
	return told
}

// Librarians are agents that read documents: "reader" is given passages, "searcher" searches, "other" does neither.
func Librarians(o harness.Options) harness.Options {
	o.Agents = []agent.Agent{
		{Name: "reader", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note"}, Knowledge: agent.Knowledge{Passages: 2}},
		{Name: "searcher", Model: "openai/stand-in", Tools: []string{"search_knowledge", "ingest_document"}, Knowledge: agent.Knowledge{Collections: []string{store.DefaultCollection}}},
		{Name: "other", Model: "openai/stand-in", Tools: []string{"note"}},
	}
	return o
}

// NewSite serves a text, at every path but one that is gone.
func NewSite(t *testing.T, text string) *Site {
	s := &Site{}
	s.Text.Store(&text)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Gets.Add(1)
		if r.URL.Path == "/gone.md" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/markdown")
		_, _ = w.Write([]byte(*s.Text.Load()))
	}))
	t.Cleanup(s.Close)
	return s
}

// Readers is a world whose agents read documents from this machine.
func Readers(t *testing.T, o harness.Options) *harness.Harness {
	configure := o.Configure
	o.Configure = func(cfg *threadmill.Config) {
		cfg.Knowledge.PrivateAddresses = true
		if configure != nil {
			configure(cfg)
		}
	}
	return harness.New(t, o)
}

// AwaitDocument waits until a revision of a document is processed.
func AwaitDocument(w *harness.Harness, source string, revision int) (d store.KnowledgeDocument) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		var err error
		d, err = w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, store.KnowledgeID(store.DefaultCollection, source))
		return err == nil && d.Revision >= revision && d.Status != store.KnowledgeProcessing
	}, testenv.Patience, testenv.Tick, source)
	return d
}

// AskToIngest posts a rag_ingest event.
func AskToIngest(w *harness.Harness, thread, id string, in signals.Ingestion) {
	w.T.Helper()
	payload, err := json.Marshal(in)
	require.NoError(w.T, err)
	_, err = w.Threads.Post(w.Ctx(), thread, signals.Post{ID: id, Type: event.TypeRAGIngest, Payload: payload})
	require.NoError(w.T, err)
}
