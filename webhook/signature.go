package webhook

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Defaults and limits of [Signature].
const (
	DefaultTolerance = 5 * time.Minute
	MaxTolerance     = 24 * time.Hour
)

// schemes are the fixed settings of the schemes.
var schemes = map[Scheme]Signature{
	SchemeGitHub: {Header: "X-Hub-Signature-256", Prefix: "sha256="},
	SchemeStripe: {Header: "Stripe-Signature"},
	SchemeSlack:  {Header: "X-Slack-Signature", Prefix: "v0=", TimestampHeader: "X-Slack-Request-Timestamp"},
	SchemeHMAC:   {},
}

func (s Signature) withDefaults() Signature {
	own := schemes[s.Scheme]
	s.Header = cmp.Or(s.Header, own.Header)
	s.Prefix = cmp.Or(s.Prefix, own.Prefix)
	s.Encoding = cmp.Or(s.Encoding, EncodingHex)
	s.Algorithm = cmp.Or(s.Algorithm, AlgorithmSHA256)
	s.TimestampHeader = cmp.Or(s.TimestampHeader, own.TimestampHeader)
	s.Tolerance = cmp.Or(s.Tolerance, DefaultTolerance)
	return s
}

func (s Signature) check(m *mistakes) {
	switch s.Scheme {
	case SchemeGitHub, SchemeStripe, SchemeSlack:
		for _, f := range []struct{ field, value string }{
			{"prefix", s.Prefix},
			{"encoding", string(s.Encoding)},
			{"algorithm", string(s.Algorithm)},
			{"timestampHeader", s.TimestampHeader},
		} {
			if f.value != "" {
				m.add("signature."+f.field, "is fixed by the scheme %s: omit it, or use the scheme hmac", s.Scheme)
			}
		}
	case SchemeHMAC:
		if s.Header == "" {
			m.add("signature.header", "is required: the header that holds the signature")
		}
	case "":
		m.add("signature.scheme", "is required: github, stripe, slack or hmac")
		return
	default:
		m.add("signature.scheme", "%q is not one of github, stripe, slack, hmac", s.Scheme)
		return
	}
	for _, h := range []struct{ field, name string }{{"header", s.Header}, {"timestampHeader", s.TimestampHeader}} {
		if h.name != "" && !headerForm.MatchString(h.name) {
			m.add("signature."+h.field, "%q is not the name of a header", h.name)
		}
	}
	if s.Encoding != "" && s.Encoding != EncodingHex && s.Encoding != EncodingBase64 {
		m.add("signature.encoding", "%q is not one of hex, base64", s.Encoding)
	}
	if s.Algorithm != "" && s.Algorithm != AlgorithmSHA256 && s.Algorithm != AlgorithmSHA512 {
		m.add("signature.algorithm", "%q is not one of sha256, sha512", s.Algorithm)
	}
	timed := s.Scheme == SchemeStripe || s.withDefaults().TimestampHeader != ""
	switch {
	case s.Tolerance < 0 || s.Tolerance > MaxTolerance:
		m.add("signature.tolerance", "is %s, must be positive and at most 24h", s.Tolerance)
	case s.Tolerance > 0 && !timed:
		m.add("signature.tolerance", "means nothing where no time is signed: remove it, or name the timestampHeader of the scheme hmac")
	}
}

// claim contains the signatures of a request.
type claim struct {
	// macs are the signatures, one of which must be valid.
	macs [][]byte

	// before is the signed text before the body.
	before string

	// sent is the time of sending, and field the header that contains it. Both are empty if the
	// scheme has none.
	sent  string
	field string
}

// Verify reports why a request is not authentic, as an [*event.FieldError]. The error never
// contains the expected signature.
func (s Endpoint) Verify(header http.Header, body []byte, now time.Time) error {
	if s.Unsigned {
		return nil
	}
	sig := s.Signature.withDefaults()
	c, err := sig.claim(header)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(s.Secrets, func(secret Secret) bool { return sig.holds(c, secret, body) }) {
		return event.FieldErrorf("header."+sig.Header, "does not match the body with any secret of this webhook")
	}
	return sig.fresh(c, now)
}

func (s Signature) claim(header http.Header) (claim, error) {
	field := "header." + s.Header
	value := strings.TrimSpace(header.Get(s.Header))
	if value == "" {
		return claim{}, event.FieldErrorf(field, "is missing: requests to this webhook must be signed")
	}
	if s.Scheme == SchemeStripe {
		return stripeClaim(field, value)
	}
	var c claim
	if s.TimestampHeader != "" {
		c.field = "header." + s.TimestampHeader
		c.sent = strings.TrimSpace(header.Get(s.TimestampHeader))
		if c.sent == "" {
			return claim{}, event.FieldErrorf(c.field, "is missing: the time of sending is signed too")
		}
		c.before = c.sent + "."
		if s.Scheme == SchemeSlack {
			c.before = "v0:" + c.sent + ":"
		}
	}
	encoded, ok := strings.CutPrefix(value, s.Prefix)
	if !ok {
		return claim{}, event.FieldErrorf(field, "must begin with %q", s.Prefix)
	}
	mac, err := s.decode(encoded)
	if err != nil {
		return claim{}, event.FieldErrorf(field, "is not a signature in %s", s.Encoding)
	}
	c.macs = [][]byte{mac}
	return c, nil
}

// stripeClaim parses "t=1492774577,v1=5257a8…,v1=6ffbb5…,v0=…". While Stripe rotates a secret, it
// signs with both. Versions other than v1 are ignored.
func stripeClaim(field, value string) (claim, error) {
	c := claim{field: field}
	for part := range strings.SplitSeq(value, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "t":
			c.sent, c.before = value, value+"."
		case "v1":
			if mac, err := hex.DecodeString(value); err == nil {
				c.macs = append(c.macs, mac)
			}
		}
	}
	switch {
	case c.sent == "":
		return claim{}, event.FieldErrorf(field, "has no t: the time of sending is signed too")
	case len(c.macs) == 0:
		return claim{}, event.FieldErrorf(field, "has no v1 with a signature in hex")
	}
	return c, nil
}

func (s Signature) decode(text string) ([]byte, error) {
	if s.Encoding == EncodingBase64 {
		return base64.StdEncoding.DecodeString(text)
	}
	return hex.DecodeString(text)
}

// holds compares in constant time. An empty secret is always invalid.
func (s Signature) holds(c claim, secret Secret, body []byte) bool {
	if secret == "" {
		return false
	}
	mac := hmac.New(s.hash(), []byte(secret))
	mac.Write([]byte(c.before))
	mac.Write(body)
	want := mac.Sum(nil)
	return slices.ContainsFunc(c.macs, func(got []byte) bool { return hmac.Equal(got, want) })
}

func (s Signature) hash() func() hash.Hash {
	if s.Algorithm == AlgorithmSHA512 {
		return sha512.New
	}
	return sha256.New
}

// fresh rejects requests that were sent too long ago, since they may be replayed, or too far in the
// future, so that a wrong clock is noticed.
func (s Signature) fresh(c claim, now time.Time) error {
	if c.field == "" {
		return nil
	}
	sent, ok := instant(c.sent)
	// Digits only: with a dot, the boundary between time and body would be ambiguous.
	if !ok || strings.Trim(c.sent, "0123456789") != "" {
		return event.FieldErrorf(c.field, "is not a time: must be seconds since 1970")
	}
	if off := now.Sub(sent).Abs(); off > s.Tolerance {
		return event.FieldErrorf(c.field, "is stale: %s from this server's time, must be at most %s; if the request is recent, synchronize the clocks",
			off.Round(time.Second), s.Tolerance)
	}
	return nil
}
