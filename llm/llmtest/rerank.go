package llmtest

import (
	"cmp"
	"net/http"
	"slices"
)

// rerankRequest is a request of the protocol that Jina, Cohere, vLLM and llama.cpp share.
type rerankRequest struct {
	relevance func(query, document string) float64

	Model     string   `json:"model"`
	Query     string   `json:"query"`
	Documents []string `json:"documents"`
	TopN      int      `json:"top_n"`
}

func (s *Server) newRerankRequest(*http.Request) plainWire {
	relevance := s.config.Relevance
	if relevance == nil {
		relevance = similarity
	}
	return &rerankRequest{relevance: relevance}
}

// similarity is greater for texts that share more words.
func similarity(a, b string) (sum float64) {
	other := Embedding(b, EmbeddingDimension)
	for i, x := range Embedding(a, EmbeddingDimension) {
		sum += float64(x) * float64(other[i])
	}
	return sum
}

func (q *rerankRequest) problem() string {
	switch {
	case q.Model == "":
		return "model is required"
	case q.Query == "":
		return "query is required"
	case len(q.Documents) == 0 || slices.Contains(q.Documents, ""):
		return "documents must be texts"
	case q.TopN < 1 || q.TopN > len(q.Documents):
		return "top_n must be 1 to the number of documents"
	}
	return ""
}

func (q *rerankRequest) failure(f Fault) object { return new(chatRequest).failure(f) }

func (q *rerankRequest) reply(f Fault) object {
	order := f.indexes
	if order == nil {
		for i := range q.Documents {
			order = append(order, i)
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(q.score(b), q.score(a)) })
		order = order[:q.TopN]
	}
	results := make([]any, len(order))
	for i, index := range order {
		results[i] = object{"index": index, "relevance_score": q.score(index)}
	}
	return object{"model": q.Model, "results": results, "usage": object{"total_tokens": 1}}
}

// score is that of a document, or 0 if there is none.
func (q *rerankRequest) score(i int) float64 {
	if i < 0 || i >= len(q.Documents) {
		return 0
	}
	return q.relevance(q.Query, q.Documents[i])
}

// Order responds to a request for reranking with documents by these indexes, whether or not they exist.
func Order(indexes ...int) Fault {
	return Fault{kind: order, indexes: append([]int{}, indexes...)}
}
