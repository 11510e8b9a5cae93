package knowledge

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestIngestEvent ingests documents that events of a thread name.
func TestIngestEvent(t *testing.T) {
	t.Parallel()
	for _, b := range check.Backends {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			ingestEvent(t, documents.Readers(t, b.Options))
		})
	}
}

func ingestEvent(t *testing.T, w *harness.Harness) {
	s := documents.NewSite(t, documents.Handbook)
	source := s.URL + "/handbook.md"
	id := w.Open()
	t.Run("S2-54 S2-55 S2-59 an event starts an ingestion", func(t *testing.T) {
		documents.AskToIngest(w, id, "e1", signals.Ingestion{Source: source, Metadata: json.RawMessage(`{"title":"The handbook"}`)})
		d := documents.AwaitDocument(w, source, 1)
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
		}, testenv.Patience, testenv.Tick)
		require.Equal(t, event.CreatedBySystem, told[0].SenderType)
		require.Contains(t, told[0].Content, "The handbook")
		require.Zero(t, w.Provider.Calls(), "nobody answers it")
	})
	t.Run("S2-58 what has not changed is not ingested again", func(t *testing.T) {
		documents.AskToIngest(w, id, "e2", signals.Ingestion{Source: source})
		d := documents.AwaitDocument(w, source, 2)
		require.Equal(t, store.KnowledgeIndexed, d.Status)
		require.Equal(t, 1, d.Indexed)
		text := documents.Handbook + "\n## Food\n\nThere is fruit.\n"
		s.Text.Store(&text)
		documents.AskToIngest(w, id, "e3", signals.Ingestion{Source: source})
		require.Equal(t, 3, documents.AwaitDocument(w, source, 3).Indexed)
		documents.AskToIngest(w, id, "e4", signals.Ingestion{Source: source, ForceReindex: true})
		require.Equal(t, 4, documents.AwaitDocument(w, source, 4).Indexed)
	})
	t.Run("S2-61 a thread that gives a text again is told that it has not changed", func(t *testing.T) {
		told := func() (all []string) {
			for _, m := range documents.ToldOf(w, id) {
				if m.Metadata["source"] == "notes" {
					all = append(all, m.Content)
				}
			}
			return all
		}
		for i, event := range []string{"text-1", "text-2", "text-3"} {
			documents.AskToIngest(w, id, event, signals.Ingestion{Source: "notes", Text: "Remember the milk."})
			require.Eventually(t, func() bool { return len(told()) == i+1 }, testenv.Patience, testenv.Tick)
		}
		require.Equal(t, []string{
			"The document notes is indexed, in one chunk.",
			"The document notes has not changed since it was indexed.", "The document notes has not changed since it was indexed.",
		}, told())
	})
	t.Run("a document that cannot be read", func(t *testing.T) {
		documents.AskToIngest(w, id, "e5", signals.Ingestion{Source: s.URL + "/gone.md"})
		d := documents.AwaitDocument(w, s.URL+"/gone.md", 1)
		require.Equal(t, store.KnowledgeFailed, d.Status)
		require.Contains(t, d.Error, "404")
	})
	t.Run("an event that names no document fails", func(t *testing.T) {
		documents.AskToIngest(w, id, "e6", signals.Ingestion{})
		out := w.Await(id, "e6")
		require.Equal(t, signals.TurnFailed, out.Status)
		require.Contains(t, out.Error, "source: is required")
	})
}
