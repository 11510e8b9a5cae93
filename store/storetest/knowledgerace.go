package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

// ingests is how many goroutines change knowledge at once, wholeChunks how many chunks a revision has there.
const (
	ingests     = 4
	wholeChunks = 6
)

func testKnowledgeBegunAtOnce(t *testing.T, k store.Knowledge) {
	for round := 1; round <= 3; round++ {
		begun := make([]store.KnowledgeDocument, ingests)
		errs := make([]error, ingests)
		var running sync.WaitGroup
		for n := range ingests {
			running.Go(func() {
				content := contentOf("text")
				content.Force = true
				begun[n], errs[n] = k.BeginKnowledge(t.Context(), ns, source("a.md"), content)
			})
		}
		running.Wait()
		require.NoError(t, errors.Join(errs...))
		for _, d := range begun {
			require.Equal(t, round, d.Revision)
			require.Equal(t, begun[0], d)
		}
		finishKnowledge(t, k, ns, begun[0].Newest(), store.KnowledgeFinish{})
	}
}

func testKnowledgeStepsAtOnce(t *testing.T, k store.Knowledge) {
	r := beginKnowledge(t, k, ns, source("a.md"), store.KnowledgeBegin{}).Newest()
	finished := make([]store.KnowledgeDocument, ingests)
	errs := make([]error, ingests)
	var running sync.WaitGroup
	for n := range ingests {
		running.Go(func() {
			content := store.KnowledgeContent{Bytes: []byte("text")}
			if errs[n] = k.PutKnowledgeContent(t.Context(), ns, r, "digest", content); errs[n] != nil {
				return
			}
			if errs[n] = k.AddChunks(t.Context(), ns, r, passages(numbered(50, "apple")...)); errs[n] != nil {
				return
			}
			if k.HasVectors() {
				if errs[n] = k.AddVectors(t.Context(), ns, embedder, []store.KnowledgeVector{vectorOf(r, 0, 1, 0)}); errs[n] != nil {
					return
				}
			}
			finished[n], errs[n] = k.FinishKnowledge(t.Context(), ns, r, store.KnowledgeFinish{Format: "text"})
		})
	}
	running.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, d := range finished {
		require.Equal(t, 50, d.Chunks)
		require.Equal(t, finished[0], d)
	}
	require.Len(t, searchText(t, k, ns, "apple", store.KnowledgeScope{Limit: 100}), 50)
	if k.HasVectors() {
		require.Len(t, near(t, k, ns, 1, 0), 1)
	}
}

func testKnowledgeReaders(t *testing.T, k store.Knowledge) { readWhileIngesting(t, k, k) }

// RunSharedKnowledge changes knowledge through a store while it is read through another one that shares its data.
func RunSharedKnowledge(t *testing.T, one, other whole) {
	ofKnowledge(func(t *testing.T, k store.Knowledge) {
		ofKnowledge(func(t *testing.T, reader store.Knowledge) { readWhileIngesting(t, k, reader) })(t, other)
	})(t, one)
}

// readWhileIngesting: while several goroutines replace one document, and each one its own, readers find of each document
// all chunks of one revision.
func readWhileIngesting(t *testing.T, k, reader store.Knowledge) {
	const rounds = 6
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, ingests+1)
	var writing, reading sync.WaitGroup
	for n := range ingests {
		writing.Go(func() {
			for round := range rounds {
				if err := ingest(ctx, k, fmt.Sprint("own-", n), round); err != nil {
					errs <- err
					return
				}
				if err := ingest(ctx, k, "shared", n*rounds+round); err != nil && !errors.Is(err, store.ErrSuperseded) {
					errs <- err
					return
				}
			}
			errs <- nil
		})
	}
	reading.Go(func() {
		for ctx.Err() == nil {
			if err := readWhole(ctx, reader); err != nil && ctx.Err() == nil {
				errs <- err
				return
			}
		}
		errs <- nil
	})
	writing.Wait()
	require.NoError(t, ingest(ctx, k, "shared", -1))
	cancel()
	reading.Wait()
	for range ingests + 1 {
		require.NoError(t, <-errs)
	}

	require.NoError(t, readWhole(t.Context(), k))
	require.Len(t, searchText(t, k, ns, "apple", store.KnowledgeScope{Limit: 200}), (ingests+1)*wholeChunks)
	require.Equal(t, (ingests+1)*wholeChunks, index(t, k, ns).Chunks)
	d := document1(t, k, ns, store.KnowledgeID("books", "shared"))
	require.Equal(t, d.Revision, d.Indexed)
	for number := 1; number < d.Revision; number++ {
		require.Empty(t, chunksOf(t, k, ns, store.KnowledgeRevision{Document: d.ID, Number: number}), "revision %d", number)
	}
}

// ingest stores a revision of a document in several steps.
func ingest(ctx context.Context, k store.Knowledge, name string, version int) error {
	d, err := k.BeginKnowledge(ctx, ns, source(name), contentOf(fmt.Sprint(name, version)))
	if err != nil {
		return err
	}
	chunks := passages(numbered(wholeChunks, "apple of "+name)...)
	for _, some := range [][]store.KnowledgeChunk{chunks[:2], chunks[2:]} {
		if err := k.AddChunks(ctx, ns, d.Newest(), some); err != nil {
			return err
		}
	}
	if k.HasVectors() {
		vectors := make([]store.KnowledgeVector, len(chunks))
		for i := range vectors {
			vectors[i] = vectorOf(d.Newest(), i, 1, float32(i))
		}
		if err := k.AddVectors(ctx, ns, embedder, vectors); err != nil {
			return err
		}
	}
	_, err = k.FinishKnowledge(ctx, ns, d.Newest(), store.KnowledgeFinish{})
	return err
}

func readWhole(ctx context.Context, k store.Knowledge) error {
	scope := store.KnowledgeScope{Limit: store.MaxKnowledgeHits}
	hits, err := k.SearchText(ctx, ns, "apple", scope)
	if err != nil {
		return err
	}
	if err := wholeRevisions(hits); err != nil || !k.HasVectors() {
		return err
	}
	if hits, err = k.SearchVectors(ctx, ns, embedder, []float32{1, 0}, scope); err != nil {
		return err
	}
	return wholeRevisions(hits)
}

func wholeRevisions(hits []store.KnowledgeHit) error {
	revisions, counts := map[string]int{}, map[string]int{}
	for _, hit := range hits {
		if known, ok := revisions[hit.Document]; ok && known != hit.Revision {
			return fmt.Errorf("of %s, a reader found the revisions %d and %d", hit.Source, known, hit.Revision)
		}
		revisions[hit.Document] = hit.Revision
		counts[hit.Source]++
	}
	for name, n := range counts {
		if n != wholeChunks {
			return fmt.Errorf("of %s, a reader found %d of %d chunks", name, n, wholeChunks)
		}
	}
	return nil
}
