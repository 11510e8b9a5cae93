package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

var (
	_ llm.Reranker = (*Provider)(nil)
	_ llm.Reranker = (*Responses)(nil)
)

// Rerank calls the endpoint /rerank, which Jina, Cohere (BaseURL https://api.cohere.com/v2), vLLM, llama.cpp and other servers
// share. OpenAI, Azure and servers without it are asked to order the documents as a chat: see [llm.Listwise].
func (p *Provider) Rerank(ctx context.Context, req llm.RerankRequest) (llm.Ranking, error) {
	return p.rerank(ctx, req, p)
}

// Rerank is [Provider.Rerank] with the Responses API instead of a chat.
func (p *Responses) Rerank(ctx context.Context, req llm.RerankRequest) (llm.Ranking, error) {
	return p.rerank(ctx, req, p)
}

func (p *Provider) rerank(ctx context.Context, req llm.RerankRequest, chat llm.Provider) (llm.Ranking, error) {
	if p.official() {
		return llm.Listwise(chat).Rerank(ctx, req)
	}
	out, err := p.endpoint.Rerank(ctx, req, func(ctx context.Context, x *driver.Exchange) (llm.Ranking, error) {
		b := &replyBody{exchange: x}
		if err := p.postRerank(context.WithValue(ctx, bodyKey{}, b), req); err != nil {
			return llm.Ranking{}, err
		}
		return readRanking(b.whole)
	}, said)
	if failed, ok := errors.AsType[*llm.Error](err); ok && slices.Contains(withoutRerank, failed.StatusCode) {
		return llm.Listwise(chat).Rerank(ctx, req)
	}
	return out, err
}

// withoutRerank are the statuses of servers without the endpoint; llama.cpp has it only if it is started so.
var withoutRerank = []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}

// postRerank sends a request. The transport keeps the body of a successful response.
func (p *Provider) postRerank(ctx context.Context, req llm.RerankRequest) error {
	body, err := json.Marshal(map[string]any{"model": req.Model, "query": req.Query, "documents": req.Documents, "top_n": req.Top()})
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint.BaseURL+"/rerank", bytes.NewReader(body))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json")
	if p.endpoint.APIKey != "" {
		post.Header.Set("Authorization", "Bearer "+p.endpoint.APIKey)
	}
	resp, err := p.http.Do(post)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	refusal, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return readErrorBody(refusal)
}

// readRanking reads the documents of a ranking, and puts them into the order of their scores.
func readRanking(raw []byte) (llm.Ranking, error) {
	var in struct {
		Error   json.RawMessage `json:"error"`
		Results []struct {
			Index int      `json:"index"`
			Score *float64 `json:"relevance_score"`
		} `json:"results"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return llm.Ranking{}, &driver.Unreadable{Err: err}
	}
	if e := readError(in.Error); e != nil {
		return llm.Ranking{}, e
	}
	out := llm.Ranking{Scored: true}
	for _, r := range in.Results {
		if r.Score == nil {
			return llm.Ranking{}, &driver.Unreadable{Err: errors.New("a result has no relevance_score")}
		}
		out.Ranked = append(out.Ranked, llm.Ranked{Index: r.Index, Score: *r.Score})
	}
	slices.SortStableFunc(out.Ranked, func(a, b llm.Ranked) int { return cmp.Compare(b.Score, a.Score) })
	return out, nil
}
