// Package sealed encrypts secrets that leave the process: tokens in a store, and state in links and cookies.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// idSize is the size of the prefix that names the key.
const idSize = 4

// ErrOpen means that a text was not sealed with one of the keys for this purpose.
var ErrOpen = errors.New("the secret cannot be decrypted: it was sealed with another key, for another purpose, or it was changed")

// Keys seal with the first key and open with all of them, so that keys can be replaced.
type Keys struct{ all []key }

// Empty reports whether there is no key.
func (k Keys) Empty() bool { return len(k.all) == 0 }

type key struct {
	id   [idSize]byte
	aead cipher.AEAD
}

// Parse reads keys from a list that is separated by commas. Each is the Base64 of 32 random bytes.
func Parse(list string) (Keys, error) {
	var k Keys
	for i, text := range strings.Split(list, ",") {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err != nil || len(raw) != KeySize {
			// The text is a secret.
			return Keys{}, fmt.Errorf("key %d is not the Base64 of %d bytes, as openssl rand -base64 %[2]d prints", i+1, KeySize)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return Keys{}, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return Keys{}, err
		}
		sum := sha256.Sum256(raw)
		k.all = append(k.all, key{[idSize]byte(sum[:]), aead})
	}
	return k, nil
}

// Seal encrypts a value for a purpose, as text that is safe in URLs and cookies.
func (k Keys) Seal(purpose string, v any) (string, error) {
	if len(k.all) == 0 {
		return "", errors.New("there is no key to encrypt secrets with")
	}
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	first := k.all[0]
	sealed := first.aead.Seal(first.id[:], nil, plain, []byte(purpose)) //nolint:gosec // this AEAD makes a random nonce itself
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Open decrypts what Seal returned for the same purpose, or returns [ErrOpen].
func (k Keys) Open(purpose, text string, v any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < idSize {
		return ErrOpen
	}
	for _, one := range k.all {
		if [idSize]byte(raw) != one.id {
			continue
		}
		plain, err := one.aead.Open(nil, nil, raw[idSize:], []byte(purpose))
		if err == nil && json.Unmarshal(plain, v) == nil {
			return nil
		}
	}
	return ErrOpen
}
