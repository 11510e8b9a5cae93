package driver

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/threadmill/threadmill/llm"
)

// Said is an error that a server describes.
type Said struct {
	// Status is the HTTP status that the error itself contains. 0 = none.
	Status     int
	Kind, Code string
	Message    string

	// RetryAfter is the delay before a retry that the error itself contains. 0 = none.
	RetryAfter time.Duration
}

func (e *Said) Error() string { return e.Message }

// maxMessage is the maximum length of a message, in bytes.
const maxMessage = 500

// shown returns a message without the credentials, and cut to its maximum length. Nothing may cut it before.
func (e *Endpoint) shown(s string, secrets ...string) string {
	s = strings.TrimSpace(redact(s, append(secrets, e.APIKey)...))
	if len(s) > maxMessage {
		return strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// Classify converts err to the error that Generate returns. said is what the server says about it,
// if anything. inner is the context of the exchange. Errors of SDKs do not become causes: they may
// contain complete responses, with the API key.
func (e *Endpoint) Classify(ctx, inner context.Context, x *Exchange, err error, said *Said) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := &llm.Error{Provider: e.Name}
	var (
		silence    *silenceError
		tooLarge   *llm.Error
		redirect   *redirectError
		unreadable *Unreadable
		keyless    *CredentialsError
	)
	switch {
	case errors.As(context.Cause(inner), &tooLarge):
		return tooLarge
	case errors.As(err, &redirect):
		out.StatusCode, out.Message = x.Status, redirect.Error()
	case errors.As(context.Cause(inner), &silence):
		out.Message, out.Retryable, out.Cause = silence.Error(), true, silence
	case said != nil:
		x.refused(out, said)
	case errors.Is(err, ErrNoAPI):
		out.Message = ErrNoAPI.Error()
	case errors.Is(err, ErrBrokenOff), errors.Is(err, ErrNoAnswer), errors.As(err, &unreadable):
		out.Message, out.Retryable, out.Cause = err.Error(), true, err
	case errors.As(err, &keyless):
		out.Message, out.Retryable, out.Cause = keyless.Error(), keyless.Transient, keyless
	case !x.sent:
		out.Message, out.Cause = "the request is not valid: "+err.Error(), err
	default:
		out.Message, out.Retryable, out.Cause = "the connection failed: "+err.Error(), true, err
	}
	if out.Cause != nil && len(out.Cause.Error()) > maxMessage {
		out.Cause = nil
	}
	out.Message, out.Code = e.shown(out.Message, x.secrets...), e.shown(out.Code, x.secrets...)
	return out
}

// refused describes an error of the server: a response with an error status, or an error in the
// middle of a stream.
func (x *Exchange) refused(out *llm.Error, said *Said) {
	streaming := x.Status >= 200 && x.Status < 300
	out.StatusCode = x.Status
	if streaming {
		out.StatusCode = said.Status
	}
	out.Message, out.Code = said.Message, said.Code
	if out.Code == "" {
		out.Code = said.Kind
	}
	if out.Message == "" {
		out.Message = cmp.Or(http.StatusText(out.StatusCode), "an error without an explanation")
	}
	out.ContextOverflow = overflows(out.StatusCode, said)
	out.Retryable = !out.ContextOverflow && !unpaid(said) &&
		(llm.RetryableStatus(out.StatusCode) || streaming && out.StatusCode == 0 && !hopeless(said))
	if !out.Retryable {
		return
	}
	if !streaming {
		out.RetryAfter = retryAfter(x.Header, time.Now())
	}
	if out.RetryAfter == 0 {
		out.RetryAfter = min(cmp.Or(said.RetryAfter, retryIn(said.Message)), maxRetryAfter)
	}
}

// tooLong matches what servers say about requests that do not fit into the model's context: those of
// Anthropic, OpenAI, Google, xAI, Mistral, Moonshot, Alibaba and Cohere, and vLLM, llama.cpp, Ollama, LM
// Studio and TGI.
var tooLong = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`context.?(length|window|size|limit)`, `maximum (context|prompt length|model length|input length)`, `(prompt|input) (is )?too long`,
	`input (token count|length)`, `prompt token count`, `input tokens exceed`, `(too many|maximum number of) (input )?tokens`,
	`model token limit`, `too large for model with`, `prompt exceeds`, `reduce the length of (the|your) (messages|prompt|input)`,
	"`inputs` tokens \\+", `max_tokens.? must be at least 1, got -`,
}, "|"))

// tooLargeForQuota matches what OpenAI and Groq say about requests that exceed what an account may
// send in a minute, so no retry succeeds.
var tooLargeForQuota = regexp.MustCompile(`(?i)request too large for`)

// overflows reports whether a request does not fit into the model's context.
func overflows(status int, e *Said) bool {
	switch {
	case e.is("context_length_exceeded", "exceed_context_size_error", "request_too_large"), status == http.StatusRequestEntityTooLarge:
		return true
	case status == http.StatusTooManyRequests:
		return tooLargeForQuota.MatchString(e.Message)
	case status == 0, status == http.StatusBadRequest, status == http.StatusUnprocessableEntity, status == http.StatusInternalServerError:
		return tooLong.MatchString(e.Message)
	}
	return false
}

// retryText matches the delays in messages, such as "Please try again in 1m2.5s".
var retryText = regexp.MustCompile(`(?i)\b(?:try again|retry) (?:in|after) ((?:[0-9.]+(?:ms|h|m|s))+|[0-9]+ seconds)`)

// retryIn returns the delay before a retry that a message contains. 0 = none.
func retryIn(message string) time.Duration {
	m := retryText.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	d, err := time.ParseDuration(strings.Replace(m[1], " seconds", "s", 1))
	if err != nil {
		return 0
	}
	return d
}

func (e *Said) is(words ...string) bool {
	return slices.Contains(words, e.Code) || slices.Contains(words, e.Kind)
}

// unpaid reports errors with a retryable status that waiting does not resolve.
func unpaid(e *Said) bool { return e.is("insufficient_quota", "billing_hard_limit_reached") }

// hopeless reports errors without a status that no retry resolves.
func hopeless(e *Said) bool {
	return e.is("invalid_request_error", "authentication_error", "permission_error", "not_found_error", "billing_error",
		"context_length_exceeded", "content_filter", "invalid_api_key", "model_not_found", "invalid_prompt")
}

// maxRetryAfter is the maximum delay that a server can require.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the delay that a server requires before a retry. 0 = unspecified.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := number(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	v := h.Get("Retry-After")
	if d, ok := number(v, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(strings.TrimSpace(v)); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

func number(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0, false
	}
	return time.Duration(min(n, float64(maxRetryAfter/unit)) * float64(unit)), true
}

// Refused returns the error of a model that refuses to answer. Its words, if any, are not a reply:
// providers do not accept them in the transcript.
func (e *Endpoint) Refused(reason, explanation string) error {
	message := "the model refuses to answer (" + reason + ")"
	if explanation != "" {
		message += ": " + explanation
	}
	return &llm.Error{Provider: e.Name, Code: llm.CodeRefusal, Message: e.shown(message)}
}
