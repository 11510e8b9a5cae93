package mcpserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/internal/api"
)

// renamed are the names that fields of the API have as arguments, by location.
var renamed = strings.NewReplacer(
	"body.message.content", "message", "body.message.id", "requestId",
	"body.content", "message", "body.agents[0]", "agent", "body.payload", "message",
	"query.q", "search", "body.", "", "query.", "", "path.", "",
)

// problem converts an error of the API for a client, whose arguments have other names. id is the
// argument that is body.id.
func problem(err error, id string) error {
	var status *api.StatusError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, api.ErrUnreachable):
		return fmt.Errorf("the Threadmill server cannot be reached; call again when it runs: %w", err)
	case !errors.As(err, &status):
		return err
	}
	detail := status.Detail
	if detail == "" {
		detail = strings.ToLower(http.StatusText(status.Code))
	}
	detail = strings.ReplaceAll(detail, "body.id", id)
	// The list of fields may repeat the detail.
	parts := strings.Split(renamed.Replace(detail), "; ")
	var out []string
	for _, p := range parts {
		if p != "validation failed" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	text := strings.Join(out, "; ")
	switch status.Code {
	case http.StatusUnauthorized:
		return fmt.Errorf("the API key is missing or not valid: %s", text)
	case http.StatusForbidden:
		return fmt.Errorf("not permitted: %s", text)
	case http.StatusNotFound:
		return &notFoundError{text}
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return fmt.Errorf("try again later: %s", text)
	}
	return errors.New(text)
}

// notFoundError means that a thread, an agent or a call does not exist.
type notFoundError struct{ text string }

func (e *notFoundError) Error() string { return e.text }
