package library

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

const (
	// maxCandidates is how many passages of a search are reranked.
	maxCandidates = 50

	// rerankWithin bounds how long a search waits for the reranking model.
	rerankWithin = 5 * time.Second
)

// rerank puts the passages first that the reranking model finds best, at most limit. If it fails, they stay in their order, and
// the warning says why.
func (l *Library) rerank(ctx context.Context, query string, candidates []event.Passage, limit int) (passages []event.Passage, warning string, err error) {
	if l.cfg.Reranker == nil || len(candidates) < 2 {
		return candidates, "", nil
	}
	_, model, _ := strings.Cut(l.cfg.RerankModel, "/")
	req := llm.RerankRequest{Model: model, Query: query, Documents: make([]string, len(candidates)), Limit: limit}
	for i, p := range candidates {
		req.Documents[i] = embedded(store.KnowledgeChunk{Path: p.Path, Context: p.Context, Text: p.Text})
	}
	waiting, cancel := context.WithTimeout(ctx, rerankWithin)
	defer cancel()
	ranking, err := l.cfg.Reranker.Rerank(waiting, req)
	if err == nil {
		err = ranking.Check(req) // a program's own reranker may return anything
	}
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case err != nil && waiting.Err() != nil:
		return candidates, fmt.Sprintf("the reranking model %s did not answer within %s", l.cfg.RerankModel, rerankWithin), nil
	case err != nil:
		return candidates, fmt.Sprintf("the reranking model %s failed: %s", l.cfg.RerankModel, reason(err)), nil
	}
	return reranked(candidates, ranking), "", nil
}

// reranked returns the passages of a ranking, and after them the others in their order.
func reranked(candidates []event.Passage, ranking llm.Ranking) []event.Passage {
	out := make([]event.Passage, 0, len(candidates))
	ranked := make([]bool, len(candidates))
	for i, r := range ranking.Ranked {
		p := candidates[r.Index]
		p.RerankRank, ranked[r.Index] = i+1, true
		if ranking.Scored {
			p.RerankScore = &ranking.Ranked[i].Score
		}
		out = append(out, p)
	}
	for i, p := range candidates {
		if !ranked[i] {
			out = append(out, p)
		}
	}
	return out
}
