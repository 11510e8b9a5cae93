package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/aisdk"
	"github.com/threadmill/threadmill/internal/chat/chatfeed"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// chatHandlers serve threads to frontends of the AI SDK. The thread is the source of truth: of the
// messages that a client sends, only the last one is read, and only what is new in it.
type chatHandlers struct {
	*lookup
	threads Threads
	chats   *chatfeed.Feed
	viewers *viewers
}

// timedThreads ask threads, which must answer in time.
type timedThreads struct {
	*core
	Threads
}

func (t timedThreads) State(ctx context.Context, threadID string) (signals.State, error) {
	within, cancel := t.answer(ctx)
	defer cancel()
	return t.Threads.State(within, threadID)
}

func (t timedThreads) Approvals(ctx context.Context, threadID string) (signals.Approvals, error) {
	within, cancel := t.answer(ctx)
	defer cancel()
	return t.Threads.Approvals(within, threadID)
}

// chatRequest is the body of POST /v1/chat, as useChat sends it. Clients may add fields.
type chatRequest struct {
	ID        string        `json:"id" doc:"The chat: the id of the thread, which is opened if it does not exist"`
	Messages  []chatMessage `json:"messages" maxItems:"10000" doc:"The client's messages. Only the last one is read: a message of the user is posted; decisions and results in an assistant message are taken if their calls wait for them"`
	Trigger   string        `json:"trigger,omitempty" enum:"submit-message,regenerate-message" doc:"What the client wants. Default: submit-message"`
	MessageID string        `json:"messageId,omitempty" doc:"The message that is answered again, or that goes on"`
	Agents    []string      `json:"agents,omitempty" maxItems:"100" doc:"The agents of a new thread. Default: the default agent"`
	Title     string        `json:"title,omitempty" doc:"The title of a new thread, at most 400 bytes. Default: one is generated, if the server generates titles"`
	Tools     []string      `json:"tools,omitempty" maxItems:"256" doc:"The tools whose parts are tool-<name>. Those of others are dynamic-tool"`
	Sender    string        `json:"sender,omitempty" doc:"Who writes or decides, without API keys. A decision needs a name. Default: user"`
	Again     bool          `json:"again,omitempty" doc:"With the trigger regenerate-message: whether a message that was answered is posted again. Default: the answer is shown, since a client whose connection was cut cannot know that there is one"`
	Version   int           `json:"version,omitempty" minimum:"6" maximum:"7" doc:"The version of the AI SDK. Default: 6. Version 7 can take text back when a model call is retried"`
	Indexed   bool          `json:"indexed,omitempty" doc:"Whether the stream can be resumed at any chunk, as WorkflowChatTransport does: replies arrive whole"`
	PostOptions
}

// chatMessage is the part of a client's message that is read.
type chatMessage struct {
	ID       string          `json:"id" doc:"Idempotency key of a message of the user"`
	Role     string          `json:"role" doc:"user or assistant"`
	Metadata json.RawMessage `json:"metadata,omitempty" doc:"place, as the stream or the messages gave it, tells what the client has of the message. The rest is the client's own"`
	Parts    []chatPart      `json:"parts" maxItems:"1000" doc:"The parts"`
}

type chatPart struct {
	Type       string            `json:"type" doc:"text, or that of a tool"`
	Text       string            `json:"text,omitempty" doc:"Of text"`
	State      string            `json:"state,omitempty" doc:"Of a tool: approval-responded, output-available or output-error count"`
	ToolCallID string            `json:"toolCallId,omitempty" doc:"Of a tool"`
	Input      json.RawMessage   `json:"input,omitempty" doc:"Of a tool: the arguments that the person saw. A decision needs them, and one on others is refused"`
	Output     json.RawMessage   `json:"output,omitempty" doc:"Of a tool that the client runs"`
	ErrorText  string            `json:"errorText,omitempty" doc:"Of a tool that the client runs"`
	Approval   *aisdk.UIApproval `json:"approval,omitempty" doc:"Of a tool"`
}

type chatInput struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

type resumeInput struct {
	ThreadPath
	StartIndex int `query:"startIndex" minimum:"-1" default:"-1" doc:"How many chunks of an indexed stream the client has, with the run that x-workflow-run-id named in place of the id. -1 = the stream is not indexed"`
	Version    int `query:"version" minimum:"6" maximum:"7" default:"6" doc:"The version of the AI SDK"`
}

// ChatPageQuery are the parameters of pages of messages. It is exported for huma, which reads embedded structs only then.
type ChatPageQuery struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"The most messages of people and answers. A page has fewer if they are large, and one more if the oldest is an answer: then it has the message that it answers too"`
	Cursor string `query:"cursor" doc:"The previous of the page that follows. Default: the newest messages"`
}

// maxChatPage is the maximum of [ChatPageQuery].Limit.
const maxChatPage = 200

type chatMessagesInput struct {
	ThreadPath
	ChatPageQuery
	Tools []string `query:"tools" maxItems:"256" doc:"The tools whose parts are tool-<name>, as in requests"`
}

type chatMessagesOutput struct {
	Body struct {
		Messages []*aisdk.UIMessage `json:"messages" nullable:"false" doc:"The messages, the oldest first: useChat's messages"`
		Previous string             `json:"previous,omitempty" doc:"The cursor of the previous page, if there is one. That page has no message of this one, also if the thread grows meanwhile"`
	}
}

func (h *chatHandlers) registerChat() {
	tags := []string{"chat"}
	stream := h.eventStream("A UI message stream")
	registerText(h.core, auth.RolePost, huma.Operation{
		OperationID: "chat", Method: http.MethodPost, Path: "/v1/chat", Tags: tags, Summary: "Talk to a thread from the AI SDK",
		Description: "The response is the UI message stream of the turn. It finishes with the turn, or when the turn waits for a person or for the client. Errors are text.",
		Responses:   map[string]*huma.Response{"200": stream}, Errors: []int{400, 404, 409, 413, 415, 422, 429, 503},
	}, h.chat)
	describeBody[chatRequest](h.core, "/v1/chat", "ChatRequest")
	registerText(h.core, auth.RoleRead, huma.Operation{
		OperationID: "resumeChat", Method: http.MethodGet, Path: "/v1/chat/{id}/stream", Tags: tags, Summary: "Resume the stream of a chat",
		Description: "The message of the turn in progress, as it is and as it goes on. Without one, the last message if nothing was said after it, otherwise 204. With startIndex, a run from that chunk on. Errors are text.",
		Responses:   map[string]*huma.Response{"200": stream, "204": {Description: "There is no message to go on with"}}, Errors: []int{404, 422, 503},
	}, h.resume)
	registerText(h.core, auth.RolePost, huma.Operation{
		OperationID: "stopChat", Method: http.MethodPost, Path: "/v1/chat/{id}/stop", Tags: tags, Summary: "Stop the turn of a chat",
		Description:   "Unlike closing the connection, which stops nothing. A turn that answers somebody else needs the role operate. Errors are text.",
		DefaultStatus: http.StatusAccepted, Errors: []int{403, 404, 409, 503},
	}, h.stop)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listChatMessages", Method: http.MethodGet, Path: "/v1/chat/{id}/messages", Tags: tags, Summary: "List the messages of a chat",
		Description: "The newest messages, or those before a cursor, as useChat takes them: a turn of agents is one assistant message. Messages are whole.", Errors: []int{404, 503},
	}, h.messages)
}

// registerText adds an operation whose errors are text, which frontends show to people as it is. Clients
// may add fields to its body.
func registerText[I any](c *core, role auth.Role, op huma.Operation, handler func(context.Context, *I) (*huma.StreamResponse, error)) {
	op.SkipValidateBody = true
	register(c, role, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return textOf(c.problem(ctx, "", err)), nil
		}
		return out, nil
	})
	pattern := op.Method + " " + op.Path
	to := c.access.routes[pattern]
	to.refuse = writeText
	c.access.routes[pattern] = to
}

// describeBody describes a body that is decoded by hand.
func describeBody[T any](c *core, path, name string) {
	c.api.OpenAPI().Paths[path].Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		typeJSON: {Schema: c.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, name)},
	}}
}

func (c *core) eventStream(description string) *huma.Response {
	return &huma.Response{Description: description, Content: map[string]*huma.MediaType{typeSSE: {Schema: &huma.Schema{Type: huma.TypeString}}}}
}

// writeText writes an error as text.
func writeText(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(detail)) // the client may have gone
}

func (h *chatHandlers) chat(ctx context.Context, in *chatInput) (*huma.StreamResponse, error) {
	if err := needs(ctx, auth.RoleRead, "the stream"); err != nil {
		return nil, err
	}
	var body chatRequest
	if err := in.decode(&body); err != nil {
		return nil, err
	}
	out, err := h.respond(ctx, &body)
	return out, h.problem(ctx, body.ID, err)
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
	if err := event.DecodeJSON("", in.RawBody, v); err != nil {
		return err
	}
	return checkItems("", reflect.ValueOf(v))
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
	if size := len(strings.Join(body.Tools, "")); body.Indexed && size > maxRunTools {
		return nil, refuse(http.StatusUnprocessableEntity, "tools", fmt.Sprintf("are %d bytes, and a run, whose id names them, may have %d", size, maxRunTools))
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
	at, err := h.post(ctx, body.ID, signals.Start{Agents: body.Agents, Title: body.Title}, post)
	if err != nil {
		return nil, err
	}
	return h.stream(ctx, body, chatfeed.Answer{MessageID: post.ID, From: at})
}

// post posts a message, and opens the thread if there is none. It returns the thread's end before
// the message.
func (h *chatHandlers) post(ctx context.Context, id string, start signals.Start, post signals.Post) (feed.Cursor, error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	thread, err := h.store.Thread(ctx, h.key(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		if err := h.checkAgents(ctx, "agents", start.Agents); err != nil {
			return feed.Cursor{}, err
		}
		if err := refuseField("title", start.Validate()); err != nil {
			return feed.Cursor{}, err
		}
		if err = h.threads.Open(within, id, start, &post); err == nil || !errors.Is(err, signals.ErrThreadExists) {
			return feed.Cursor{}, err
		}
	case err != nil:
		return feed.Cursor{}, err
	}
	at := h.chats.Events.At(within, h.key(id), thread.Head)
	result, err := h.threads.Post(within, id, post)
	if err == nil && result.Status == signals.PostDuplicate {
		var known *event.Record
		if known, err = h.chats.Record(ctx, id, post.ID); known != nil {
			at = feed.Cursor{Seq: known.Seq - 1}
		}
	}
	return at, err
}

// regenerate answers a message again: a failed event is retried. The text of one that was answered is posted again, as it is
// stored, if the client asks for that; otherwise the client gets the answer.
func (h *chatHandlers) regenerate(ctx context.Context, body *chatRequest, last chatMessage) (*huma.StreamResponse, error) {
	record, err := h.chats.Record(ctx, body.ID, last.ID)
	if err != nil {
		return nil, err
	}
	var m event.Message
	if record == nil || record.Type != event.TypeMessage || json.Unmarshal(record.Payload, &m) != nil || m.SenderType != event.CreatedByUser {
		return nil, refuse(http.StatusNotFound, "messages", "does not end with a message of the user that the thread has")
	}
	by, err := actor(ctx, "sender", body.Sender, byAPI)
	if err != nil {
		return nil, err
	}
	thread, err := h.store.Thread(ctx, h.key(body.ID))
	if err != nil {
		return nil, err
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	item, err := h.threads.Retry(within, body.ID, last.ID, by)
	switch {
	case err == nil:
		return h.stream(ctx, body, chatfeed.Answer{MessageID: last.ID, EventID: last.ID, From: feed.Cursor{Seq: thread.Head}})
	case errors.Is(err, signals.ErrRefused) && (item.Status == event.ItemPending || item.Status == event.ItemProcessing),
		!body.Again && (errors.Is(err, signals.ErrRefused) || errors.Is(err, signals.ErrEventNotFound)):
		at, err := h.chats.To(ctx, body.ID, record)
		if err != nil {
			return nil, err
		}
		return h.stream(ctx, body, at)
	case errors.Is(err, signals.ErrRefused), errors.Is(err, signals.ErrEventNotFound): // it was answered
		return h.say(ctx, body, "", m.Content)
	}
	return nil, err
}

// goOn takes the decisions and results in an assistant message, and streams how its turn goes on.
func (h *chatHandlers) goOn(ctx context.Context, body *chatRequest, m chatMessage) (*huma.StreamResponse, error) {
	messageID, isReply := strings.CutSuffix(m.ID, chat.AnswerID(""))
	record, err := h.chats.Record(ctx, body.ID, messageID)
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
	after, err := m.place()
	if err != nil {
		return nil, err
	}
	if after.IsZero() {
		after = feed.Cursor{Seq: thread.Head}
	}
	answers, err := m.answers()
	if err != nil {
		return nil, err
	}
	settled, err := h.settle(ctx, body.ID, body.Sender, answers)
	if err != nil {
		return nil, err
	}
	at, err := h.chats.To(ctx, body.ID, record)
	if err != nil {
		return nil, err
	}
	at.After, at.Settled, at.Before = after, settled, thread.Head
	return h.stream(ctx, body, at, m.tools()...)
}

// place returns where a message says that the client is. The metadata may have any form.
func (m chatMessage) place() (feed.Cursor, error) {
	var metadata struct {
		Place string `json:"place"`
	}
	if json.Unmarshal(m.Metadata, &metadata) != nil || metadata.Place == "" {
		return feed.Cursor{}, nil
	}
	at, err := feed.ParseCursor(metadata.Place)
	if err != nil {
		return at, refuse(http.StatusUnprocessableEntity, "messages.metadata.place", err.Error())
	}
	return at, nil
}

// tools returns what the client has of the tools of a message.
func (m chatMessage) tools() []aisdk.UIPart {
	var out []aisdk.UIPart
	for _, p := range m.Parts {
		if p.ToolCallID != "" {
			out = append(out, aisdk.UIPart{ToolCallID: p.ToolCallID, State: p.State, Output: p.Output, ErrorText: p.ErrorText, Approval: p.Approval})
		}
	}
	return out
}

func (h *chatHandlers) stop(ctx context.Context, in *ThreadPath) (*huma.StreamResponse, error) {
	by, err := actor(ctx, "sender", "", byAPI)
	if err != nil {
		return nil, err
	}
	own, err := h.mayStop(ctx, in.ID)
	if err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	if err := h.threads.Control(within, in.ID, signals.Control{Action: signals.ControlInterrupt, By: by, EventID: own}); err != nil {
		return nil, h.problem(ctx, in.ID, err)
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) { hctx.SetStatus(http.StatusAccepted) }}, nil
}

// mayStop returns an error unless the caller may stop the turn in progress. A person may stop the one that answers her: the result
// is its event.
func (h *chatHandlers) mayStop(ctx context.Context, id string) (eventID string, err error) {
	refusal := needs(ctx, auth.RoleOperate, "path.id")
	if refusal == nil {
		return "", nil
	}
	state, err := query(ctx, h.core, id, h.threads.State)
	if err != nil || state.Body.Turn == nil {
		return "", cmp.Or(err, refusal)
	}
	record, err := h.chats.Record(ctx, id, state.Body.Turn.EventID)
	if err != nil {
		return "", err
	}
	var m event.Message
	if record != nil && record.Type == event.TypeMessage && json.Unmarshal(record.Payload, &m) == nil && m.SenderType == event.CreatedByUser && m.SenderID == auth.FromContext(ctx).Name {
		return record.ID, nil
	}
	return "", refusal
}

func (h *chatHandlers) messages(ctx context.Context, in *chatMessagesInput) (*chatMessagesOutput, error) {
	page, err := h.page(ctx, in.ID, in.ChatPageQuery)
	if err != nil {
		return nil, err
	}
	out := &chatMessagesOutput{}
	out.Body.Messages = aisdk.Messages(aisdk.Config{ThreadID: in.ID, Static: in.Tools}, &page.Chat, page.End.String())
	out.Body.Previous = page.Previous
	return out, nil
}

// page returns a page of the messages of a thread.
func (h *chatHandlers) page(ctx context.Context, id string, in ChatPageQuery) (*chatfeed.Page, error) {
	if _, err := h.thread(ctx, id); err != nil {
		return nil, err
	}
	var before feed.Cursor
	if in.Cursor != "" {
		var err error
		if before, err = feed.ParseCursor(in.Cursor); err != nil || before.Seq < 1 {
			return nil, refuse(http.StatusUnprocessableEntity, "query.cursor", badCursor)
		}
	}
	page, err := h.chats.Page(ctx, id, before, in.Limit)
	return page, h.problem(ctx, id, err)
}

// resume streams the message of the turn in progress, or a run from one of its chunks on.
func (h *chatHandlers) resume(ctx context.Context, in *resumeInput) (*huma.StreamResponse, error) {
	body := &chatRequest{ID: in.ID, Version: in.Version, Indexed: in.StartIndex >= 0}
	if id, isRun := strings.CutPrefix(in.ID, runPrefix); isRun {
		known, err := parseRun(id)
		if err != nil {
			return nil, err
		}
		if err := h.checkRun(ctx, known); err != nil {
			return nil, h.problem(ctx, known.ThreadID, err)
		}
		body.ID, body.Tools, body.Version, body.Indexed, known.Skip = known.ThreadID, known.Tools, known.Version, true, max(in.StartIndex, 0)
		out, err := h.stream(ctx, body, known.Answer)
		return out, h.problem(ctx, body.ID, err)
	}
	at, err := h.chats.InProgress(ctx, in.ID)
	if err == nil && at == nil { // it may have ended since the client lost it
		at, err = h.chats.Last(ctx, in.ID)
	}
	switch {
	case err != nil:
		return nil, h.problem(ctx, in.ID, err)
	case at == nil && body.Indexed:
		return aiSDK.whole(anys([]aisdk.Chunk{{Type: "finish"}})), nil // its client takes 204 for an error
	case at == nil:
		return noContent(), nil
	}
	at.Skip = max(in.StartIndex, 0)
	out, err := h.stream(ctx, body, *at)
	return out, h.problem(ctx, in.ID, err)
}
