package nats

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/threadmill/threadmill/stream"
)

const (
	liveInfix   = ".live."
	noticeInfix = ".notice."

	// maxToken keeps subjects, which NATS repeats in its API, far below 4 KB, above which a server
	// closes the connection.
	maxToken = 400
)

func (s *Stream) liveSubject(k stream.Key) string {
	return s.cfg.Prefix + liveInfix + token(k.Namespace) + "." + token(k.ThreadID)
}

func (s *Stream) noticeSubject(k stream.Key) string {
	return s.cfg.Prefix + noticeInfix + token(k.Namespace) + "." + token(k.ThreadID)
}

// token makes any text a unique token of a subject: letters, digits, - and _ stay, other bytes
// become % and two digits, an empty text becomes %, and a long one becomes %% and a hash.
func token(text string) string {
	if text == "" {
		return "%"
	}
	extra := 0
	for i := range len(text) {
		if !plain(text[i]) {
			extra += 2
		}
	}
	if len(text)+extra > maxToken {
		sum := sha256.Sum256([]byte(text))
		return "%%" + hex.EncodeToString(sum[:])
	}
	if extra == 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + extra)
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

const hexDigits = "0123456789ABCDEF"

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
