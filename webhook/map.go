package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Map returns the event of a verified request, and the id of its thread. If the request lacks a
// required value, the error is an [*event.FieldError] that names the field. The event has no
// timestamp if the endpoint does not define one. Map does not check the size of the event.
func (s Endpoint) Map(header http.Header, body []byte) (e event.EnvEvent, threadID string, err error) {
	r := request{source: s.Name, header: header}
	if r.body, err = decode(header, body); err != nil {
		return e, "", err
	}
	if e.Type, err = r.fill("event.type", s.Event.Type); err != nil {
		return e, "", err
	}
	if threadID, err = r.threadID(s.Event.Thread); err != nil {
		return e, "", err
	}
	if e.ID, err = s.eventID(r, body); err != nil {
		return e, "", err
	}
	if e.Timestamp, err = r.timestamp(s.Event.Timestamp); err != nil {
		return e, "", err
	}
	if e.Payload, err = r.payload(s.Event.Payload); err != nil {
		return e, "", err
	}
	name, err := r.fill("event.envName", cmp.Or(s.Event.EnvName, "{source}"))
	if err != nil {
		return e, "", err
	}
	e.Metadata = event.EnvMetadata{TriggerSessionID: threadID, EnvName: name, Source: event.SourceEnv}
	return e, threadID, valid(e)
}

// Start returns the input of the thread that the event of a request opens, if the endpoint opens threads.
func (s Endpoint) Start(header http.Header, body []byte) signals.Start {
	start := signals.Start{Agents: s.Event.Agents}
	if s.Event.Title == "" {
		return start
	}
	r := request{source: s.Name, header: header}
	var err error
	if r.body, err = decode(header, body); err != nil {
		return start
	}
	// The event matters more than how its thread is called.
	if title, err := r.fill("event.title", s.Event.Title); err == nil {
		start.Title = event.ShortLine(title, signals.MaxTitle-len("…"))
	}
	return start
}

// valid is e.Validate with errors about the fields of [Event].
func valid(e event.EnvEvent) error {
	var field *event.FieldError
	if err := e.Validate(); errors.As(err, &field) {
		return event.FieldErrorf("event."+field.Field, "%s", field.Problem)
	}
	return nil
}

// Challenge returns the response to Slack's URL verification. ok is false for any other request.
func (s Endpoint) Challenge(header http.Header, body []byte) (string, bool) {
	if s.Signature.Scheme != SchemeSlack {
		return "", false
	}
	raw, err := decode(header, body)
	if err != nil {
		return "", false
	}
	var v struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(raw, &v) != nil || v.Type != "url_verification" {
		return "", false
	}
	return v.Challenge, true
}

// decode returns the body as JSON, in a new buffer.
func decode(header http.Header, body []byte) (json.RawMessage, error) {
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return json.RawMessage("null"), nil
	case mediaType == "application/x-www-form-urlencoded" && !isObject(body):
		return decodeForm(body)
	case json.Valid(body):
		return bytes.Clone(body), event.ValidateJSON(payloadField, body)
	case mediaType == "application/json" || strings.HasSuffix(mediaType, "+json"):
		return nil, event.FieldErrorf(payloadField, "is not valid JSON, although the header Content-Type says so")
	case !utf8.Valid(body):
		return nil, event.FieldErrorf(payloadField, "is neither JSON, nor a form, nor text in UTF-8")
	}
	return json.Marshal(string(body))
}

// isObject reports whether a body is a JSON object, regardless of its header: curl -d sends JSON as
// a form.
func isObject(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) && json.Valid(body)
}

// decodeForm returns the JSON in the field "payload", or an object of the fields. Repeated fields
// become arrays.
func decodeForm(body []byte) (json.RawMessage, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, event.FieldErrorf(payloadField, "is not a form, although the header Content-Type says so")
	}
	if payload := form.Get(payloadField); json.Valid([]byte(payload)) {
		return json.RawMessage(payload), event.ValidateJSON(payloadField, []byte(payload))
	}
	object := make(map[string]any, len(form))
	for key, values := range form {
		object[key] = values
		if len(values) == 1 {
			object[key] = values[0]
		}
	}
	return json.Marshal(object)
}

// given maps the known schemes to the templates of their event ids.
var given = map[Scheme]string{
	SchemeGitHub: "{header.X-GitHub-Delivery}",
	SchemeStripe: "{payload.id}",
	SchemeSlack:  "{payload.event_id}",
}

func (s Endpoint) eventID(r request, body []byte) (string, error) {
	text := s.Event.ID
	id, err := r.fill("event.id", cmp.Or(text, given[s.Signature.Scheme]))
	switch {
	case text != "" && err != nil:
		return "", err
	case err == nil && id != "":
		if signals.ValidateEventID("id", id) == nil {
			return id, nil
		}
		return signals.EventID("webhook", s.Name, "id", id), nil
	case text != "":
		return "", event.FieldErrorf("event.id", "is empty for this request")
	}
	return signals.EventID("webhook", s.Name, "body", string(body)), nil
}

// maxThreadID and uuidLength are in characters.
const (
	maxThreadID = 128
	uuidLength  = 36
)

func (r request) threadID(text string) (string, error) {
	whole, err := r.fill("event.thread", text)
	switch {
	case err != nil:
		return "", err
	case whole == "":
		return "", event.FieldErrorf("event.thread", "is empty for this request")
	case signals.ValidateID("thread", whole) == nil:
		return whole, nil
	}
	id := strings.TrimLeft(strings.Map(threadChar, whole), "._:@-")
	if id != "" && len(whole) <= maxThreadID && ascii(whole) {
		return id, nil
	}
	// Otherwise different texts might get the same id.
	derived := signals.EventID("webhook", "thread", whole)
	if id == "" {
		return derived, nil
	}
	return id[:min(len(id), maxThreadID-uuidLength-1)] + "-" + derived, nil
}

// threadChar returns the character for c in a thread id.
func threadChar(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._:@-", c) {
		return c
	}
	return '-'
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) < 0
}

// timestamp returns milliseconds, or 0 if there is no template.
func (r request) timestamp(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	value, err := r.fill("event.timestamp", text)
	if err != nil {
		return 0, err
	}
	at, ok := instant(value)
	if !ok {
		return 0, event.FieldErrorf("event.timestamp", "is not a time: must be seconds or milliseconds since 1970, or RFC 3339")
	}
	return at.UnixMilli(), nil
}

// A number from firstMilli on is milliseconds (1973 and later), below it seconds (until
// the year 5138). lastMilli is the end of the year 9999.
const (
	firstMilli = 100_000_000_000
	lastMilli  = 253_402_300_799_999
)

// instant parses a time in the formats of senders.
func instant(s string) (time.Time, bool) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		if n < firstMilli {
			n *= 1000
		}
		return time.UnixMilli(int64(n)), n >= 0 && n <= lastMilli
	}
	at, err := time.Parse(time.RFC3339, s)
	return at, err == nil
}

// payload returns the part of the body that is the payload.
func (r request) payload(text string) (json.RawMessage, error) {
	if text == "" {
		return r.body, nil
	}
	value, err := r.value(strings.Trim(text, "{}"))
	if err != nil {
		return nil, needed("event.payload", err)
	}
	return value, nil
}
