package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// The results of a prompt. Clients of other servers with this route expect these words, and an
// object with an error instead of a problem document.
const (
	promptStarted   = "Processing started"
	promptEmpty     = "Content is required"
	promptNoSession = "Session support not available"
)

// promptPaths maps the names of the operations to the paths of the route.
var promptPaths = map[string]string{"prompt": "/v1/sessions/{id}/prompt", "promptUnversioned": "/sessions/{id}/prompt"}

// prompt is the body of POST /sessions/{id}/prompt.
type prompt struct {
	Content string `json:"content" minLength:"1" doc:"The text of the person"`
}

// prompted is the response to a prompt.
type prompted struct {
	Success   bool   `json:"success" doc:"Always true"`
	SessionID string `json:"sessionId" doc:"The thread to which it was published"`
	Message   string `json:"message" example:"Processing started" doc:"What happens now, for people"`
}

// promptError is the response to a prompt that failed.
type promptError struct {
	Error string `json:"error" doc:"What is wrong, and how to mend it"`
}

// promptHandlers serve the route of prompts.
type promptHandlers struct {
	*core
	threads Publisher
}

// registerSessions registers the route on which a person's prompt becomes a user_query. It is not
// an operation of huma, whose errors are problem documents.
func (h *promptHandlers) registerSessions(mux *http.ServeMux) {
	for name, path := range promptPaths {
		h.access.handle(mux, route{role: auth.RolePost, refuse: func(w http.ResponseWriter, status int, detail string) {
			h.answerPrompt(w, status, promptError{detail})
		}}, "POST "+path, h.prompt)
		h.describePrompt(name, path)
	}
}

func (h *promptHandlers) prompt(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if r.URL.RawQuery != "" {
		h.answerPrompt(w, http.StatusUnprocessableEntity, promptError{"there are no query parameters"})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
	if is[*http.MaxBytesError](err) {
		h.refusePrompt(w, refuse(http.StatusRequestEntityTooLarge, "content",
			fmt.Sprintf("is too large: the body is more than %d bytes", h.maxBody)))
		return
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		h.answerPrompt(w, http.StatusRequestTimeout, promptError{"the body took too long to arrive"})
		return
	}
	var p prompt
	if err != nil || json.Unmarshal(body, &p) != nil || event.Blank(p.Content) {
		h.answerPrompt(w, http.StatusBadRequest, promptError{promptEmpty})
		return
	}
	if err := event.DecodeJSON("", body, &p); err != nil {
		h.answerPrompt(w, http.StatusBadRequest, promptError{err.Error()})
		return
	}
	if err := h.publishQuery(r.Context(), id, p.Content); err != nil {
		h.refusePrompt(w, h.problem(r.Context(), id, err))
		return
	}
	h.answerPrompt(w, http.StatusOK, prompted{Success: true, SessionID: id, Message: promptStarted})
}

// publishQuery publishes the prompt of a person. It opens the session's thread if it does not
// exist.
func (h *promptHandlers) publishQuery(ctx context.Context, id, content string) error {
	payload, err := json.Marshal(event.UserQuery{SessionID: id, Content: content})
	if err != nil {
		return err
	}
	if len(payload) > signals.MaxPayload {
		return tooLarge("content", len(payload))
	}
	if err := signals.ValidateID("threadId", id); err != nil {
		return err
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	e, err := attributed(ctx, "", event.EnvEvent{
		ID: signals.NewEventID(), Type: event.TypeUserQuery, Timestamp: time.Now().UnixMilli(),
		Metadata: event.EnvMetadata{TriggerSessionID: id, Source: event.SourceUser}, Payload: payload,
	})
	if err != nil {
		return err
	}
	_, err = h.threads.Publish(within, id, e, threadclient.PublishOptions{Open: true})
	return err
}

// refusePrompt responds with the content of a problem document.
func (h *promptHandlers) refusePrompt(w http.ResponseWriter, problem error) {
	status, text := http.StatusInternalServerError, problem.Error()
	if known, ok := errors.AsType[*huma.ErrorModel](problem); ok {
		status, text = known.Status, known.Detail
	}
	if more, ok := errors.AsType[huma.HeadersError](problem); ok {
		maps.Copy(w.Header(), more.GetHeaders())
	}
	if status == http.StatusServiceUnavailable {
		text = promptNoSession
	}
	h.answerPrompt(w, status, promptError{text})
}

func (h *promptHandlers) answerPrompt(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(status)
	// An error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(body)
}

// describePrompt adds a path of the mux to the OpenAPI document.
func (h *promptHandlers) describePrompt(name, path string) {
	registry := h.api.OpenAPI().Components.Schemas
	content := func(of reflect.Type) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{typeJSON: {Schema: registry.Schema(of, true, "")}}
	}
	failed := content(reflect.TypeFor[promptError]())
	op := &huma.Operation{
		OperationID: name, Method: http.MethodPost, Path: path, Tags: []string{"events"},
		Summary:     "Publish a user_query from a prompt",
		Description: "Responds before the agent does: its reply is among the events. A session is a thread, which is opened if it does not exist.",
		Parameters: []*huma.Param{{
			Name: "id", In: "path", Required: true, Description: "The thread's id", Schema: &huma.Schema{Type: huma.TypeString},
		}},
		RequestBody: &huma.RequestBody{Required: true, Content: content(reflect.TypeFor[prompt]())},
		Responses: map[string]*huma.Response{
			"200": {Description: "Published", Content: content(reflect.TypeFor[prompted]())},
			"400": {Description: promptEmpty, Content: failed},
			"422": {Description: "There are query parameters", Content: failed},
			"409": {Description: "The session is closed", Content: failed},
			"408": {Description: "The body took too long to arrive", Content: failed},
			"413": {Description: "The content is too large", Content: failed},
			"401": {Description: "The request has no valid API key", Content: failed},
			"403": {Description: "The API key does not have the role", Content: failed},
			"429": {Description: "The session's queue is full: Retry-After says when to try again", Content: failed},
			"503": {Description: promptNoSession + ": Temporal cannot be reached, or no worker runs", Content: failed},
		},
	}
	secure(op, auth.RolePost)
	h.api.OpenAPI().AddOperation(op)
}
