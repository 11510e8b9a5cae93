package llm

import (
	"context"
	"fmt"
	"math"
)

// Reranker calls a model that orders texts by how well they fit a query. Implementations are safe for concurrent use.
type Reranker interface {
	// Rerank returns the documents that fit best. It stops soon after ctx ends, with ctx's error. Any other error is an
	// *[Error].
	Rerank(ctx context.Context, req RerankRequest) (Ranking, error)
}

// RerankRequest is the request of one call of a [Reranker].
type RerankRequest struct {
	// Model is the provider's name of the model, without the prefix "provider/".
	Model string
	Query string

	// Documents are at most [MaxRerankDocuments], none of them empty.
	Documents []string

	// Limit is the maximum number of documents to return. 0 = all.
	Limit int
}

// MaxRerankDocuments is the maximum number of documents of a request.
const MaxRerankDocuments = 100

// Top returns how many documents the request asks for.
func (r RerankRequest) Top() int {
	if r.Limit <= 0 {
		return len(r.Documents)
	}
	return min(r.Limit, len(r.Documents))
}

// Ranking is the result of a [Reranker].
type Ranking struct {
	// Ranked are documents, the best first, each at most once. Some may be missing.
	Ranked []Ranked

	// Scored reports whether the model gives scores.
	Scored bool
}

// Ranked is a document in a [Ranking].
type Ranked struct {
	// Index is the place of the document in the request, from 0.
	Index int

	// Score is greater for documents that fit better. Scores of different requests or models cannot be compared.
	Score float64
}

// CodeBadRanking is the Code of an [Error] of a model whose ranking does not fit the request.
const CodeBadRanking = "bad_ranking"

// Check reports how a ranking does not fit a request.
func (r Ranking) Check(req RerankRequest) error {
	if len(r.Ranked) == 0 || len(r.Ranked) > req.Top() {
		return fmt.Errorf("the model ranked %d documents instead of 1 to %d", len(r.Ranked), req.Top())
	}
	known := make([]bool, len(req.Documents))
	for i, d := range r.Ranked {
		switch {
		case d.Index < 0 || d.Index >= len(req.Documents):
			return fmt.Errorf("the model ranked document %d of %d", d.Index+1, len(req.Documents))
		case known[d.Index]:
			return fmt.Errorf("the model ranked document %d twice", d.Index+1)
		case math.IsNaN(d.Score) || math.IsInf(d.Score, 0), i > 0 && d.Score > r.Ranked[i-1].Score:
			return fmt.Errorf("the scores of the ranking have no order at document %d", d.Index+1)
		}
		known[d.Index] = true
	}
	return nil
}

// RerankerOf returns the provider if it is a [Reranker], and otherwise its [Listwise] reranker.
func RerankerOf(p Provider) Reranker {
	if r, ok := p.(Reranker); ok {
		return r
	}
	return Listwise(p)
}
