package library

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/library/knowledge"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

// Query asks for passages.
type Query struct {
	Text string

	// Collections to search. Empty = all of the namespace.
	Collections []string

	// Limit is the maximum number of passages. Default [DefaultPassages], maximum [MaxPassages].
	Limit int
}

// Limits of a [Query].
const (
	DefaultPassages = 5
	MaxPassages     = 50

	// maxQuery is the maximum size of a query in bytes; what is longer is cut. Embedders take about this much.
	maxQuery = 8 << 10

	// embedWithin bounds how long a search waits for the vector of its query.
	embedWithin = 5 * time.Second
)

// Found is the result of a search.
type Found struct {
	Passages []event.Passage `json:"passages" nullable:"false" doc:"The passages, the best first"`

	// Warning says why vectors were not searched although there are some, and why the reranking model did not order the passages.
	Warning string `json:"warning,omitempty" doc:"Why documents were searched by their words alone, although they have vectors, or why the reranking model did not order the passages"`
}

// Search returns the passages that fit a text best: those that share its words, and those whose vectors are similar,
// fused by their ranks, and ordered by the reranking model. If the embedder fails, the words decide alone; if that model fails, the
// fused order stands; and the result says so.
func (l *Library) Search(ctx context.Context, namespace string, q Query) (found Found, err error) {
	if l.cfg.Observe == nil {
		return l.search(ctx, namespace, q)
	}
	err = l.cfg.Observe(ctx, func(ctx context.Context) error {
		found, err = l.search(ctx, namespace, q)
		return err
	})
	return found, err
}

func (l *Library) search(ctx context.Context, namespace string, q Query) (Found, error) {
	text := strings.TrimSpace(cutText(l.cfg.Redact.Text(q.Text), maxQuery))
	limit := q.Limit
	if limit <= 0 {
		limit = DefaultPassages
	}
	limit = min(limit, MaxPassages)
	if text == "" {
		return Found{Passages: []event.Passage{}}, nil
	}
	in := store.KnowledgeScope{Collections: q.Collections, Limit: max(limit, store.DefaultKnowledgeHits)}
	var (
		byText, byVector []store.KnowledgeHit
		warning          string
	)
	both, within := errgroup.WithContext(ctx) // the embedder is waited for anyway
	both.Go(func() (err error) {
		byText, err = l.cfg.Store.SearchText(within, namespace, text, in)
		return err
	})
	both.Go(func() (err error) {
		byVector, warning, err = l.searchVectors(within, namespace, text, in)
		return err
	})
	if err := both.Wait(); err != nil {
		return Found{}, err
	}
	current := newest(byText, byVector)
	candidates := limit
	if l.cfg.Reranker != nil {
		candidates = maxCandidates
	}
	passages, unordered, err := l.rerank(ctx, text, fused(candidates, current(byText), current(byVector)), limit)
	if err != nil {
		return Found{}, err
	}
	return Found{Passages: passages[:min(limit, len(passages))], Warning: joinWarnings(warning, unordered)}, nil
}

func joinWarnings(warnings ...string) string {
	return strings.Join(slices.DeleteFunc(warnings, func(w string) bool { return w == "" }), "; ")
}

// newest returns a function that removes the hits of revisions of which a search has found a newer one: a document may
// change between two searches, and is never found in two revisions.
func newest(searches ...[]store.KnowledgeHit) func([]store.KnowledgeHit) []store.KnowledgeHit {
	revisions := map[string]int{}
	for _, hits := range searches {
		for _, h := range hits {
			revisions[h.Document] = max(revisions[h.Document], h.Revision)
		}
	}
	return func(hits []store.KnowledgeHit) []store.KnowledgeHit {
		return slices.DeleteFunc(hits, func(h store.KnowledgeHit) bool { return h.Revision < revisions[h.Document] })
	}
}

// searchVectors embeds a query with the embedder whose vectors are complete: while the documents of a namespace get vectors of
// another embedder, those of the one before serve.
func (l *Library) searchVectors(ctx context.Context, namespace, text string, in store.KnowledgeScope) (hits []store.KnowledgeHit, warning string, err error) {
	if l.Embeds() == "" {
		return nil, "", nil
	}
	index, err := l.cfg.Store.KnowledgeIndex(ctx, namespace)
	if err != nil || len(index.Embedders) == 0 {
		return nil, "", err
	}
	by := l.serving(index)
	embedding, cancel := context.WithTimeout(ctx, embedWithin)
	defer cancel()
	out, err := l.embed(embedding, by, llm.EmbedQuery, []string{text})
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case embedding.Err() != nil:
		return nil, fmt.Sprintf("the embedder %s did not answer within %s", by.name(), embedWithin), nil
	case err != nil:
		return nil, fmt.Sprintf("the embedder %s failed: %s", by.name(), reason(err)), nil
	}
	if kept := dimension(index, by); kept != 0 && kept != len(out.Vectors[0]) {
		return nil, fmt.Sprintf("the embedder %s returned a vector of dimension %d, and those of the documents have %d", by.name(), len(out.Vectors[0]), kept), nil
	}
	hits, err = l.cfg.Store.SearchVectors(ctx, namespace, by.name(), out.Vectors[0], in)
	return hits, "", err
}

// serving returns the embedder that embeds queries: the configured one, unless another model of its provider has vectors of
// more chunks.
func (l *Library) serving(index store.KnowledgeIndex) embedder {
	best, most := l.embedder, 0
	for _, e := range index.Embedders {
		is := parseEmbedder(e.Name)
		if is.provider == l.embedder.provider && (e.Chunks > most || is == l.embedder && e.Chunks == most) {
			best, most = is, e.Chunks
		}
	}
	return best
}

// dimension is that of the vectors of an embedder that documents have; 0 = they have none.
func dimension(index store.KnowledgeIndex, by embedder) int {
	for _, e := range index.Embedders {
		if e.Name == by.name() {
			return e.Dimension
		}
	}
	return 0
}

// fused returns the best passages of two searches.
func fused(limit int, byText, byVector []store.KnowledgeHit) []event.Passage {
	found := map[string]store.KnowledgeHit{}
	ids := func(hits []store.KnowledgeHit) []string {
		list := make([]string, len(hits))
		for i, h := range hits {
			list[i] = ChunkID(h.KnowledgeChunk)
			found[list[i]] = h
		}
		return list
	}
	ranked := knowledge.Fuse(ids(byText), ids(byVector))
	passages := make([]event.Passage, 0, limit)
	for _, r := range ranked[:min(limit, len(ranked))] {
		p := passage(found[r.ID])
		p.Score, p.TextRank, p.VectorRank = r.Score, r.Ranks[0], r.Ranks[1]
		passages = append(passages, p)
	}
	return passages
}

func passage(h store.KnowledgeHit) event.Passage {
	return event.Passage{
		ID: ChunkID(h.KnowledgeChunk), Document: h.Document, Collection: h.Collection, Source: h.Source, Title: h.Title,
		Path: h.Path, Page: h.Page, Index: h.Index, Text: h.Text, Context: h.Context,
	}
}

// ChunkID identifies a chunk in a namespace.
func ChunkID(c store.KnowledgeChunk) string {
	return fmt.Sprintf("%s.%d.%d", c.Document, c.Revision, c.Index)
}

// cutText cuts text to at most limit bytes, between characters.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
