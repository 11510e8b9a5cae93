package knowledge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestIngestSteps watches an ingestion in its workflow.
func TestIngestSteps(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Configure: func(cfg *threadmill.Config) { cfg.Knowledge.Embedder = "openai/stand-in-embedding" }})
	var text strings.Builder
	for i := range 130 {
		fmt.Fprintf(&text, "## Section %d\n\n%s\n\n", i, strings.Repeat(fmt.Sprintf("The number of this section is %d. ", i), 45))
	}
	read(w, w.Open(), signals.Ingestion{Source: "long.md", Text: text.String()})
	d := documents.AwaitDocument(w, "long.md", 1)
	t.Run("S2-57 chunks have up to 512 tokens, and batches of embeddings up to 100", func(t *testing.T) {
		require.Greater(t, d.Chunks, store.MaxKnowledgeBatch)
		most := 0
		for from := 0; from < d.Chunks; from += store.MaxKnowledgeBatch {
			chunks, err := w.Store.Chunks(w.Ctx(), w.TaskQueue, d.Newest(), from, 0)
			require.NoError(t, err)
			for _, c := range chunks {
				most = max(most, c.Tokens)
				require.LessOrEqual(t, c.Tokens, 512)
			}
		}
		require.Greater(t, most, 256)
		var sizes []int
		for _, r := range w.Provider.Requests() {
			var body struct{ Input []string }
			if strings.HasSuffix(r.URL, "/embeddings") && json.Unmarshal(r.Body, &body) == nil {
				sizes = append(sizes, len(body.Input))
			}
		}
		require.Equal(t, []int{100, d.Chunks - 100}, sizes)
	})
	t.Run("S2-56 its steps can be watched", func(t *testing.T) {
		events, err := check.RunHistory(w.Ctx(), w.Temporal, job.IngestWorkflowID(w.TaskQueue, d.ID, 1), "")
		require.NoError(t, err)
		var steps []string
		for _, e := range events {
			if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
				steps = append(steps, a.GetActivityType().GetName())
				require.Equal(t, job.KnowledgeTaskQueue(w.TaskQueue), a.GetTaskQueue().GetName())
				require.NotEmpty(t, e.GetUserMetadata().GetSummary().GetData())
			}
		}
		require.Equal(t, []string{
			job.ActivityFetchDocument, job.ActivitySplitDocument, job.ActivityEmbedChunks, job.ActivityEmbedChunks, job.ActivityFinishDocument,
		}, steps)
	})
}
