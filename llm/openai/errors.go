package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/llm"
)

var errBrokenOff = errors.New("the reply broke off before its end")

// unreadableError means that a reply is not valid JSON.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return "the reply could not be read: " + e.err.Error() }

// apiError is an error from a server, in any of the known formats.
type apiError struct {
	status     int // 0 if the error contains none
	kind, code string
	message    string
}

func (e *apiError) Error() string { return e.message }

// readError parses the field "error" of a reply. It returns nil if there is none.
func readError(raw json.RawMessage) *apiError {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var in struct {
		Message any    `json:"message"`
		Type    string `json:"type"`
		Code    any    `json:"code"`
		Status  int    `json:"status"`
	}
	var plain string
	if json.Unmarshal(raw, &plain) == nil {
		return &apiError{message: plain}
	}
	if json.Unmarshal(raw, &in) != nil || in.Message == nil {
		return &apiError{message: shorten(string(raw))}
	}
	e := &apiError{kind: in.Type, message: shorten(fmt.Sprint(in.Message)), status: in.Status}
	switch code := in.Code.(type) {
	case string:
		e.code = code
	case float64:
		e.code = strconv.Itoa(int(code))
	}
	if n, err := strconv.Atoi(e.code); err == nil && n >= 400 && n < 600 {
		e.status = n
	}
	return e
}

// readErrorBody parses the body of a response with an error status.
func readErrorBody(body []byte) *apiError {
	var in struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &in) == nil {
		for _, raw := range []json.RawMessage{in.Error, in.Detail} {
			if e := readError(raw); e != nil {
				return e
			}
		}
		if in.Message != "" {
			return &apiError{message: shorten(in.Message)}
		}
	}
	return &apiError{message: shorten(string(body))}
}

func shorten(s string) string {
	const most = 500
	s = strings.TrimSpace(s)
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// classify converts err to the error that Generate returns. Errors of the SDK do not become causes:
// they contain complete responses, which may include the API key.
func (p *Provider) classify(ctx, inner context.Context, x *exchange, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := &llm.Error{Provider: p.config.Name}
	var (
		silence    *silenceError
		described  *apiError
		unreadable *unreadableError
		api        *sdk.APIError
		request    *sdk.RequestError
	)
	switch {
	case errors.As(context.Cause(inner), &silence):
		out.Message, out.Retryable, out.Cause = silence.Error(), true, silence
	case errors.As(err, &api):
		p.refused(out, x, &apiError{kind: api.Type, code: codeText(api.Code), message: shorten(api.Message)})
	case errors.As(err, &request):
		p.refused(out, x, readErrorBody(request.Body))
	case errors.As(err, &described):
		out.StatusCode = described.status
		p.describe(out, described)
		out.Retryable = (out.StatusCode == 0 || llm.RetryableStatus(out.StatusCode)) && !hopeless(described)
	case errors.Is(err, errNoAPI):
		out.Message = errNoAPI.Error()
	case errors.Is(err, errBrokenOff), errors.As(err, &unreadable):
		out.Message, out.Retryable, out.Cause = err.Error(), true, err
	case !x.sent:
		out.Message, out.Cause = "the request is not valid: "+err.Error(), err
	default:
		out.Message, out.Retryable, out.Cause = "the connection failed: "+err.Error(), true, err
	}
	out.Message = p.redact(out.Message)
	return out
}

func codeText(code any) string {
	if code == nil {
		return ""
	}
	return fmt.Sprint(code)
}

// refused describes a response with an error status.
func (p *Provider) refused(out *llm.Error, x *exchange, e *apiError) {
	out.StatusCode = x.status
	p.describe(out, e)
	if out.Message == "" {
		out.Message = http.StatusText(x.status)
	}
	out.Retryable = llm.RetryableStatus(x.status) && !unpaid(e)
	if out.Retryable {
		out.RetryAfter = retryAfter(x.header, time.Now())
	}
}

func (p *Provider) describe(out *llm.Error, e *apiError) {
	out.Message, out.Code = e.message, e.code
	if out.Code == "" {
		out.Code = e.kind
	}
}

// unpaid reports errors with a retryable status that waiting does not resolve.
func unpaid(e *apiError) bool {
	words := []string{"insufficient_quota", "billing_hard_limit_reached"}
	return slices.Contains(words, e.code) || slices.Contains(words, e.kind)
}

// hopeless reports errors without a status that no retry resolves.
func hopeless(e *apiError) bool {
	words := []string{
		"invalid_request_error", "authentication_error", "permission_error", "not_found_error",
		"context_length_exceeded", "content_filter", "invalid_api_key", "model_not_found",
	}
	return unpaid(e) || slices.Contains(words, e.code) || slices.Contains(words, e.kind)
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

// redact removes the API key from a text. A key below 8 characters may be an ordinary word and
// remains.
func (p *Provider) redact(s string) string {
	if len(p.config.APIKey) < 8 {
		return s
	}
	return strings.ReplaceAll(s, p.config.APIKey, "[key]")
}
