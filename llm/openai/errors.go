package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/threadmill/threadmill/llm/internal/driver"
)

// readError parses the field "error" of a reply. It returns nil if there is none.
func readError(raw json.RawMessage) *driver.Said {
	if slices.Contains([]string{"", "null", "{}", `""`, "[]", "false"}, string(raw)) {
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
		return &driver.Said{Message: plain}
	}
	if json.Unmarshal(raw, &in) != nil || in.Message == nil {
		return &driver.Said{Message: string(raw)}
	}
	e := &driver.Said{Kind: in.Type, Message: fmt.Sprint(in.Message), Status: in.Status}
	switch code := in.Code.(type) {
	case string:
		e.Code = code
	case float64:
		e.Code = strconv.Itoa(int(code))
	}
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n < 600 {
		e.Status = n
	}
	return e
}

// transient matches what servers say of errors that pass.
var transient = regexp.MustCompile(`(?i)\brate\b|limit|overload|\bbusy\b|time.?out|try again|\bretry\b|internal|temporar|unavailable|capacity|\blater\b`)

// fine are codes of replies that are no errors.
var fine = []string{"0", "200", "OK", "ok", "success", "Success"}

// readVendorError parses a body without choices that says in another way than by "error" what went wrong, with the status 200. It returns
// nil if it does not. An error that does not seem to pass is not retried: a wrong key would be sent for hours.
func readVendorError(raw []byte) *driver.Said {
	var in struct {
		Base struct {
			Code    number `json:"status_code"`
			Message string `json:"status_msg"`
		} `json:"base_resp"` // MiniMax
		Code    any             `json:"code"`
		Msg     any             `json:"msg"`
		Message any             `json:"message"`
		Detail  json.RawMessage `json:"detail"`
		Success *bool           `json:"success"`
	}
	_ = json.Unmarshal(raw, &in) // fields of other types say nothing
	e := &driver.Said{Code: textOf(in.Code)}
	switch {
	case in.Base.Code == 0 && slices.Contains(fine, e.Code):
		return nil
	case in.Base.Code != 0:
		e.Code, e.Message = strconv.Itoa(int(in.Base.Code)), in.Base.Message
	case textOf(in.Msg) != "" || textOf(in.Message) != "":
		e.Message = cmp.Or(textOf(in.Msg), textOf(in.Message))
	case readError(in.Detail) != nil:
		e.Message = readError(in.Detail).Message
	case in.Success != nil && !*in.Success:
	default:
		return nil
	}
	if e.Message == "" {
		e.Message = string(raw)
	}
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n < 600 {
		e.Status = n
	} else if !transient.MatchString(e.Message) {
		e.Kind = "invalid_request_error"
	}
	return e
}

// readErrorBody parses the body of a response with an error status.
func readErrorBody(body []byte) *driver.Said {
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
			return &driver.Said{Message: in.Message}
		}
	}
	return &driver.Said{Message: string(body)}
}

// said returns what the server says in an error, or nil. Errors of the SDK contain complete responses.
func said(_ *driver.Exchange, err error) *driver.Said {
	var (
		described *driver.Said
		api       *sdk.APIError
		request   *sdk.RequestError
	)
	switch {
	case errors.As(err, &api):
		return &driver.Said{Kind: api.Type, Code: textOf(api.Code), Message: api.Message}
	case errors.As(err, &request):
		return readErrorBody(request.Body)
	case errors.As(err, &described):
		return described
	}
	return nil
}

// textOf returns a value as text, "" for none.
func textOf(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
