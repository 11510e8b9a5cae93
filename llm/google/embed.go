package google

import (
	"context"

	sdk "google.golang.org/genai"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

var _ llm.Embedder = (*Provider)(nil)

// Embed calls a model for embeddings, such as gemini-embedding-001.
func (p *Provider) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embeddings, error) {
	return p.endpoint.Embed(ctx, req, func(ctx context.Context, _ *driver.Exchange) (out llm.Embeddings, err error) {
		// The SDK panics at fields of another type.
		defer func() {
			if recover() != nil {
				err = errForm
			}
		}()
		config := &sdk.EmbedContentConfig{TaskType: "RETRIEVAL_DOCUMENT"}
		if req.Purpose == llm.EmbedQuery {
			config.TaskType = "RETRIEVAL_QUERY"
		}
		if req.Dimension > 0 {
			dimension := int32(req.Dimension)
			config.OutputDimensionality = &dimension
		}
		contents := make([]*sdk.Content, len(req.Texts))
		for i, text := range req.Texts {
			contents[i] = sdk.NewContentFromText(text, sdk.RoleUser)
		}
		resp, err := p.client.Models.EmbedContent(ctx, req.Model, contents, config)
		if err != nil {
			return out, readable(err)
		}
		for _, e := range resp.Embeddings {
			out.Vectors = append(out.Vectors, e.Values)
			if e.Statistics != nil {
				out.Tokens += int(e.Statistics.TokenCount)
			}
		}
		return out, nil
	}, said)
}
