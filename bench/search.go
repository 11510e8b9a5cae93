package main

import (
	"context"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/document/formats"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/store"
)

// searchNamespace has the documents whose ingestion and searches are timed.
const searchNamespace = "search"

// search times the ingestion of generated documents, without Temporal, and searches in them.
func (m *meter) search(ctx context.Context) ([]searchRow, error) {
	var rows []searchRow
	err := m.eachStore(ctx, func(name string, s store.Store) error {
		row := searchRow{Store: name}
		documents := teststore.Of(s)
		b := newBookshelf(documents)
		if err := b.fill(ctx, m.Knowledge.Chunks, m.say); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		row.Documents, row.Chunks, row.Bytes = b.documents, b.chunks, b.bytes
		row.DocumentsPerSecond, row.ChunksPerSecond = rateOf(b.documents, b.indexing), rateOf(b.chunks, b.indexing)
		if documents.HasVectors() {
			row.VectorsPerSecond = rateOf(b.chunks, b.embedding)
		}
		m.say("%s: %d documents, %d chunks: %.0f chunks/s", name, b.documents, b.chunks, row.ChunksPerSecond)
		if err := b.searches(ctx, m.Knowledge.Searches, &row); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.say("%s: searches by text %s ms, by vectors %s ms, hybrid %s ms", name, middle(row.Text), middle(row.Vectors), middle(row.Hybrid))
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

func rateOf(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

// bookshelf is a library with generated documents.
type bookshelf struct {
	library  *library.Library
	store    store.Knowledge
	language language
	clusters *clusters

	documents, chunks, bytes int

	// indexing is the time of all steps but those of vectors.
	indexing, embedding time.Duration
}

func newBookshelf(s store.Knowledge) *bookshelf {
	c := newClusters()
	return &bookshelf{language: newLanguage(), clusters: c, store: s, library: library.New(library.Config{
		Reader: formats.Reader(),
		Store:  s, Embedder: c, Model: clusterName,
		Start: func(context.Context, string, store.KnowledgeDocument, bool) error { return nil }, // fill runs the steps
	})}
}

// fill ingests documents, one after the other, until there are as many chunks.
func (b *bookshelf) fill(ctx context.Context, chunks int, say func(string, ...any)) error {
	for last := time.Now(); b.chunks < chunks; b.documents++ {
		content := b.language.document(b.documents)
		if err := b.ingest(ctx, content); err != nil {
			return fmt.Errorf("ingesting %s: %w", content.Name, err)
		}
		if time.Since(last) > 20*time.Second {
			last = time.Now()
			say("%d of %d chunks", b.chunks, chunks)
		}
	}
	return nil
}

// ingest runs the steps of the workflow of an ingestion.
func (b *bookshelf) ingest(ctx context.Context, content *store.KnowledgeContent) error {
	began := time.Now()
	doc, err := b.library.Add(ctx, searchNamespace, library.Addition{Source: content.Name, Content: content})
	if err != nil {
		return err
	}
	r := doc.Newest()
	fetched, err := b.library.Fetch(ctx, searchNamespace, r, false)
	if err != nil {
		return err
	}
	parsed, err := b.library.Split(ctx, searchNamespace, r)
	if err != nil {
		return err
	}
	split := time.Now()
	for more := true; more; {
		batch, err := b.library.Embed(ctx, searchNamespace, r)
		if err != nil {
			return err
		}
		more = batch.More
	}
	embedding := time.Since(split)
	_, err = b.library.Finish(ctx, searchNamespace, r, job.IngestResult{
		Status: job.IngestIndexed, Format: parsed.Format, Title: parsed.Title, Bytes: fetched.Bytes,
	})
	b.embedding += embedding
	b.indexing += time.Since(began) - embedding
	b.chunks, b.bytes = b.chunks+parsed.Chunks, b.bytes+fetched.Bytes
	return err
}

// searches times searches of each kind, in alternation. Embedding a question takes no time.
func (b *bookshelf) searches(ctx context.Context, n int, row *searchRow) error {
	kinds := []func(text string) (int, error){
		func(text string) (int, error) {
			hits, err := b.store.SearchText(ctx, searchNamespace, text, store.KnowledgeScope{})
			return len(hits), err
		},
		func(text string) (int, error) {
			hits, err := b.store.SearchVectors(ctx, searchNamespace, b.library.Embeds(), b.clusters.vector(text), store.KnowledgeScope{})
			return len(hits), err
		},
		func(text string) (int, error) {
			out, err := b.library.Search(ctx, searchNamespace, library.Query{Text: text})
			return len(out.Passages), err
		},
	}
	if b.library.Embeds() == "" {
		kinds = kinds[:1]
	}
	times := make([][]time.Duration, 3)
	for i := range warmUpSearches + n {
		for k, search := range kinds {
			began := time.Now()
			found, err := search(b.language.question(i))
			took := time.Since(began)
			if err != nil {
				return err
			}
			if found == 0 && k > 0 {
				return fmt.Errorf("%q finds nothing", b.language.question(i))
			}
			if i >= warmUpSearches {
				times[k] = append(times[k], took)
			}
		}
	}
	row.Text, row.Vectors, row.Hybrid = summarize(milliseconds(times[0])), summarize(milliseconds(times[1])), summarize(milliseconds(times[2]))
	return nil
}

// warmUpSearches are not timed.
const warmUpSearches = 5
