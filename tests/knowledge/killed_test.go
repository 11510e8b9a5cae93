package knowledge

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/document/formats"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/documents"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// standInEmbedder is the embedder of the stand-in provider.
const standInEmbedder = "openai/stand-in-embedding"

// gatedStore reports each change of a document before and after it is made, as "begin", "put", "chunks 1", "contexts 1", "vectors 1"
// and "finish", the latter with "done" before. The key of a report is the document.
type gatedStore struct {
	teststore.Store
	worker killing.Worker

	mu      sync.Mutex
	batches map[string]int
}

// reads is a kind of worker: it reads documents, and reports how it stores them.
func reads(w killing.Worker, cfg *threadmill.Config) error {
	cfg.Knowledge = threadmill.Knowledge{
		Reader: formats.Reader(), Embedder: standInEmbedder, ContextModel: "openai/stand-in", PrivateAddresses: true, ChunkTokens: documents.SectionTokens, OverlapTokens: -1,
	}
	cfg.StaleAfter = killing.StaleAfter
	cfg.Store = &gatedStore{Store: teststore.Of(cfg.Store), worker: w, batches: map[string]int{}}
	return nil
}

func (s *gatedStore) gate(ctx context.Context, what, document string, change func() error) error {
	if err := s.worker.Tell(ctx, what, document); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return s.worker.Tell(ctx, "done "+what, document)
}

func (s *gatedStore) batch(what, document string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches[what+document]++
	return fmt.Sprintf("%s %d", what, s.batches[what+document])
}

func (s *gatedStore) BeginKnowledge(ctx context.Context, namespace string, d store.KnowledgeDocument, begin store.KnowledgeBegin) (out store.KnowledgeDocument, err error) {
	id := store.KnowledgeID(store.DefaultCollection, d.Source)
	err = s.gate(ctx, "begin", id, func() error { out, err = s.Store.BeginKnowledge(ctx, namespace, d, begin); return err })
	return out, err
}

func (s *gatedStore) PutKnowledgeContent(ctx context.Context, namespace string, r store.KnowledgeRevision, digest string, c store.KnowledgeContent) error {
	return s.gate(ctx, "put", r.Document, func() error { return s.Store.PutKnowledgeContent(ctx, namespace, r, digest, c) })
}

func (s *gatedStore) AddChunks(ctx context.Context, namespace string, r store.KnowledgeRevision, chunks []store.KnowledgeChunk) error {
	return s.gate(ctx, s.batch("chunks", r.Document), r.Document, func() error { return s.Store.AddChunks(ctx, namespace, r, chunks) })
}

func (s *gatedStore) AddContexts(ctx context.Context, namespace string, r store.KnowledgeRevision, contexts []store.KnowledgeContext) error {
	return s.gate(ctx, s.batch("contexts", r.Document), r.Document, func() error { return s.Store.AddContexts(ctx, namespace, r, contexts) })
}

func (s *gatedStore) AddVectors(ctx context.Context, namespace, embedder string, vectors []store.KnowledgeVector) error {
	document := vectors[0].Document
	return s.gate(ctx, s.batch("vectors", document), document, func() error { return s.Store.AddVectors(ctx, namespace, embedder, vectors) })
}

func (s *gatedStore) FinishKnowledge(ctx context.Context, namespace string, r store.KnowledgeRevision, finish store.KnowledgeFinish) (out store.KnowledgeDocument, err error) {
	err = s.gate(ctx, "finish", r.Document, func() error { out, err = s.Store.FinishKnowledge(ctx, namespace, r, finish); return err })
	return out, err
}

// chunksOf are the chunks of a document as a worker that is not killed makes them.
func chunksOf(t *testing.T, w *harness.Harness, d store.KnowledgeDocument) (chunks []store.KnowledgeChunk) {
	t.Helper()
	for {
		more, err := w.Store.Chunks(w.Ctx(), w.TaskQueue, store.KnowledgeRevision{Document: d.ID, Number: d.Indexed}, len(chunks), 0)
		require.NoError(t, err)
		if len(more) == 0 {
			return chunks
		}
		chunks = append(chunks, more...)
	}
}

// requireWholeDocument checks that the visible revision of a document has exactly its chunks, each with one vector if the store
// keeps vectors: few PostgreSQL servers have the extension.
func requireWholeDocument(t *testing.T, w *harness.Harness, d store.KnowledgeDocument, edition string, n int) {
	t.Helper()
	require.Equal(t, store.KnowledgeIndexed, d.Status, d.Error)
	require.Equal(t, n, d.Chunks)
	chunks := chunksOf(t, w, d)
	require.Len(t, chunks, n)
	for i, c := range chunks {
		require.Equal(t, i, c.Index)
		require.Contains(t, c.Text, fmt.Sprintf("The manual of the %s edition says in its part %d what", edition, i))
		require.Contains(t, c.Context, c.Text[len(c.Text)-20:], "the stand-in repeats what it is asked")
	}
	if !w.Store.HasVectors() {
		return
	}
	without, err := w.Store.ChunksWithout(w.Ctx(), w.TaskQueue, store.KnowledgeRevision{Document: d.ID, Number: d.Indexed}, standInEmbedder, 0)
	require.NoError(t, err)
	require.Empty(t, without)
	index, err := w.Store.KnowledgeIndex(w.Ctx(), w.TaskQueue)
	require.NoError(t, err)
	require.Equal(t, n, index.Chunks)
	require.Len(t, index.Embedders, 1)
	require.Equal(t, n, index.Embedders[0].Chunks)
}

// poll searches again and again until the test stops it: what it finds is always one whole revision. It leaves time to what it watches.
func poll(t *testing.T, w *harness.Harness, n int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var polling sync.WaitGroup
	polling.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(2 * testenv.Tick) {
			hits, err := w.Store.SearchText(ctx, w.TaskQueue, "manual", store.KnowledgeScope{Limit: store.MaxKnowledgeHits})
			if err != nil {
				continue // the end
			}
			revisions := map[int]int{}
			for _, h := range hits {
				revisions[h.Revision]++
			}
			if len(revisions) > 0 && (!assert.Len(t, revisions, 1, "revisions that are found") || !assert.Len(t, hits, n)) {
				return
			}
			index, err := w.Store.KnowledgeIndex(ctx, w.TaskQueue)
			if err != nil || index.Chunks == 0 {
				continue
			}
			if !assert.Equal(t, n, index.Chunks) || w.Store.HasVectors() && (!assert.Len(t, index.Embedders, 1) || !assert.Equal(t, n, index.Embedders[0].Chunks)) {
				return
			}
		}
	})
	return sync.OnceFunc(func() { cancel(); polling.Wait() })
}

// TestIngestionKilled kills the worker with SIGKILL at every step of the ingestion of a document: it ends indexed, with
// exactly its chunks and vectors, and is announced once; until then, the edition before is found as a whole.
func TestIngestionKilled(t *testing.T) {
	t.Parallel()
	for _, part := range []struct {
		postgres bool // or SQLite: a death takes ten seconds to be noticed, so each part has one of them
		points   []string
	}{
		{false, []string{"begin", "done begin", "put", "done put"}},
		{true, []string{"chunks 1", "chunks 2", "done chunks 2"}},
		{false, []string{"contexts 5", "vectors 1", "vectors 2"}},
		{true, []string{"done contexts 9", "finish", "done finish"}},
	} {
		t.Run("S2-59 "+part.points[0], func(t *testing.T) {
			t.Parallel()
			ingestionKilled(t, harness.Options{Postgres: part.postgres}, part.points)
		})
	}
}

func ingestionKilled(t *testing.T, o harness.Options, points []string) {
	k := killing.New(t, o, "reads")
	s := documents.NewSite(t, documents.Sections("first", documents.ManySections))
	source := s.URL + "/manual.md"
	document := store.KnowledgeID(store.DefaultCollection, source)
	k.Start()
	id := k.Open()
	stop := poll(t, k.Harness, documents.ManySections)
	defer stop()
	documents.AskToIngest(k.Harness, id, "e1", signals.Ingestion{Source: source})
	requireWholeDocument(t, k.Harness, documents.AwaitDocument(k.Harness, source, 1), "first", documents.ManySections)
	documents.AwaitToldTimes(t, k.Harness, id, 1)
	k.Kill() // the batches count from 1 again

	second := documents.Sections("second", documents.ManySections)
	s.Text.Store(&second)
	gets, asked := s.Gets.Load(), chatCalls(k.Harness)
	for i, point := range points {
		reached := k.Hold(point, document)
		k.Start()
		if i == 0 {
			documents.AskToIngest(k.Harness, id, "e2", signals.Ingestion{Source: source})
		}
		check.Arrives(t, reached, point)
		visible, err := k.Store.KnowledgeDocument(k.Ctx(), k.TaskQueue, document)
		require.NoError(t, err)
		require.Equal(t, point == "done finish", visible.Indexed == 2, point)
		k.Kill()
		require.Len(t, documents.ToldOf(k.Harness, id), 1, point)
	}
	k.Start()
	told := documents.AwaitToldTimes(t, k.Harness, id, 2)
	require.Contains(t, told[1].Content, fmt.Sprintf("is indexed, in %d chunks", documents.ManySections))
	stop()
	d := documents.AwaitDocument(k.Harness, source, 2)
	require.Equal(t, 2, d.Revision)
	requireWholeDocument(t, k.Harness, d, "second", documents.ManySections)
	const lost = 4 // calls of a worker that was killed before it stored their answers
	require.LessOrEqual(t, chatCalls(k.Harness)-asked, documents.ManySections+lost, "contexts that are stored are not asked for again")
	require.LessOrEqual(t, s.Gets.Load()-gets, int64(2), "what is stored is not fetched again")
}

// chatCalls counts the calls of the provider that are not for vectors.
func chatCalls(w *harness.Harness) (n int) {
	for _, r := range w.Provider.Requests() {
		if !strings.HasSuffix(r.URL, "/embeddings") {
			n++
		}
	}
	return n
}

// TestIngestionKilledByItsAnswers kills the worker when Temporal has got a report of it, but the worker no answer.
func TestIngestionKilledByItsAnswers(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]func(w *harness.Harness, document string) string{
		"the ingestion has begun, its event does not know": func(w *harness.Harness, document string) string {
			return job.IngestWorkflowID(w.TaskQueue, document, 1)
		},
		"the announcement is posted": func(*harness.Harness, string) string { return "is indexed, in" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := killing.New(t, harness.Options{}, "reads")
			s := documents.NewSite(t, documents.Sections("first", 3))
			source := s.URL + "/manual.md"
			held := k.StartBehindProxy(text(k.Harness, store.KnowledgeID(store.DefaultCollection, source)))
			id := k.Open()
			documents.AskToIngest(k.Harness, id, "e1", signals.Ingestion{Source: source})
			check.Arrives(t, held, "the report")
			k.Kill()
			k.Start()
			d := documents.AwaitDocument(k.Harness, source, 1)
			require.Equal(t, signals.TurnCompleted, k.Await(id, "e1").Status)
			told := documents.AwaitToldTimes(t, k.Harness, id, 1)
			require.Contains(t, told[0].Content, "is indexed, in 3 chunks")
			d, err := k.Store.KnowledgeDocument(k.Ctx(), k.TaskQueue, d.ID)
			require.NoError(t, err)
			require.Equal(t, 1, d.Revision)
			requireWholeDocument(t, k.Harness, d, "first", 3)
		})
	}
}
