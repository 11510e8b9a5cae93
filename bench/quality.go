package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/internal/library"
	"github.com/threadmill/threadmill/internal/library/knowledge"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/google"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/store"
)

// The ways to search.
const (
	searchText   = "full text"
	searchHybrid = "hybrid"

	// searchReranked is the best of the others, reranked.
	searchReranked = "reranked"
)

// Where the rankings of a search are cut off.
const (
	ndcgAt   = 10
	recallAt = 100
)

// quality measures how well passages are found: those of the project's own sets, and of a set in BEIR's format, if
// there is one.
func (m *meter) quality(ctx context.Context) ([]qualityRow, error) {
	var sets []judged
	for _, language := range languages {
		set, err := ownSet(language)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	if m.Knowledge.BEIR != "" {
		set, err := beirSet(m.Knowledge.BEIR)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	with, err := m.Knowledge.models()
	if err != nil {
		return nil, err
	}
	if with.embedder == nil {
		m.say("quality: %s", noEmbedder)
	}
	var rows []qualityRow
	err = m.eachStore(ctx, func(name string, s store.Store) error {
		for _, set := range sets {
			found, err := rate(ctx, teststore.Of(s), set, with)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", name, set.name, err)
			}
			for _, row := range found {
				row.Store = name
				rows = append(rows, row)
				if row.Kind == "" {
					m.say("quality of %s, %s, %s: nDCG@%d %.3f, recall@%d %.3f", set.name, name, row.Search, ndcgAt, row.NDCG, recallAt, row.Recall)
				}
			}
		}
		return nil
	})
	return rows, err
}

// models are what the quality of searches is measured with, beside words.
type models struct {
	embedder      llm.Embedder // nil = none
	embedderModel string
	reranker      llm.Reranker // nil = none
	rerankModel   string
}

// models returns the models of the options.
func (k KnowledgeOptions) models() (models, error) {
	out := models{embedderModel: k.Embedder, rerankModel: k.RerankModel}
	embedder, err := providerOf("-embedder", k.Embedder, k.BaseURL)
	if err != nil {
		return out, err
	}
	out.embedder, _ = embedder.(llm.Embedder)
	reranker, err := providerOf("-rerank-model", k.RerankModel, k.RerankURL)
	if reranker != nil {
		out.reranker = llm.RerankerOf(reranker)
	}
	return out, err
}

// providerOf returns the provider of a model that a flag names; nil without one.
func providerOf(name, value, baseURL string) (llm.Provider, error) {
	provider, model, _ := strings.Cut(value, "/")
	switch {
	case value == "":
		return nil, nil
	case model == "":
	case provider == "openai":
		return openai.New(openai.Config{APIKey: os.Getenv("OPENAI_API_KEY"), BaseURL: baseURL})
	case provider == "google":
		return google.New(google.Config{APIKey: os.Getenv("GEMINI_API_KEY"), BaseURL: baseURL})
	}
	return nil, fmt.Errorf("%s is %q, must be openai/<model> or google/<model>", name, value)
}

// rate stores a set in a namespace of its own and rates the searches for its questions.
func rate(ctx context.Context, s store.Knowledge, set judged, with models) ([]qualityRow, error) {
	ids := map[string]string{}
	for _, p := range set.passages {
		id, err := put(ctx, s, set.name, p)
		if err != nil {
			return nil, fmt.Errorf("passage %s: %w", p.id, err)
		}
		ids[id] = p.id
	}
	text := textFinder{s, set.name}
	rows, err := rateSearch(ctx, searchText, set, text, ids)
	if err != nil {
		return nil, err
	}
	last, cfg := finder(text), library.Config{Store: s}
	if with.embedder != nil && s.HasVectors() {
		hybrid, err := newHybridFinder(ctx, s, set, with.embedder, with.embedderModel)
		if err != nil {
			return nil, err
		}
		more, err := rateSearch(ctx, searchHybrid, set, hybrid, ids)
		if err != nil {
			return nil, err
		}
		rows, last = append(rows, more...), hybrid
		cfg.Embedder, cfg.Model = hybrid.vectors, with.embedderModel
	}
	if with.reranker == nil {
		return rows, nil
	}
	cfg.Reranker, cfg.RerankModel = with.reranker, with.rerankModel
	more, err := rateSearch(ctx, searchReranked, set, &rerankedFinder{last, set.name, library.New(cfg)}, ids)
	return append(rows, more...), err
}

// put stores a passage as a document with one chunk, and returns the document's id.
func put(ctx context.Context, s store.Knowledge, namespace string, p judgedPassage) (string, error) {
	doc, err := s.BeginKnowledge(ctx, namespace, store.KnowledgeDocument{Source: p.id}, store.KnowledgeBegin{})
	if err != nil {
		return "", err
	}
	if err := s.AddChunks(ctx, namespace, doc.Newest(), []store.KnowledgeChunk{{Path: p.path, Text: p.text}}); err != nil {
		return "", err
	}
	_, err = s.FinishKnowledge(ctx, namespace, doc.Newest(), store.KnowledgeFinish{})
	return doc.ID, err
}

// finder finds documents by their ids, the best first.
type finder interface {
	// best finds what agents are given.
	best(ctx context.Context, q question) ([]string, error)
	// candidates finds up to [recallAt].
	candidates(ctx context.Context, q question) ([]string, error)
}

// rateSearch returns the row of all questions of a set, and one for each of their kinds.
func rateSearch(ctx context.Context, name string, set judged, f finder, ids map[string]string) ([]qualityRow, error) {
	gains, recalls := map[string][]float64{}, map[string][]float64{}
	kinds := []string{""}
	for _, q := range set.questions {
		best, err := f.best(ctx, q)
		if err != nil {
			return nil, err
		}
		candidates, err := f.candidates(ctx, q)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(kinds, q.kind) {
			kinds = append(kinds, q.kind)
		}
		for _, kind := range slices.Compact([]string{"", q.kind}) {
			gains[kind] = append(gains[kind], ndcg(renamed(best, ids), q.grades, ndcgAt))
			recalls[kind] = append(recalls[kind], recall(renamed(candidates, ids), q.grades, recallAt))
		}
	}
	rows := make([]qualityRow, len(kinds))
	for i, kind := range kinds {
		rows[i] = qualityRow{
			Set: set.name, Passages: len(set.passages), Search: name, Kind: kind,
			Questions: len(gains[kind]), NDCG: mean(gains[kind]), Recall: mean(recalls[kind]),
		}
	}
	return rows, nil
}

func renamed(ids []string, names map[string]string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = names[id]
	}
	return out
}

// textFinder searches by words alone.
type textFinder struct {
	store     store.Knowledge
	namespace string
}

func (f textFinder) best(ctx context.Context, q question) ([]string, error) {
	return found(ctx, library.New(library.Config{Store: f.store}), f.namespace, q)
}

func (f textFinder) candidates(ctx context.Context, q question) ([]string, error) {
	hits, err := f.store.SearchText(ctx, f.namespace, q.text, store.KnowledgeScope{Limit: recallAt})
	return documents(hits), err
}

// hybridFinder searches by words and by vectors.
type hybridFinder struct {
	textFinder
	library *library.Library
	vectors *asked
}

// newHybridFinder embeds the passages and the questions of a set.
func newHybridFinder(ctx context.Context, s store.Knowledge, set judged, embedder llm.Embedder, model string) (*hybridFinder, error) {
	vectors := &asked{Embedder: embedder, questions: map[string][]float32{}}
	l := library.New(library.Config{Store: s, Embedder: vectors, Model: model})
	for more := true; more; {
		batch, err := l.Embed(ctx, set.name, store.KnowledgeRevision{})
		if err != nil {
			return nil, err
		}
		more = batch.More
	}
	_, name, _ := strings.Cut(model, "/")
	return &hybridFinder{textFinder{s, set.name}, l, vectors}, vectors.embed(ctx, name, set.questions)
}

func (f *hybridFinder) best(ctx context.Context, q question) ([]string, error) {
	return found(ctx, f.library, f.namespace, q)
}

// candidates fuses longer lists than those that the library fuses for agents.
func (f *hybridFinder) candidates(ctx context.Context, q question) ([]string, error) {
	byText, err := f.textFinder.candidates(ctx, q)
	if err != nil {
		return nil, err
	}
	hits, err := f.store.SearchVectors(ctx, f.namespace, f.library.Embeds(), f.vectors.questions[q.text], store.KnowledgeScope{Limit: recallAt})
	if err != nil {
		return nil, err
	}
	fused := knowledge.Fuse(byText, documents(hits))
	ids := make([]string, len(fused))
	for i, hit := range fused {
		ids[i] = hit.ID
	}
	return ids, nil
}

// rerankedFinder puts what another one finds into the order of a reranking model.
type rerankedFinder struct {
	finder
	namespace string
	library   *library.Library
}

func (f *rerankedFinder) best(ctx context.Context, q question) ([]string, error) {
	return found(ctx, f.library, f.namespace, q)
}

// asked is an embedder that has embedded questions already.
type asked struct {
	llm.Embedder
	questions map[string][]float32
}

func (e *asked) embed(ctx context.Context, model string, questions []question) error {
	for batch := range slices.Chunk(questions, llm.MaxEmbedTexts) {
		texts := make([]string, len(batch))
		for i, q := range batch {
			texts[i] = q.text
		}
		out, err := e.Embedder.Embed(ctx, llm.EmbedRequest{Model: model, Texts: texts, Purpose: llm.EmbedQuery})
		if err != nil {
			return err
		}
		for i, text := range texts {
			e.questions[text] = out.Vectors[i]
		}
	}
	return nil
}

// Embed implements [llm.Embedder].
func (e *asked) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embeddings, error) {
	if v, ok := e.questions[req.Texts[0]]; ok && req.Purpose == llm.EmbedQuery && len(req.Texts) == 1 {
		return llm.Embeddings{Vectors: [][]float32{v}}, nil
	}
	return e.Embedder.Embed(ctx, req)
}

// found returns the documents that a library finds.
func found(ctx context.Context, l *library.Library, namespace string, q question) ([]string, error) {
	out, err := l.Search(ctx, namespace, library.Query{Text: q.text, Limit: ndcgAt})
	if err == nil && out.Warning != "" {
		err = fmt.Errorf("a model did not take part: %s", out.Warning)
	}
	ids := make([]string, len(out.Passages))
	for i, p := range out.Passages {
		ids[i] = p.Document
	}
	return ids, err
}

func documents(hits []store.KnowledgeHit) []string {
	ids := make([]string, len(hits))
	for i, h := range hits {
		ids[i] = h.Document
	}
	return ids
}
