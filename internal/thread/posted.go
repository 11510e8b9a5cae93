package thread

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// PostedEvent is an event that the thread has, as text "id#digest".
type PostedEvent struct {
	ID string

	// Digest tells whether a post with the same id has the same content. Empty = it is not known.
	Digest string
}

// MarshalText encodes the event.
func (p PostedEvent) MarshalText() ([]byte, error) {
	if p.Digest == "" {
		return []byte(p.ID), nil
	}
	return []byte(p.ID + "#" + p.Digest), nil // no id has a #
}

// UnmarshalText decodes the event.
func (p *PostedEvent) UnmarshalText(text []byte) error {
	p.ID, p.Digest, _ = strings.Cut(string(text), "#")
	return nil
}

// digestOf returns the digest of what a post says: its type and its payload. A client that repeats a post may do so with
// other options, and in another trace.
func digestOf(p signals.Post) string {
	var payload bytes.Buffer
	if json.Compact(&payload, p.Payload) != nil {
		payload.Write(p.Payload)
	}
	sum := sha256.Sum256(append([]byte(cmp.Or(p.Type, event.TypeMessage)+"\n"), payload.Bytes()...))
	return hex.EncodeToString(sum[:8])
}
