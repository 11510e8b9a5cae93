package llm

import (
	"context"
	"fmt"
	"math"
)

// Embedder calls a model that turns texts into vectors: the more similar two texts are, the more their vectors point
// in the same direction. Implementations are safe for concurrent use.
type Embedder interface {
	// Embed returns one vector for each text, in their order. It stops soon after ctx ends, with ctx's error. Any
	// other error is an *[Error].
	Embed(ctx context.Context, req EmbedRequest) (Embeddings, error)
}

// EmbedRequest is the request of one call of an [Embedder].
type EmbedRequest struct {
	// Model is the provider's name of the model, without the prefix "provider/".
	Model string

	// Texts are at most [MaxEmbedTexts], none of them empty.
	Texts []string

	// Purpose is what the vectors are for; some models distinguish it. Empty = [EmbedDocument].
	Purpose EmbedPurpose

	// Dimension of the vectors, for models with several. 0 = the model's default.
	Dimension int
}

// EmbedPurpose is what a vector is for.
type EmbedPurpose string

// The purposes.
const (
	EmbedDocument EmbedPurpose = "document" // a text that is found
	EmbedQuery    EmbedPurpose = "query"    // a text that finds others
)

// MaxEmbedTexts is the maximum number of texts of a request, which all providers accept.
const MaxEmbedTexts = 100

// Embeddings is the result of an [Embedder].
type Embeddings struct {
	// Vectors have the same dimension, and only finite numbers.
	Vectors [][]float32

	// Tokens of all texts. 0 = unknown.
	Tokens int
}

// CodeBadEmbeddings is the Code of an [Error] of a model whose vectors do not fit the request.
const CodeBadEmbeddings = "bad_embeddings"

// Check reports how vectors do not fit a request.
func (e Embeddings) Check(req EmbedRequest) error {
	if len(e.Vectors) != len(req.Texts) {
		return fmt.Errorf("the model returned %d vectors for %d texts", len(e.Vectors), len(req.Texts))
	}
	want := req.Dimension
	for i, v := range e.Vectors {
		if want == 0 {
			want = len(v)
		}
		if len(v) != want || len(v) == 0 {
			return fmt.Errorf("the vector of text %d has the dimension %d instead of %d", i+1, len(v), want)
		}
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
			return fmt.Errorf("the vector of text %d has no direction", i+1)
		}
	}
	return nil
}
