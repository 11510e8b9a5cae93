package driver

import (
	"context"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/llm"
)

// maxEmbedding is the maximum size of one vector in a response: models have up to some thousand dimensions, and JSON
// needs about 12 bytes for each.
const maxEmbedding = 128 << 10

// Embed makes a call of a model that embeds texts. send and said are as in [Endpoint.Generate].
func (e *Endpoint) Embed(ctx context.Context, req llm.EmbedRequest,
	send func(context.Context, *Exchange) (llm.Embeddings, error), said func(*Exchange, error) *Said,
) (llm.Embeddings, error) {
	invalid := func(format string, args ...any) (llm.Embeddings, error) {
		return llm.Embeddings{}, &llm.Error{Provider: e.Name, Message: "the request is not valid: " + fmt.Sprintf(format, args...)}
	}
	if n := len(req.Texts); n == 0 || n > llm.MaxEmbedTexts {
		return invalid("it has %d texts, and must have 1 to %d", n, llm.MaxEmbedTexts)
	}
	for i, text := range req.Texts {
		if strings.TrimSpace(text) == "" {
			return invalid("text %d is empty", i+1)
		}
	}
	inner, x, done := newExchange(ctx, e.Name, maxEmbedding*len(req.Texts)/pieceFactor)
	defer done()
	out, err := send(inner, x)
	if err != nil {
		return llm.Embeddings{}, e.Classify(ctx, inner, x, err, said(x, err))
	}
	if err := out.Check(req); err != nil {
		return llm.Embeddings{}, &llm.Error{Provider: e.Name, StatusCode: x.Status, Code: llm.CodeBadEmbeddings, Message: err.Error()}
	}
	return out, nil
}
