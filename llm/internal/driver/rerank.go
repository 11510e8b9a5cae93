package driver

import (
	"context"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/llm"
)

// maxRanked is the maximum size of what a response says about one document. Some servers repeat the document, too.
const maxRanked = 4 << 10

// Rerank makes a call of a model that orders documents. send and said are as in [Endpoint.Generate].
func (e *Endpoint) Rerank(ctx context.Context, req llm.RerankRequest,
	send func(context.Context, *Exchange) (llm.Ranking, error), said func(*Exchange, error) *Said,
) (llm.Ranking, error) {
	invalid := func(format string, args ...any) (llm.Ranking, error) {
		return llm.Ranking{}, &llm.Error{Provider: e.Name, Message: "the request is not valid: " + fmt.Sprintf(format, args...)}
	}
	if strings.TrimSpace(req.Query) == "" {
		return invalid("the query is empty")
	}
	if n := len(req.Documents); n == 0 || n > llm.MaxRerankDocuments {
		return invalid("it has %d documents, and must have 1 to %d", n, llm.MaxRerankDocuments)
	}
	size := 0
	for i, text := range req.Documents {
		if strings.TrimSpace(text) == "" {
			return invalid("document %d is empty", i+1)
		}
		size += len(text) + maxRanked
	}
	inner, x, done := newExchange(ctx, e.Name, size)
	defer done()
	out, err := send(inner, x)
	if err != nil {
		return llm.Ranking{}, e.Classify(ctx, inner, x, err, said(x, err))
	}
	if err := out.Check(req); err != nil {
		return llm.Ranking{}, &llm.Error{Provider: e.Name, StatusCode: x.Status, Code: llm.CodeBadRanking, Message: err.Error()}
	}
	return out, nil
}
