package server

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/uistream"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// chatHandlers serve threads to frontends of the AI SDK. The thread is the source of truth: of the
// messages that a client sends, only the last one is read, and only what is new in it.
type chatHandlers struct {
	*lookup
	threads Threads
	feed    *feed.Feed
	viewers *viewers
}

// chatRequest is the body of POST /v1/chat, as useChat sends it. Clients may add fields.
type chatRequest struct {
	ID        string        `json:"id" doc:"The chat: the id of the thread, which is opened if it does not exist"`
	Messages  []chatMessage `json:"messages" doc:"The client's messages. Only the last one is read: a message of the user is posted; decisions and results in an assistant message are taken if their calls wait for them"`
	Trigger   string        `json:"trigger,omitempty" enum:"submit-message,regenerate-message" doc:"What the client wants. Default: submit-message"`
	MessageID string        `json:"messageId,omitempty" doc:"The message that is answered again, or that goes on"`
	Agents    []string      `json:"agents,omitempty" doc:"The agents of a new thread. Default: the default agent"`
	Tools     []string      `json:"tools,omitempty" doc:"The tools whose parts are tool-<name>. Those of others are dynamic-tool"`
	Sender    string        `json:"sender,omitempty" doc:"Who writes or decides, without API keys. Default: user"`
	PostOptions
}

// chatMessage is the part of a client's message that is read.
type chatMessage struct {
	ID       string               `json:"id" doc:"Idempotency key of a message of the user"`
	Role     string               `json:"role" doc:"user or assistant"`
	Metadata *uistream.UIMetadata `json:"metadata,omitempty" doc:"place, as the stream's finish gave it: where the message goes on"`
	Parts    []chatPart           `json:"parts" doc:"The parts"`
}

type chatPart struct {
	Type       string               `json:"type" doc:"text, or that of a tool"`
	Text       string               `json:"text,omitempty" doc:"Of text"`
	State      string               `json:"state,omitempty" doc:"Of a tool: approval-responded, output-available or output-error count"`
	ToolCallID string               `json:"toolCallId,omitempty" doc:"Of a tool"`
	Input      json.RawMessage      `json:"input,omitempty" doc:"Of a tool: the arguments that the person saw. A decision on others is refused"`
	Output     json.RawMessage      `json:"output,omitempty" doc:"Of a tool that the client runs"`
	ErrorText  string               `json:"errorText,omitempty" doc:"Of a tool that the client runs"`
	Approval   *uistream.UIApproval `json:"approval,omitempty" doc:"Of a tool"`
}

type chatInput struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

type chatMessagesInput struct {
	ThreadPath
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"The most records to read, from the thread's end"`
}

type chatMessagesOutput struct {
	Body struct {
		Messages []*uistream.UIMessage `json:"messages" nullable:"false" doc:"The messages, the oldest first: useChat's messages"`
	}
}

// chatPatterns are the routes whose errors are text, which the AI SDK shows to people as it is.
var chatPatterns = []string{"POST /v1/chat", "GET /v1/chat/{id}/stream", "POST /v1/chat/{id}/stop", "GET /v1/chat/{id}/messages"}

func (h *chatHandlers) registerChat() {
	tags := []string{"chat"}
	registry := h.api.OpenAPI().Components.Schemas
	stream := map[string]*huma.Response{"200": {Description: "A UI message stream", Content: map[string]*huma.MediaType{typeSSE: {Schema: &huma.Schema{Type: huma.TypeString}}}}}
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "chat", Method: http.MethodPost, Path: "/v1/chat", Tags: tags, Summary: "Talk to a thread from the AI SDK",
		Description: "The response is the UI message stream of the turn. It finishes with the turn, or when the turn waits for a person or for the client. Errors are text.",
		Responses:   stream, Errors: []int{400, 404, 409, 413, 422, 429, 503},
		SkipValidateBody: true, // clients add fields
	}, h.chat)
	h.api.OpenAPI().Paths["/v1/chat"].Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		typeJSON: {Schema: registry.Schema(reflect.TypeFor[chatRequest](), true, "ChatRequest")},
	}}
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "resumeChat", Method: http.MethodGet, Path: "/v1/chat/{id}/stream", Tags: tags, Summary: "Resume the stream of a chat",
		Description: "The message of the turn in progress, from its beginning. 204 without a turn. Errors are text.",
		Responses:   map[string]*huma.Response{"200": stream["200"], "204": {Description: "No turn is in progress"}}, Errors: []int{503},
	}, h.resume)
	register(h.core, auth.RoleOperate, huma.Operation{
		OperationID: "stopChat", Method: http.MethodPost, Path: "/v1/chat/{id}/stop", Tags: tags, Summary: "Stop the turn of a chat",
		Description: "Unlike closing the connection, which stops nothing. Errors are text.", DefaultStatus: http.StatusAccepted, Errors: []int{404, 409, 503},
	}, h.stop)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listChatMessages", Method: http.MethodGet, Path: "/v1/chat/{id}/messages", Tags: tags, Summary: "List the messages of a chat",
		Description: "As useChat takes them: a turn of agents is one assistant message. Errors are text.", Errors: []int{404, 503},
	}, h.messages)
	for _, pattern := range chatPatterns {
		to := h.access.routes[pattern]
		to.refuse = writeText
		h.access.routes[pattern] = to
	}
}

// writeText writes an error as text.
func writeText(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(detail)) //nolint:gosec // it is no markup; the client may have gone
}

func (h *chatHandlers) chat(ctx context.Context, in *chatInput) (*huma.StreamResponse, error) {
	if err := needs(ctx, auth.RoleRead, "the stream"); err != nil {
		return textOf(err), nil
	}
	var body chatRequest
	if err := in.decode(&body); err != nil {
		return textOf(h.problem(ctx, "", err)), nil
	}
	out, err := h.respond(ctx, &body)
	if err != nil {
		return textOf(h.problem(ctx, body.ID, err)), nil
	}
	return out, nil
}

// decode reads the body into v. Pages of other origins may send other types than JSON without asking
// first.
func (in *chatInput) decode(v any) error {
	if media, _, err := mime.ParseMediaType(in.ContentType); in.ContentType != "" && (err != nil || media != typeJSON) {
		return huma.Error415UnsupportedMediaType("the Content-Type has to be application/json")
	}
	if len(in.RawBody) == 0 {
		return huma.Error400BadRequest("the body is missing")
	}
	return event.DecodeJSON("", in.RawBody, v)
}

// textOf responds with a problem as text.
func textOf(problem error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		status, text := http.StatusInternalServerError, problem.Error()
		if known, ok := errors.AsType[huma.StatusError](problem); ok {
			status, text = known.GetStatus(), known.Error()
		}
		if more, ok := errors.AsType[huma.HeadersError](problem); ok {
			for name, values := range more.GetHeaders() {
				hctx.SetHeader(name, strings.Join(values, ", "))
			}
		}
		hctx.SetHeader("Content-Type", "text/plain; charset=utf-8")
		hctx.SetHeader("X-Content-Type-Options", "nosniff")
		hctx.SetStatus(status)
		_, _ = hctx.BodyWriter().Write([]byte(text)) // the client may have gone
	}}
}

// respond takes what is new in the request and streams what follows.
func (h *chatHandlers) respond(ctx context.Context, body *chatRequest) (*huma.StreamResponse, error) {
	if err := checkID("id", body.ID, signals.ValidateID); err != nil {
		return nil, err
	}
	if len(body.Messages) == 0 {
		return nil, refuse(http.StatusUnprocessableEntity, "messages", "is empty: send at least the last message")
	}
	last := body.Messages[len(body.Messages)-1]
	switch {
	case body.Trigger == "regenerate-message":
		return h.regenerate(ctx, body, last)
	case last.Role == "user":
		text, err := textIn(last)
		if err != nil {
			return nil, err
		}
		return h.say(ctx, body, last.ID, text)
	case last.Role == "assistant":
		return h.goOn(ctx, body, last)
	}
	return nil, refuse(http.StatusUnprocessableEntity, "messages", "ends with a message of role "+last.Role+": it has to be user or assistant")
}

// textIn returns the text of a message of the user.
func textIn(m chatMessage) (string, error) {
	var texts []string
	for _, p := range m.Parts {
		switch {
		case p.Type == "text":
			texts = append(texts, p.Text)
		case strings.HasPrefix(p.Type, "data-"):
		default:
			return "", refuse(http.StatusUnprocessableEntity, "messages", "has a part of type "+p.Type+": threads take text")
		}
	}
	return strings.Join(texts, "\n"), nil
}

// say posts a message of the user, and streams the answer. The client may repeat the request.
func (h *chatHandlers) say(ctx context.Context, body *chatRequest, id, content string) (*huma.StreamResponse, error) {
	post, err := newPost(ctx, body.ID, "message.", NewMessage{ID: id, Content: content, Sender: body.Sender})
	if err != nil {
		return nil, err
	}
	options := body.PostOptions
	options.Agents = nil
	if err := h.prepare(ctx, body.ID, &post, options); err != nil {
		return nil, err
	}
	at, err := h.post(ctx, body.ID, body.Agents, post)
	if err != nil {
		return nil, err
	}
	return h.stream(ctx, body, answer{messageID: post.ID, from: at})
}

// post posts a message, and opens the thread if there is none. It returns the thread's end before
// the message.
func (h *chatHandlers) post(ctx context.Context, id string, agents []string, post signals.Post) (feed.Cursor, error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	thread, err := h.store.Thread(ctx, h.key(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		if err := h.checkAgents(ctx, "agents", agents); err != nil {
			return feed.Cursor{}, err
		}
		if err = h.threads.Open(within, id, signals.Start{Agents: agents}, &post); err == nil || !errors.Is(err, signals.ErrThreadExists) {
			return feed.Cursor{}, err
		}
	case err != nil:
		return feed.Cursor{}, err
	}
	at := feed.Cursor{Seq: thread.Head}
	result, err := h.threads.Post(within, id, post)
	if err == nil && result.Status == signals.PostDuplicate {
		var known *event.Record
		if known, err = h.record(ctx, id, post.ID); known != nil {
			at = feed.Cursor{Seq: known.Seq - 1}
		}
	}
	return at, err
}

// record returns a record, or nil.
func (h *chatHandlers) record(ctx context.Context, threadID, id string) (*event.Record, error) {
	records, err := h.store.RecordsByID(ctx, h.key(threadID), id)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return &records[0], nil
}

// regenerate answers a message again: a failed event is retried, the text of any other is posted
// again, as it is stored.
func (h *chatHandlers) regenerate(ctx context.Context, body *chatRequest, last chatMessage) (*huma.StreamResponse, error) {
	record, err := h.record(ctx, body.ID, last.ID)
	if err != nil {
		return nil, err
	}
	var m event.Message
	if record == nil || record.Type != event.TypeMessage || json.Unmarshal(record.Payload, &m) != nil || m.SenderType != event.CreatedByUser {
		return nil, refuse(http.StatusNotFound, "messages", "does not end with a message of the user that the thread has")
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	by, err := actor(ctx, "sender", body.Sender, byAPI)
	if err != nil {
		return nil, err
	}
	thread, err := h.store.Thread(ctx, h.key(body.ID))
	if err != nil {
		return nil, err
	}
	if _, err = h.threads.Retry(within, body.ID, last.ID, by); err == nil {
		return h.stream(ctx, body, answer{messageID: last.ID, eventID: last.ID, from: feed.Cursor{Seq: thread.Head}})
	}
	return h.say(ctx, body, "", m.Content)
}

// goOn takes the decisions and results in an assistant message, and streams how its turn goes on.
func (h *chatHandlers) goOn(ctx context.Context, body *chatRequest, m chatMessage) (*huma.StreamResponse, error) {
	messageID, isReply := strings.CutSuffix(m.ID, uistream.AssistantID(""))
	record, err := h.record(ctx, body.ID, messageID)
	if err != nil {
		return nil, err
	}
	if record == nil || !isReply {
		return nil, refuse(http.StatusNotFound, "messages", "ends with a message that the thread does not have: load its messages again")
	}
	// The client has everything up to its place; what is decided now follows.
	thread, err := h.store.Thread(ctx, h.key(body.ID))
	if err != nil {
		return nil, err
	}
	after := feed.Cursor{Seq: thread.Head}
	if m.Metadata != nil && m.Metadata.Place != "" {
		if after, err = feed.ParseCursor(m.Metadata.Place); err != nil {
			return nil, refuse(http.StatusUnprocessableEntity, "messages.metadata.place", err.Error())
		}
	}
	settled, err := h.settle(ctx, body, m.Parts)
	if err != nil {
		return nil, err
	}
	return h.stream(ctx, body, answer{
		messageID: messageID, eventID: record.EventID, from: feed.Cursor{Seq: record.Seq - 1}, after: after, settled: settled, before: thread.Head,
	})
}

// settle decides on the calls that wait, as the parts say, and returns those on which it did.
func (h *chatHandlers) settle(ctx context.Context, body *chatRequest, parts []chatPart) (settled []string, err error) {
	by, err := actor(ctx, "sender", body.Sender, byAPI)
	if err != nil {
		return nil, err
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	waiting, err := h.threads.Approvals(within, body.ID)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		for _, r := range waiting.Approvals {
			if r.ToolCallID == p.ToolCallID && p.State == "approval-responded" && p.Approval != nil && p.Approval.Approved != nil {
				if err := h.decide(within, body.ID, r, p, by); err != nil {
					return nil, err
				}
				settled = append(settled, r.ToolCallID)
			}
		}
		for _, c := range waiting.ClientCalls {
			if c.ToolCallID == p.ToolCallID && (p.State == "output-available" || p.State == "output-error") {
				result := signals.ToolResult{ToolCallID: c.ToolCallID, Output: outputText(p.Output), By: by}
				if p.State == "output-error" {
					result.Output, result.IsError = p.ErrorText, true
				}
				if _, err := h.threads.ToolResult(within, body.ID, result); err != nil {
					return nil, err
				}
				settled = append(settled, c.ToolCallID)
			}
		}
	}
	return settled, nil
}

// decide decides on a call. What the person saw has to be what is stored.
func (h *chatHandlers) decide(ctx context.Context, threadID string, r event.ApprovalRequest, p chatPart, by string) error {
	if err := needs(ctx, auth.RoleApprove, "a decision"); err != nil {
		return err
	}
	d := signals.Decide{ToolCallID: r.ToolCallID, Decision: event.DecisionDeny, Reason: p.Approval.Reason, By: by, Round: r.Round, ToolArgs: p.Input}
	if *p.Approval.Approved {
		d.Decision = event.DecisionApprove
	}
	got, err := h.threads.Decide(ctx, threadID, d)
	return orRefused(err, decisionRefusals, ToolCallPath{ThreadPath{threadID}, r.ToolCallID}, got.Result)
}

func (h *chatHandlers) stop(ctx context.Context, in *ThreadPath) (*huma.StreamResponse, error) {
	by, err := actor(ctx, "sender", "", byAPI)
	if err == nil {
		within, cancel := h.answer(ctx)
		defer cancel()
		err = h.threads.Control(within, in.ID, signals.Control{Action: signals.ControlInterrupt, By: by})
	}
	if err != nil {
		return textOf(h.problem(ctx, in.ID, err)), nil
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) { hctx.SetStatus(http.StatusAccepted) }}, nil
}

func (h *chatHandlers) messages(ctx context.Context, in *chatMessagesInput) (*chatMessagesOutput, error) {
	if _, err := h.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	page, err := h.feed.Before(ctx, h.key(in.ID), feed.Cursor{}, in.Limit)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	list := uistream.NewMessages(in.ID)
	for _, item := range page.Items {
		list.Apply(item.Event)
	}
	out := &chatMessagesOutput{}
	out.Body.Messages = list.List()
	return out, nil
}

// resume streams the message of the turn in progress.
func (h *chatHandlers) resume(ctx context.Context, in *ThreadPath) (*huma.StreamResponse, error) {
	out, err := h.current(ctx, in.ID)
	if err != nil {
		return textOf(h.problem(ctx, in.ID, err)), nil
	}
	return out, nil
}

func (h *chatHandlers) current(ctx context.Context, id string) (*huma.StreamResponse, error) {
	if _, err := h.store.Thread(ctx, h.key(id)); errors.Is(err, store.ErrNotFound) {
		return noContent(), nil // a new chat
	}
	state, err := query(ctx, h.core, id, h.threads.State)
	if err != nil {
		return nil, err
	}
	if state.Body.Turn == nil {
		return noContent(), nil
	}
	eventID := state.Body.Turn.EventID
	record, err := h.record(ctx, id, eventID)
	if err != nil {
		return nil, err
	}
	if record == nil {
		return noContent(), nil // it has just begun, and nothing is stored
	}
	at, err := h.lastIn(ctx, id, record)
	if err != nil {
		return nil, err
	}
	return h.stream(ctx, &chatRequest{ID: id}, at)
}

// lastIn returns the last assistant message of the turn that began with a record.
func (h *chatHandlers) lastIn(ctx context.Context, id string, record *event.Record) (answer, error) {
	// A turn that others joined goes on in the message that answers the last of them.
	at := answer{messageID: record.ID, eventID: record.EventID, from: feed.Cursor{Seq: record.Seq - 1}}
	records, err := h.store.Records(ctx, h.key(id), store.Query{After: record.Seq, Types: []string{event.TypeMessage}})
	if err != nil {
		return at, err
	}
	for _, r := range records {
		var m event.Message
		if r.EventID == record.EventID && json.Unmarshal(r.Payload, &m) == nil && m.SenderType == event.CreatedByUser && m.ID != record.EventID+".observed" {
			at.messageID, at.from = m.ID, feed.Cursor{Seq: r.Seq - 1}
		}
	}
	return at, nil
}
