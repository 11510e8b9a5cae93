package llmtest

import (
	"crypto/sha256"
	"encoding/base64"
)

// signed returns the signature that a model of an account adds to a content. Providers reject the
// signatures of other models and accounts.
func signed(model, account, content string) string {
	sum := sha256.Sum256([]byte(model + "\n" + account + "\n" + content))
	return base64.StdEncoding.EncodeToString(sum[:])
}
