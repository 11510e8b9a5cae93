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

// Endpoint is a system whose requests become environment events.
type Endpoint struct {
	// Name is unique among the endpoints and the last element of the path: /v1/webhooks/<name>. It
	// has 1 to 64 letters, digits, - and _, beginning with a letter or digit.
	Name string

	// Signature describes how requests are signed, and Secrets are the keys. Any of the secrets is
	// valid, so that a secret can be rotated.
	Signature Signature
	Secrets   []Secret

	// Unsigned accepts requests without a signature. Otherwise a secret is required.
	Unsigned bool

	// Event describes how a request becomes an event.
	Event Event
}

// Scheme is a way to sign requests with HMAC.
type Scheme string

// The schemes.
const (
	// SchemeGitHub signs the body: X-Hub-Signature-256 is "sha256=" and a SHA-256 HMAC in hex.
	SchemeGitHub Scheme = "github"

	// SchemeStripe signs the time and the body: Stripe-Signature contains t and v1.
	SchemeStripe Scheme = "stripe"

	// SchemeSlack signs the time and the body: X-Slack-Signature is "v0=" and a SHA-256 HMAC in hex.
	SchemeSlack Scheme = "slack"

	// SchemeHMAC is any other scheme that signs the body, or the time, a dot and the body.
	SchemeHMAC Scheme = "hmac"
)

// Encoding is the encoding of a signature.
type Encoding string

// The encodings.
const (
	EncodingHex    Encoding = "hex"
	EncodingBase64 Encoding = "base64" // standard encoding with padding
)

// Algorithm is the hash algorithm of a signature.
type Algorithm string

// The algorithms.
const (
	AlgorithmSHA256 Algorithm = "sha256"
	AlgorithmSHA512 Algorithm = "sha512"
)

// Signature describes how an endpoint's requests are signed.
type Signature struct {
	// Scheme is the signature scheme. Required.
	Scheme Scheme

	// Header is the header with the signature. Required for HMAC, fixed for other schemes.
	Header string

	// Prefix precedes the signature in its header, such as "sha256=". Default none. Prefix,
	// Encoding, Algorithm and TimestampHeader apply to HMAC only.
	Prefix string

	// Encoding is the encoding of the signature. Default Hex.
	Encoding Encoding

	// Algorithm is the hash algorithm. Default SHA256.
	Algorithm Algorithm

	// TimestampHeader is the header with the time of sending, which is then signed too, with a dot
	// between it and the body. Default: requests have no time and never expire.
	TimestampHeader string

	// Tolerance is the maximum difference between the time of sending and the server's time.
	// Default 5 minutes, at most a day.
	Tolerance time.Duration
}

// Event describes how a request becomes an event. All fields except Open and Agents are templates.
type Event struct {
	// Type is the type of the event. Required: "github.{header.X-GitHub-Event}".
	Type string

	// Thread is the id of the event's thread. Required.
	Thread string

	// ID is the idempotency key of the event. Default: the sender's id, or one derived from the
	// endpoint's name and the body.
	ID string

	// EnvName is the environment in the event's metadata. Default "{source}".
	EnvName string

	// Payload is the part of the body that becomes the payload: a single field, such as
	// "{payload.data.object}". Default: the whole body.
	Payload string

	// Timestamp is the time of the event: seconds or milliseconds since 1970, or RFC 3339. Default:
	// the time of the request.
	Timestamp string

	// Open opens the thread with these Agents if it does not exist. Otherwise such requests are
	// rejected. Without Agents, the thread has the default agent.
	Open   bool
	Agents []string

	// Title is the title of a thread that is opened: one line, cut off after 400 bytes. If the request
	// lacks a field of it, the thread is opened without. Default: one is generated, if the server generates titles.
	Title string
}

// Secret is a string that is hidden when it is printed, logged or encoded.
type Secret string

// String returns stars, or "" if the secret is empty.
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

// Validate reports all invalid fields, each as an [*event.FieldError].
func (s Endpoint) Validate() error {
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

// Source provides webhooks that may change at run time, such as those of a file.
type Source interface {
	// Webhooks returns the current endpoints. The caller must not change them.
	Webhooks() []Endpoint
}

// ValidateAll validates endpoints and the uniqueness of their names. An error identifies the
// endpoint by its index.
func ValidateAll(sources []Endpoint) error {
	var errs []error
	names := map[string]bool{}
	for i, s := range sources {
		if err := s.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("[%d]: %w", i, err))
		}
		if names[s.Name] {
			errs = append(errs, fmt.Errorf("[%d]: %w", i, event.FieldErrorf("name", "%q is already used by another webhook: choose another name", s.Name)))
		}
		names[s.Name] = true
	}
	return errors.Join(errs...)
}

// mistakes collects the errors of an endpoint.
type mistakes []error

func (m *mistakes) add(field, format string, args ...any) {
	*m = append(*m, event.FieldErrorf(field, format, args...))
}
