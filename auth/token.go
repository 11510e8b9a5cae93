package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
)

// Token is the secret text of an API key, tmk_<id>_<secret>. It is hidden when it is printed,
// logged or encoded.
type Token string

// The id and the secret of a token consist of letters and digits.
const tokenPrefix = "tmk_"

var tokenForm = regexp.MustCompile(`^tmk_([0-9A-Za-z]{1,32})_([0-9A-Za-z]{32,128})$`)

// NewToken returns a token with a new id and a secret of 200 bits.
func NewToken() (id string, t Token) {
	id = strings.ToLower(rand.Text()[:12])
	return id, TokenFor(id)
}

// TokenFor returns a token with a new secret for the id of an existing key.
func TokenFor(id string) Token {
	return Token(tokenPrefix + id + "_" + rand.Text() + rand.Text()[:14])
}

// ParseToken validates the form of a token and returns the id of its key. The error does not
// contain the text.
func ParseToken(text string) (id string, t Token, err error) {
	parts := tokenForm.FindStringSubmatch(text)
	if parts == nil {
		return "", "", errors.New("is not an API key: it must have the form tmk_<id>_<secret>, with 1 to 32 letters and digits as id and 32 to 128 as secret")
	}
	return parts[1], Token(text), nil
}

// Reveal returns the secret text.
func (t Token) Reveal() string { return string(t) }

// String returns stars, or "" if the token is empty.
func (t Token) String() string {
	if t == "" {
		return ""
	}
	return "***"
}

// GoString hides the secret from %#v.
func (t Token) GoString() string { return fmt.Sprintf("%q", t.String()) }

// MarshalText hides the secret from encoders.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue hides the secret from slog.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Hash returns the hash of the token: "sha256:" and 64 hexadecimal digits. Only the hash is stored.
// Tokens are random, so it needs neither a salt nor many rounds.
func (t Token) Hash() string {
	sum := sha256.Sum256([]byte(t))
	return hashPrefix + hex.EncodeToString(sum[:])
}

const hashPrefix = "sha256:"

var hashForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ValidateHash validates the form of a [Token.Hash].
func ValidateHash(text string) error {
	if !hashForm.MatchString(text) {
		return errors.New(`is not a hash: it must be "sha256:" and 64 hexadecimal digits in lower case, as "starter keys generate" prints it`)
	}
	return nil
}

// same compares hashes in constant time.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// bearer returns the API key of a request. ok is false if the request has no API key, even if it
// has other credentials.
func bearer(r *http.Request) (token string, ok bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(token, tokenPrefix)
}
