// Package tokens counts the tokens of texts. Each model has tokens of its own; for sizes of chunks and of contexts, those
// of OpenAI's cl100k_base are near enough.
package tokens

import (
	"sync"

	"github.com/tiktoken-go/tokenizer"
)

var codec = sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.Cl100kBase) })

// Count returns the number of tokens of a text. It takes quadratic time for long words.
func Count(text string) int {
	c, err := codec()
	if err == nil {
		var n int
		if n, err = c.Count(text); err == nil {
			return n
		}
	}
	return len(text) // each token has at least one byte
}
