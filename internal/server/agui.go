package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/agui"
	"github.com/threadmill/threadmill/internal/chat/aisdk"
	"github.com/threadmill/threadmill/internal/chat/chatfeed"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// aguiHandlers serve threads to frontends of AG-UI. A run is a turn, or what follows a decision.
type aguiHandlers struct{ *chatHandlers }

// runInput is the RunAgentInput of AG-UI. Clients may add fields.
type runInput struct {
	ThreadID string               `json:"threadId" doc:"The thread, which is opened if it does not exist"`
	RunID    string               `json:"runId" doc:"The run; the events repeat it"`
	Version  string               `json:"protocolVersion,omitempty" doc:"The version of the protocol. Without it, the client is one before 1.0, and gets only what those know"`
	Messages []runMessage         `json:"messages,omitempty" maxItems:"10000" doc:"The client's messages. The last one is posted if it is the user's; results of calls that wait for the client are taken. The client does not get again what is in them, but what is missing, and corrections"`
	Resume   []resumeEntry        `json:"resume,omitempty" maxItems:"1000" doc:"Answers to interrupts"`
	Context  []event.ContextEntry `json:"context,omitempty" maxItems:"100" doc:"What the page knows, together at most 64 KiB. The agents see it in the turn of the message that the run posts"`
	Props    runProps             `json:"forwardedProps,omitempty" doc:"Options of the post"`

	raw []json.RawMessage // the messages, with what clients add to them
}

type runProps struct {
	Agents []string `json:"agents,omitempty" maxItems:"100" doc:"The agents of a new thread. Default: the default agent"`
	Title  string   `json:"title,omitempty" doc:"The title of a new thread, at most 400 bytes. Default: one is generated, if the server generates titles"`
	Sender string   `json:"sender,omitempty" doc:"Who writes or decides, without API keys. A decision needs a name. Default: user"`
	Limit  int      `json:"limit,omitempty" minimum:"1" maximum:"200" doc:"Of connecting: the most messages of people and answers in the snapshot. Default: 50"`
	PostOptions
}

type runMessage struct {
	ID         string          `json:"id" doc:"Idempotency key of a message of the user"`
	Role       string          `json:"role" doc:"user, assistant, tool and others"`
	Content    json.RawMessage `json:"content,omitempty" doc:"Text, or parts of which the texts count"`
	ToolCallID string          `json:"toolCallId,omitempty" doc:"Of a result: the call"`
	Error      string          `json:"error,omitempty" doc:"Of a result: why the call failed"`
	ToolCalls  []runCall       `json:"toolCalls,omitempty" maxItems:"1000" doc:"Of an assistant message"`
}

type runCall struct {
	ID       string `json:"id" doc:"The call"`
	Function struct {
		Arguments string `json:"arguments,omitempty" doc:"What the client has of the arguments"`
	} `json:"function,omitzero" doc:"What the client has of the call"`
}

type resumeEntry struct {
	InterruptID string        `json:"interruptId" doc:"The interrupt's id, as its run gave it"`
	Status      string        `json:"status" enum:"resolved,cancelled" doc:"cancelled denies"`
	Payload     resumePayload `json:"payload,omitempty" doc:"The decision"`
}

type resumePayload struct {
	Approved   *bool             `json:"approved,omitempty" doc:"Whether the call may run. Required with the status resolved, unless the interrupt asks for input"`
	Reason     string            `json:"reason,omitempty" doc:"Why; the agent is told of a denial"`
	EditedArgs json.RawMessage   `json:"editedArgs,omitempty" doc:"The arguments that run instead"`
	Scope      event.Scope       `json:"scope,omitempty" doc:"once, session or pattern. Default: once"`
	Pattern    map[string]string `json:"pattern,omitempty" doc:"With scope pattern: globs by argument"`
	inputPayload
}

// The statuses of a [resumeEntry].
const (
	resolved  = "resolved"
	cancelled = "cancelled"
)

func (h *aguiHandlers) registerAGUI() {
	for _, one := range []struct {
		path, id, summary, description string
		role                           auth.Role
		handler                        func(context.Context, *runInput) (*huma.StreamResponse, error)
	}{
		{
			"/v1/ag-ui", "chatRun", "Run a thread from AG-UI",
			"Posts the last message of the user, or takes decisions and results, and responds with the events of the run. Errors are text.", auth.RolePost, h.run,
		},
		{
			"/v1/ag-ui/connect", "chatConnect", "Connect AG-UI to a thread",
			"Snapshots of the thread and its messages, and the run in progress, if there is one. Errors are text.", auth.RoleRead, h.connect,
		},
	} {
		registerText(h.core, one.role, huma.Operation{
			OperationID: one.id, Method: http.MethodPost, Path: one.path, Tags: []string{"chat"}, Summary: one.summary, Description: one.description,
			Responses: map[string]*huma.Response{"200": h.eventStream("The events of a run")}, Errors: []int{400, 404, 409, 413, 415, 422, 429, 503},
		}, func(ctx context.Context, in *chatInput) (*huma.StreamResponse, error) {
			input, err := in.run()
			if err != nil {
				return nil, err
			}
			if err := checkID("threadId", input.ThreadID, signals.ValidateID); err != nil {
				return nil, err
			}
			out, err := one.handler(ctx, input)
			return out, h.problem(ctx, input.ThreadID, err)
		})
		describeBody[runInput](h.core, one.path, "RunInput")
	}
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listRunMessages", Method: http.MethodGet, Path: "/v1/ag-ui/{id}/messages", Tags: []string{"chat"}, Summary: "List the messages of a thread for AG-UI",
		Description: "The newest messages, or those before a cursor, such as state.previous of a client that has connected. Messages are whole.", Errors: []int{404, 503},
	}, h.messages)
}

type runMessagesInput struct {
	ThreadPath
	ChatPageQuery
}

type runMessagesOutput struct {
	Body struct {
		Messages []any  `json:"messages" nullable:"false" doc:"The messages, the oldest first, as MESSAGES_SNAPSHOT has them. An answer has several: those of its agents, and the results of their calls"`
		Events   []any  `json:"events" nullable:"false" doc:"What belongs to the answers and is in no message: events of type CUSTOM, such as threadmill.retrieval"`
		Previous string `json:"previous,omitempty" doc:"The cursor of the previous page, if there is one"`
	}
}

func (h *aguiHandlers) messages(ctx context.Context, in *runMessagesInput) (*runMessagesOutput, error) {
	page, err := h.page(ctx, in.ID, in.ChatPageQuery)
	if err != nil {
		return nil, err
	}
	out := &runMessagesOutput{}
	list, told := agui.Snapshot(&page.Chat)
	out.Body.Messages, out.Body.Events = anys(list), anys(told)
	out.Body.Previous = page.Previous
	return out, nil
}

// run decodes the input of a run.
func (in *chatInput) run() (*runInput, error) {
	var input runInput
	if err := in.decode(&input); err != nil {
		return nil, err
	}
	var whole struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := event.DecodeJSON("", in.RawBody, &whole); err != nil {
		return nil, err
	}
	input.raw = whole.Messages
	return &input, nil
}

// held are the messages that the client has.
func (in *runInput) held() []*agui.Held {
	out := make([]*agui.Held, len(in.Messages))
	for i, m := range in.Messages {
		out[i] = &agui.Held{ID: m.ID, Role: m.Role, ToolCallID: m.ToolCallID, Message: in.raw[i]}
		_ = json.Unmarshal(m.Content, &out[i].Text) // what is no text is a person's
		for _, c := range m.ToolCalls {
			out[i].Calls = append(out[i].Calls, agui.ToolCall{ID: c.ID, Function: agui.Function{Arguments: c.Function.Arguments}})
		}
	}
	return out
}

// answered are the ids of the interrupts that the client answers.
func (in *runInput) answered() map[string]bool {
	out := map[string]bool{}
	for _, entry := range in.Resume {
		out[entry.InterruptID] = true
	}
	return out
}

// runEncoder is the [chatfeed.Encoder] of AG-UI.
type runEncoder struct {
	*agui.Encoder
	before []agui.Event // follow the beginning

	// earlier returns the answers before this one, once its turn has begun.
	earlier func(context.Context) (*chat.Chat, error)
}

// Complete completes what the client has of earlier answers.
func (e runEncoder) Complete(ctx context.Context) ([]any, error) {
	if e.earlier == nil {
		return nil, nil
	}
	c, err := e.earlier(ctx)
	if err != nil {
		return nil, err
	}
	return anys(e.Encoder.Complete(c)), nil
}

func (e runEncoder) Begin() []any                          { return anys(append(e.Encoder.Begin(), e.before...)) }
func (e runEncoder) Sync(m *chat.Message) []any            { return anys(e.Encoder.Sync(m)) }
func (e runEncoder) Progress(a event.AgentEvent) []any     { return anys(e.Encoder.Progress(a)) }
func (e runEncoder) Pause(m *chat.Message, _ string) []any { return anys(e.Encoder.Pause(m)) }
func (e runEncoder) End(m *chat.Message) []any             { return anys(e.Encoder.End(m)) }
func (e runEncoder) Fail(problem string) []any             { return anys(agui.Fail(problem)) }

// A client of AG-UI says what it has in its messages.
func (runEncoder) Assume(*chat.Message)        {}
func (runEncoder) Correct(*chat.Message) []any { return nil }
func (runEncoder) Place(string) []any          { return nil }

// config returns the configuration of the run's encoder, if the client has these messages.
func (in *runInput) config(held []*agui.Held) agui.Config {
	return agui.Config{ThreadID: in.ThreadID, RunID: in.RunID, Version: in.Version, Held: held, Answered: in.answered()}
}

func (in *runInput) encoder() runEncoder { return runEncoder{Encoder: agui.New(in.config(in.held()))} }

func (h *aguiHandlers) run(ctx context.Context, in *runInput) (*huma.StreamResponse, error) {
	if err := needs(ctx, auth.RoleRead, "the stream"); err != nil {
		return nil, err
	}
	if n := len(in.Messages); n > 0 && in.Messages[n-1].Role == "user" {
		last := in.Messages[n-1]
		known, err := h.chats.Record(ctx, in.ThreadID, last.ID)
		if err != nil {
			return nil, err
		}
		if open := false; known == nil && len(in.Resume) > 0 {
			if open, err = h.answersOpen(ctx, in); err != nil || open {
				return nil, cmp.Or(err, refuse(http.StatusUnprocessableEntity, "messages", "ends with a new message beside the answers in resume: send it in a run of its own, after them"))
			}
		}
		if known == nil || len(in.Resume) == 0 {
			return h.start(ctx, in, last, known)
		}
	}
	thread, err := h.store.Thread(ctx, h.key(in.ThreadID))
	if err != nil {
		return nil, err
	}
	answers, err := in.answers()
	if err != nil {
		return nil, err
	}
	settled, err := h.settle(ctx, in.ThreadID, in.Props.Sender, answers)
	if err != nil {
		return nil, err
	}
	at, err := h.shown(ctx, in, settled)
	if err != nil {
		return nil, err
	}
	at.Settled, at.Before = settled, thread.Head
	return h.show(ctx, in, at, in.encoder())
}

// shown returns the answer that a run shows which posts nothing: that of the calls that it answers, or that to the client's
// last message.
func (h *aguiHandlers) shown(ctx context.Context, in *runInput, settled []string) (at chatfeed.Answer, err error) {
	var call string
	switch {
	case len(settled) > 0:
		call = settled[len(settled)-1]
	case len(in.Resume) > 0: // a repeated answer shows what has become of its call
		call = in.Resume[len(in.Resume)-1].InterruptID
	default: // a client whose connection was cut runs again
		record, err := h.lastSaid(ctx, in.ThreadID, in.Messages)
		if err == nil && record == nil {
			err = refuse(http.StatusUnprocessableEntity, "messages", "has nothing new: end with a message of the user, answer a call that waits for the client, or resume an interrupt")
		}
		if err != nil {
			return at, err
		}
		return h.chats.To(ctx, in.ThreadID, record)
	}
	record, err := h.chats.TurnOf(ctx, in.ThreadID, call)
	if err == nil && record == nil {
		err = refuse(http.StatusNotFound, "resume.interruptId", "is no call of this thread")
	}
	if err != nil {
		return at, err
	}
	return h.chats.LastIn(ctx, in.ThreadID, record)
}

// lastSaid returns the record of the last of the client's messages that a person has said, or nil if the thread does not have
// it.
func (h *aguiHandlers) lastSaid(ctx context.Context, threadID string, messages []runMessage) (*event.Record, error) {
	for _, m := range slices.Backward(messages) {
		if m.Role == "user" {
			return h.chats.Record(ctx, threadID, m.ID)
		}
	}
	return nil, nil
}

// before returns the turns between the client's last message before the new one, and the turn of the new one.
func (h *aguiHandlers) before(ctx context.Context, in *runInput, id string) (*chat.Chat, error) {
	last, err := h.lastSaid(ctx, in.ThreadID, in.Messages[:len(in.Messages)-1])
	if err != nil || last == nil {
		return &chat.Chat{}, err
	}
	return h.chats.Between(ctx, in.ThreadID, last, id)
}

// answersOpen reports whether the run answers a request that is open. A client also has to answer those that have expired, or
// were decided elsewhere, before it can go on.
func (h *aguiHandlers) answersOpen(ctx context.Context, in *runInput) (bool, error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	waiting, err := h.threads.Approvals(within, in.ThreadID)
	if err != nil {
		return false, err
	}
	for _, entry := range in.Resume {
		q, open, err := h.requested(within, in.ThreadID, waiting, entry.InterruptID)
		if err != nil || open && !expired(q) {
			return open, err
		}
		if asked, err := h.asked(within, in.ThreadID, waiting, entry.InterruptID); err != nil || asked != nil {
			return asked != nil, err
		}
	}
	return false, nil
}

// expired reports whether a request has expired, which the thread may notice a moment later.
func expired(q event.ApprovalRequest) bool {
	return q.ExpiresAt != nil && !time.Now().Before(*q.ExpiresAt)
}

// show streams a run.
func (h *aguiHandlers) show(ctx context.Context, in *runInput, at chatfeed.Answer, e runEncoder) (*huma.StreamResponse, error) {
	return h.streamAs(ctx, wire{}, in.ThreadID, at, e)
}

// answers returns what the client says about calls.
func (in *runInput) answers() ([]callAnswer, error) {
	var out []callAnswer
	for i, entry := range in.Resume {
		at := fmt.Sprintf("resume[%d].", i)
		approved := entry.Payload.Approved
		switch {
		case entry.Status != resolved && entry.Status != cancelled:
			return nil, refuse(http.StatusUnprocessableEntity, at+"status", fmt.Sprintf("%.32q is neither %s nor %s", entry.Status, resolved, cancelled))
		case entry.Status == resolved && approved == nil && entry.Payload.Action == "" && entry.Payload.Answers == nil:
			return nil, refuse(http.StatusUnprocessableEntity, at+"payload.approved", "is required with the status resolved")
		case entry.Status == cancelled && approved != nil && *approved:
			return nil, refuse(http.StatusUnprocessableEntity, at+"payload.approved", "is true, but the status cancelled denies")
		}
		d := &signals.Decide{Decision: event.DecisionDeny, Reason: entry.Payload.Reason}
		switch {
		case entry.Status == resolved && approved == nil:
			d = nil // an answer to a request for input
		case approved != nil && *approved:
			d.Decision, d.Scope, d.Pattern, d.Args = event.DecisionApprove, entry.Payload.Scope, entry.Payload.Pattern, entry.Payload.EditedArgs
		}
		input := entry.Payload.inputPayload
		if entry.Status == cancelled {
			input = inputPayload{Action: event.InputCancel}
		}
		out = append(out, callAnswer{id: entry.InterruptID, decision: d, input: &input})
	}
	for _, m := range in.Messages {
		if m.Role != "tool" {
			continue
		}
		content, err := m.text()
		if err != nil {
			return nil, err
		}
		result := &signals.ToolResult{Output: content}
		if m.Error != "" {
			result.Output, result.IsError = m.Error, true
		}
		out = append(out, callAnswer{id: m.ToolCallID, result: result})
	}
	return out, nil
}

// maxRunContext is the maximum size of the context of a run, in bytes.
const maxRunContext = 64 << 10

// metadata returns the metadata of the message that a run posts. A run that is repeated has the context that its
// message came with: the page may have changed, and the same message with another context would be another one.
func (in *runInput) metadata(known *event.Record) (map[string]any, error) {
	if known != nil {
		var m event.Message
		_ = json.Unmarshal(known.Payload, &m) // the thread refuses the id of another record
		return m.Metadata, nil
	}
	size := 0
	for _, e := range in.Context {
		size += len(e.Description) + len(e.Value)
	}
	switch {
	case size > maxRunContext:
		return nil, refuse(http.StatusRequestEntityTooLarge, "context", fmt.Sprintf("is too large: %d bytes, at most %d", size, maxRunContext))
	case len(in.Context) == 0:
		return nil, nil
	}
	return map[string]any{event.MetadataContext: in.Context}, nil
}

// start posts a message of the user. known is its record, if the thread has it.
func (h *aguiHandlers) start(ctx context.Context, in *runInput, m runMessage, known *event.Record) (*huma.StreamResponse, error) {
	open, err := h.interrupt(ctx, in, m.ID)
	if err != nil {
		return nil, err
	}
	if open != "" {
		e := in.encoder()
		return wire{}.whole(append(e.Begin(), e.Fail(open+" with resume, or say in forwardedProps.onWaiting what becomes of it")...)), nil
	}
	content, err := m.text()
	if err != nil {
		return nil, err
	}
	metadata, err := in.metadata(known)
	if err != nil {
		return nil, err
	}
	post, err := newPost(ctx, in.ThreadID, "messages.", NewMessage{ID: m.ID, Content: content, Sender: in.Props.Sender, metadata: metadata})
	if err != nil {
		return nil, err
	}
	options := in.Props.PostOptions
	options.Agents = nil
	if err := h.prepare(ctx, in.ThreadID, &post, options); err != nil {
		return nil, err
	}
	at, err := h.post(ctx, in.ThreadID, signals.Start{Agents: in.Props.Agents, Title: in.Props.Title}, post)
	if err != nil {
		return nil, err
	}
	e := in.encoder()
	e.earlier = func(ctx context.Context) (*chat.Chat, error) { return h.before(ctx, in, post.ID) }
	return h.show(ctx, in, chatfeed.Answer{MessageID: post.ID, From: at}, e)
}

// interrupt says which request of a run waits for an answer, if the client does not say what becomes of it
// when there is new input. A message that the thread has is not new.
func (h *aguiHandlers) interrupt(ctx context.Context, in *runInput, messageID string) (string, error) {
	if in.Props.OnWaiting != "" {
		return "", nil
	}
	thread, err := h.store.Thread(ctx, h.key(in.ThreadID))
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && thread.Activity != store.ActivityWaiting:
		return "", nil
	case err != nil:
		return "", err
	}
	if known, err := h.chats.Record(ctx, in.ThreadID, messageID); err != nil || known != nil {
		return "", err
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	waiting, err := h.threads.Approvals(within, in.ThreadID)
	if err != nil {
		return "", err
	}
	type request struct{ id, does string }
	var requests []request
	for _, q := range slices.DeleteFunc(waiting.Approvals, expired) {
		requests = append(requests, request{chat.ApprovalID(&q), fmt.Sprintf("%s waits for a decision on its call of %s", q.Agent, q.ToolName)})
	}
	for _, q := range waiting.Inputs {
		requests = append(requests, request{aisdk.InputID(q), fmt.Sprintf("the tool %s of %s waits for input", q.ToolName, q.Agent)})
	}
	for _, q := range requests {
		// A sub-agent in the background belongs to no turn, so no run has interrupted for it.
		turn, err := h.chats.TurnOf(ctx, in.ThreadID, q.id)
		if err != nil || turn != nil {
			return fmt.Sprintf("%s: answer the interrupt %s", q.does, q.id), err
		}
	}
	return "", nil
}

// text returns the text of a message.
func (m runMessage) text() (string, error) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := event.DecodeJSON("content", m.Content, &parts); err != nil {
		return "", refuse(http.StatusUnprocessableEntity, "messages.content", "is neither text nor parts: "+err.Error())
	}
	for _, p := range parts {
		if p.Type != "text" {
			return "", refuse(http.StatusUnprocessableEntity, "messages.content", "has a part of type "+p.Type+": threads take text")
		}
		text += p.Text
	}
	return text, nil
}

// connect sends the messages of the thread, and goes on with the turn in progress.
func (h *aguiHandlers) connect(ctx context.Context, in *runInput) (*huma.StreamResponse, error) {
	thread, err := h.thread(ctx, in.ThreadID)
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(in.Props.Limit, connectLimit)
	if limit < 0 || limit > maxChatPage {
		return nil, refuse(http.StatusUnprocessableEntity, "forwardedProps.limit", fmt.Sprintf("must be from 1 to %d", maxChatPage))
	}
	at, err := h.chats.InProgress(ctx, in.ThreadID)
	if err != nil {
		return nil, err
	}
	page, err := h.page(ctx, in.ThreadID, ChatPageQuery{Limit: limit})
	if err != nil {
		return nil, err
	}
	list, told := agui.Snapshot(&page.Chat)
	snapshots, held := agui.Replace(in.held(), list)
	// A client that has a message has been told what belongs to it, wherever the connection is cut.
	before := append([]agui.Event{{Type: "STATE_SNAPSHOT", Snapshot: map[string]any{"thread": thread, "previous": page.Previous}}}, told...)
	before = append(before, snapshots...)
	cfg := in.config(held)
	cfg.Connects, cfg.Told = true, told
	e := runEncoder{Encoder: agui.New(cfg), before: before}
	if at == nil {
		return wire{}.whole(append(e.Begin(), anys(e.Empty())...)), nil
	}
	return h.show(ctx, in, *at, e)
}

// connectLimit is the default number of messages in a snapshot.
const connectLimit = 50
