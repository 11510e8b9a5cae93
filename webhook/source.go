package webhook

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
)

// Source is another system whose requests become environment events.
type Source struct {
	// Name is unique among the sources, and the end of the address: /v1/webhooks/<name>.
	// 1 to 64 letters, digits, - and _, beginning with a letter or digit.
	Name string

	// Signature says how requests are signed, and Secrets with what. Any of the secrets
	// will do: while one is replaced, both the old and the new hold.
	Signature Signature
	Secrets   []Secret

	// Unsigned takes requests from whoever knows the address. Without it a secret is
	// required.
	Unsigned bool

	// Event says what becomes of a request.
	Event Event
}

// Scheme is a way to sign requests with HMAC.
type Scheme string

// The schemes.
const (
	// GitHub signs the body: X-Hub-Signature-256, SHA-256 in hex behind "sha256=".
	GitHub Scheme = "github"

	// Stripe signs time and body: Stripe-Signature, with t and v1.
	Stripe Scheme = "stripe"

	// Slack signs time and body: X-Slack-Signature, SHA-256 in hex behind "v0=".
	Slack Scheme = "slack"

	// HMAC is any other that signs the body, or the time, a dot and the body.
	HMAC Scheme = "hmac"
)

// Encoding is how a signature is written.
type Encoding string

// The encodings.
const (
	Hex    Encoding = "hex"
	Base64 Encoding = "base64" // the standard one, with padding
)

// Algorithm is the hash of a signature.
type Algorithm string

// The algorithms.
const (
	SHA256 Algorithm = "sha256"
	SHA512 Algorithm = "sha512"
)

// Signature says how a source signs its requests.
type Signature struct {
	// Scheme is required.
	Scheme Scheme

	// Header holds the signature. Required for HMAC, and the scheme's own otherwise.
	Header string

	// Prefix stands before the signature in its header, such as "sha256=". Default none.
	// It is for HMAC only, as are the next three.
	Prefix string

	// Encoding of the signature. Default Hex.
	Encoding Encoding

	// Algorithm of the signature. Default SHA256.
	Algorithm Algorithm

	// TimestampHeader holds the time of sending, which is then signed as well, with a dot
	// between it and the body. Default: requests have no time, and do not become stale.
	TimestampHeader string

	// Tolerance is how far the time of sending may be from the server's. Default 5
	// minutes, at most a day.
	Tolerance time.Duration
}

// Event says how a request becomes an event. All but Open and Agents are templates.
type Event struct {
	// Type of the event. Required: "github.{header.X-GitHub-Event}".
	Type string

	// Thread is the id of the thread that the event is for. Required.
	Thread string

	// ID makes the event idempotent. Default: the one that the sender gives, or one
	// derived from source and body.
	ID string

	// EnvName names the environment in the event's metadata. Default "{source}".
	EnvName string

	// Payload is the part of the body that becomes the payload: a single field, such as
	// "{payload.data.object}". Default: the whole body.
	Payload string

	// Timestamp is when it happened: seconds or milliseconds since 1970, or RFC 3339.
	// Default: when it came in.
	Timestamp string

	// Open opens a thread that is not there, with these Agents. Default: requests for it
	// are refused. Without Agents, the default agent takes part.
	Open   bool
	Agents []string
}

// Secret is a string that does not show itself when it is printed, logged or encoded.
type Secret string

// String returns stars, or nothing if there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Validate reports all fields that are wrong, each as an [*event.FieldError].
func (s Source) Validate() error {
	var m mistakes
	if s.Name == "" {
		m.add("name", "is required: the address ends with it")
	} else if !nameForm.MatchString(s.Name) {
		m.add("name", "%q must be 1 to 64 letters, digits, - and _, beginning with a letter or digit", s.Name)
	}
	switch {
	case s.Unsigned && (len(s.Secrets) > 0 || s.Signature != (Signature{})):
		m.add("unsigned", "excludes a signature and secrets: either requests are signed, or anybody may send them")
	case s.Unsigned:
	case len(s.Secrets) == 0:
		m.add("secrets", "is required: without one, anybody could send events; to allow just that, set unsigned to true")
		fallthrough
	default:
		s.Signature.check(&m)
	}
	if slices.Contains(s.Secrets, "") {
		m.add("secrets", "must not be empty: anybody could sign with that")
	}
	s.Event.check(&m)
	return errors.Join(m...)
}

// Check validates the sources, and that no two have the same name. An error names the
// source by its place in the list.
func Check(sources []Source) error {
	var errs []error
	names := map[string]bool{}
	for i, s := range sources {
		if err := s.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("[%d]: %w", i, err))
		}
		if names[s.Name] {
			errs = append(errs, fmt.Errorf("[%d]: %w", i, &event.FieldError{
				Field: "name", Problem: fmt.Sprintf("%q is taken by another webhook: choose another", s.Name),
			}))
		}
		names[s.Name] = true
	}
	return errors.Join(errs...)
}

// mistakes collects what is wrong with a source.
type mistakes []error

func (m *mistakes) add(field, format string, args ...any) {
	*m = append(*m, fieldErrorf(field, format, args...))
}

func fieldErrorf(field, format string, args ...any) error {
	return &event.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
