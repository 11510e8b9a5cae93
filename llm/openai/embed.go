package openai

import (
	"context"
	"encoding/json"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/internal/driver"
)

var _ llm.Embedder = (*Provider)(nil)

// Embed calls a model for embeddings, such as text-embedding-3-small. Purpose has no effect.
func (p *Provider) Embed(ctx context.Context, req llm.EmbedRequest) (llm.Embeddings, error) {
	return p.endpoint.Embed(ctx, req, func(ctx context.Context, x *driver.Exchange) (llm.Embeddings, error) {
		b := &replyBody{exchange: x}
		_, err := p.client.CreateEmbeddings(context.WithValue(ctx, bodyKey{}, b), sdk.EmbeddingRequestStrings{
			Input: req.Texts, Model: sdk.EmbeddingModel(req.Model), Dimensions: req.Dimension,
		})
		if err != nil {
			return llm.Embeddings{}, err
		}
		return readEmbeddings(b.whole, len(req.Texts))
	}, said)
}

// readEmbeddings puts the vectors of n texts into their order.
func readEmbeddings(raw []byte, n int) (out llm.Embeddings, err error) {
	var in struct {
		Error json.RawMessage `json:"error"`
		Data  []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return out, &driver.Unreadable{Err: err}
	}
	if e := readError(in.Error); e != nil {
		return out, e
	}
	out.Tokens = in.Usage.PromptTokens
	out.Vectors = make([][]float32, n)
	for _, d := range in.Data {
		if d.Index >= 0 && d.Index < n {
			out.Vectors[d.Index] = d.Embedding // what is missing has no dimension
		}
	}
	return out, nil
}
