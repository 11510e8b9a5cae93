package tests

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

const handbook = "# Handbook\n\nWho we are.\n\n## Vacation\n\nEverybody has thirty days of vacation.\n\n## Travel\n\nTrains are preferred to planes.\n"

// site serves documents at addresses of this machine, which the harness permits.
type site struct {
	*httptest.Server
	text atomic.Pointer[string]
	gets atomic.Int64
}

func newSite(t *testing.T, text string) *site {
	s := &site{}
	s.text.Store(&text)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.gets.Add(1)
		if r.URL.Path == "/gone.md" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/markdown")
		_, _ = w.Write([]byte(*s.text.Load()))
	}))
	t.Cleanup(s.Close)
	return s
}

// readers is a world whose agents read documents from this machine.
func readers(t *testing.T, o harness.Options) *harness.Harness {
	configure := o.Configure
	o.Configure = func(cfg *threadmill.Config) {
		cfg.Knowledge.PrivateAddresses = true
		if configure != nil {
			configure(cfg)
		}
	}
	return harness.New(t, o)
}

// awaitDocument waits until a revision of a document is processed.
func awaitDocument(w *harness.Harness, source string, revision int) (d store.KnowledgeDocument) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		var err error
		d, err = w.Store.KnowledgeDocument(w.Ctx(), w.TaskQueue, store.KnowledgeID(store.DefaultCollection, source))
		return err == nil && d.Revision >= revision && d.Status != store.KnowledgeProcessing
	}, harness.Patience, harness.Tick, source)
	return d
}

// askToIngest posts a rag_ingest event.
func askToIngest(w *harness.Harness, thread, id string, in signals.Ingestion) {
	w.T.Helper()
	payload, err := json.Marshal(in)
	require.NoError(w.T, err)
	_, err = w.Threads.Post(w.Ctx(), thread, signals.Post{ID: id, Type: event.TypeRAGIngest, Payload: payload})
	require.NoError(w.T, err)
}

// TestIngestEvent ingests documents that events of a thread name.
func TestIngestEvent(t *testing.T) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			ingestEvent(t, readers(t, b.options))
		})
	}
}

func ingestEvent(t *testing.T, w *harness.Harness) {
	s := newSite(t, handbook)
	source := s.URL + "/handbook.md"
	id := w.Open()
	t.Run("S2-54 S2-55 S2-59 an event starts an ingestion", func(t *testing.T) {
		askToIngest(w, id, "e1", signals.Ingestion{Source: source, Metadata: json.RawMessage(`{"title":"The handbook"}`)})
		d := awaitDocument(w, source, 1)
		require.Equal(t, store.KnowledgeIndexed, d.Status, d.Error)
		require.Equal(t, "The handbook", d.Title)
		require.Equal(t, "Markdown", d.Format)
		require.Positive(t, d.Chunks)
		require.JSONEq(t, `{"title":"The handbook"}`, string(d.Metadata))
	})
	t.Run("S2-61 the thread is told", func(t *testing.T) {
		var told []event.Message
		require.Eventually(t, func() bool {
			told = nil
			for _, m := range w.Messages(id) {
				if m.SenderID == signals.RAGSender {
					told = append(told, m)
				}
			}
			return len(told) == 1
		}, harness.Patience, harness.Tick)
		require.Equal(t, event.CreatedBySystem, told[0].SenderType)
		require.Contains(t, told[0].Content, "The handbook")
		require.Zero(t, w.Provider.Calls(), "nobody answers it")
	})
	t.Run("S2-58 what has not changed is not ingested again", func(t *testing.T) {
		askToIngest(w, id, "e2", signals.Ingestion{Source: source})
		d := awaitDocument(w, source, 2)
		require.Equal(t, store.KnowledgeIndexed, d.Status)
		require.Equal(t, 1, d.Indexed)
		text := handbook + "\n## Food\n\nThere is fruit.\n"
		s.text.Store(&text)
		askToIngest(w, id, "e3", signals.Ingestion{Source: source})
		require.Equal(t, 3, awaitDocument(w, source, 3).Indexed)
		askToIngest(w, id, "e4", signals.Ingestion{Source: source, ForceReindex: true})
		require.Equal(t, 4, awaitDocument(w, source, 4).Indexed)
	})
	t.Run("S2-61 a thread that gives a text again is told that it has not changed", func(t *testing.T) {
		told := func() (all []string) {
			for _, m := range toldOf(w, id) {
				if m.Metadata["source"] == "notes" {
					all = append(all, m.Content)
				}
			}
			return all
		}
		for i, event := range []string{"text-1", "text-2", "text-3"} {
			askToIngest(w, id, event, signals.Ingestion{Source: "notes", Text: "Remember the milk."})
			require.Eventually(t, func() bool { return len(told()) == i+1 }, harness.Patience, harness.Tick)
		}
		require.Equal(t, []string{
			"The document notes is indexed, in one chunk.",
			"The document notes has not changed since it was indexed.", "The document notes has not changed since it was indexed.",
		}, told())
	})
	t.Run("a document that cannot be read", func(t *testing.T) {
		askToIngest(w, id, "e5", signals.Ingestion{Source: s.URL + "/gone.md"})
		d := awaitDocument(w, s.URL+"/gone.md", 1)
		require.Equal(t, store.KnowledgeFailed, d.Status)
		require.Contains(t, d.Error, "404")
	})
	t.Run("an event that names no document fails", func(t *testing.T) {
		askToIngest(w, id, "e6", signals.Ingestion{})
		out := w.Await(id, "e6")
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "source: is required")
	})
}
