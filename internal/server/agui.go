package server

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/uistream"
	"github.com/threadmill/threadmill/internal/uistream/agui"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// aguiHandlers serve threads to frontends of AG-UI. A run is a turn, or what follows a decision.
type aguiHandlers struct{ *chatHandlers }

// runInput is the RunAgentInput of AG-UI. Clients may add fields.
type runInput struct {
	ThreadID string        `json:"threadId" doc:"The thread, which is opened if it does not exist"`
	RunID    string        `json:"runId" doc:"The run; the events repeat it"`
	Messages []runMessage  `json:"messages,omitempty" doc:"The client's messages. The last one is posted if it is the user's; results of calls that wait for the client are taken. The client does not get again what is in them"`
	Resume   []resumeEntry `json:"resume,omitempty" doc:"Answers to interrupts"`
	Props    runProps      `json:"forwardedProps,omitempty" doc:"Options of the post"`
}

type runProps struct {
	Agents []string `json:"agents,omitempty" doc:"The agents of a new thread. Default: the default agent"`
	Sender string   `json:"sender,omitempty" doc:"Who writes or decides, without API keys. Default: user"`
	PostOptions
}

type runMessage struct {
	ID         string          `json:"id" doc:"Idempotency key of a message of the user"`
	Role       string          `json:"role" doc:"user, assistant, tool and others"`
	Content    json.RawMessage `json:"content,omitempty" doc:"Text, or parts of which the texts count"`
	ToolCallID string          `json:"toolCallId,omitempty" doc:"Of a result: the call"`
	Error      string          `json:"error,omitempty" doc:"Of a result: why the call failed"`
	ToolCalls  []struct {
		ID string `json:"id" doc:"The call"`
	} `json:"toolCalls,omitempty" doc:"Of an assistant message"`
}

type resumeEntry struct {
	InterruptID string        `json:"interruptId" doc:"The interrupt: the tool call"`
	Status      string        `json:"status" enum:"resolved,cancelled" doc:"cancelled denies"`
	Payload     resumePayload `json:"payload,omitempty" doc:"The decision"`
}

type resumePayload struct {
	Approved   bool              `json:"approved" doc:"Whether the call may run"`
	Reason     string            `json:"reason,omitempty" doc:"Why; the agent is told of a denial"`
	EditedArgs json.RawMessage   `json:"editedArgs,omitempty" doc:"The arguments that run instead"`
	Scope      event.Scope       `json:"scope,omitempty" doc:"once, session or pattern. Default: once"`
	Pattern    map[string]string `json:"pattern,omitempty" doc:"With scope pattern: globs by argument"`
}

func (h *aguiHandlers) registerAGUI() {
	registry := h.api.OpenAPI().Components.Schemas
	events := map[string]*huma.Response{"200": {Description: "The events of a run", Content: map[string]*huma.MediaType{typeSSE: {Schema: &huma.Schema{Type: huma.TypeString}}}}}
	body := &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{typeJSON: {Schema: registry.Schema(reflect.TypeFor[runInput](), true, "RunInput")}}}
	for path, op := range map[string]huma.Operation{
		"/v1/ag-ui": {
			OperationID: "chatRun", Summary: "Run a thread from AG-UI",
			Description: "Posts the last message of the user, or takes decisions and results, and responds with the events of the run. Errors are text.",
		},
		"/v1/ag-ui/connect": {
			OperationID: "chatConnect", Summary: "Connect AG-UI to a thread",
			Description: "A snapshot of the thread's messages, and the run in progress, if there is one. Errors are text.",
		},
	} {
		handler, role := h.run, auth.RolePost
		if op.OperationID == "chatConnect" {
			handler, role = h.connect, auth.RoleRead
		}
		op.Method, op.Path, op.Tags, op.SkipValidateBody = http.MethodPost, path, []string{"chat"}, true
		op.Responses, op.Errors = map[string]*huma.Response{"200": events["200"]}, []int{400, 404, 409, 413, 415, 422, 429, 503}
		register(h.core, role, op, func(ctx context.Context, in *chatInput) (*huma.StreamResponse, error) {
			var input runInput
			if problem := in.decode(&input); problem != nil {
				return textOf(h.problem(ctx, "", problem)), nil
			}
			if err := checkID("threadId", input.ThreadID, signals.ValidateID); err != nil {
				return textOf(h.problem(ctx, "", err)), nil
			}
			out, err := handler(ctx, &input)
			if err != nil {
				return textOf(h.problem(ctx, input.ThreadID, err)), nil
			}
			return out, nil
		})
		h.api.OpenAPI().Paths[path].Post.RequestBody = body
		to := h.access.routes["POST "+path]
		to.refuse = writeText
		h.access.routes["POST "+path] = to
	}
}

// wire is the form of a run.
func (in *runInput) wire(known map[string]bool, before ...agui.Event) wire {
	run := agui.NewRun(in.ThreadID, in.RunID, known)
	return wire{encode: func(c uistream.Chunk) []any {
		var out []any
		for _, e := range run.Events(c) {
			out = append(out, e)
			if e.Type == "RUN_STARTED" {
				for _, more := range before {
					out = append(out, more)
				}
			}
		}
		return out
	}}
}

// known are the messages and tool calls that the client has.
func (in *runInput) known() map[string]bool {
	known := map[string]bool{}
	for _, m := range in.Messages {
		known[m.ID] = true
		if m.ToolCallID != "" {
			known[agui.ResultID(m.ToolCallID)] = true
		}
		for _, c := range m.ToolCalls {
			known[c.ID] = true
		}
	}
	return known
}

func (h *aguiHandlers) run(ctx context.Context, in *runInput) (*huma.StreamResponse, error) {
	if err := needs(ctx, auth.RoleRead, "the stream"); err != nil {
		return nil, err
	}
	if n := len(in.Messages); n > 0 && in.Messages[n-1].Role == "user" && len(in.Resume) == 0 {
		return h.start(ctx, in, in.Messages[n-1])
	}
	thread, err := h.store.Thread(ctx, h.key(in.ThreadID))
	if err != nil {
		return nil, err
	}
	record, settled, err := h.answerCalls(ctx, in)
	if err != nil {
		return nil, err
	}
	if record == nil {
		return nil, refuse(http.StatusUnprocessableEntity, "messages", "has nothing new: end with a message of the user, answer a call that waits for the client, or resume an interrupt")
	}
	at, err := h.lastIn(ctx, in.ThreadID, record)
	if err != nil {
		return nil, err
	}
	at.settled, at.before = settled, thread.Head
	return h.streamAs(ctx, in.wire(in.known()), in.ThreadID, nil, at)
}

// start posts a message of the user.
func (h *aguiHandlers) start(ctx context.Context, in *runInput, m runMessage) (*huma.StreamResponse, error) {
	content, err := m.text()
	if err != nil {
		return nil, err
	}
	post, err := newPost(ctx, in.ThreadID, "messages.", NewMessage{ID: m.ID, Content: content, Sender: in.Props.Sender})
	if err != nil {
		return nil, err
	}
	options := in.Props.PostOptions
	options.Agents = nil
	if err := h.prepare(ctx, in.ThreadID, &post, options); err != nil {
		return nil, err
	}
	at, err := h.post(ctx, in.ThreadID, in.Props.Agents, post)
	if err != nil {
		return nil, err
	}
	return h.streamAs(ctx, in.wire(in.known()), in.ThreadID, nil, answer{messageID: post.ID, from: at})
}

// text returns the text of a message.
func (m runMessage) text() (string, error) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text, nil
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(m.Content, &parts) != nil {
		return "", refuse(http.StatusUnprocessableEntity, "messages.content", "is neither text nor parts")
	}
	for _, p := range parts {
		if p.Type != "text" {
			return "", refuse(http.StatusUnprocessableEntity, "messages.content", "has a part of type "+p.Type+": threads take text")
		}
		text += p.Text
	}
	return text, nil
}

// answerCalls takes decisions and results. It returns the first record of the turn that goes on, and
// the calls that it settled: what is repeated, or was decided elsewhere, changes nothing.
func (h *aguiHandlers) answerCalls(ctx context.Context, in *runInput) (turn *event.Record, settled []string, err error) {
	by, err := actor(ctx, "sender", in.Props.Sender, byAPI)
	if err != nil {
		return nil, nil, err
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	waiting, err := h.threads.Approvals(within, in.ThreadID)
	if err != nil {
		return nil, nil, err
	}
	call := ""
	for _, entry := range in.Resume {
		call = entry.InterruptID
		for _, r := range waiting.Approvals {
			if r.ToolCallID == entry.InterruptID {
				if err := h.decideEntry(within, in.ThreadID, r, entry, by); err != nil {
					return nil, nil, err
				}
				settled = append(settled, r.ToolCallID)
			}
		}
	}
	for _, m := range in.Messages {
		if m.Role != "tool" {
			continue
		}
		for _, c := range waiting.ClientCalls {
			if c.ToolCallID == m.ToolCallID {
				content, err := m.text()
				if err != nil {
					return nil, nil, err
				}
				result := signals.ToolResult{ToolCallID: c.ToolCallID, Output: content, By: by}
				if m.Error != "" {
					result.Output, result.IsError = m.Error, true
				}
				if _, err := h.threads.ToolResult(within, in.ThreadID, result); err != nil {
					return nil, nil, err
				}
				call, settled = c.ToolCallID, append(settled, c.ToolCallID)
			}
		}
	}
	if call == "" {
		return nil, nil, nil
	}
	turn, err = h.turnOf(ctx, in.ThreadID, call)
	return turn, settled, err
}

// turnOf returns the first record of the turn of a tool call.
func (h *aguiHandlers) turnOf(ctx context.Context, threadID, callID string) (*event.Record, error) {
	records, err := h.store.Records(ctx, h.key(threadID), store.Query{Types: []string{event.TypeApprovalRequest, event.TypeClientCall}, Newest: true, Limit: 1000})
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		var p struct {
			ToolCallID string `json:"toolCallId"`
		}
		if json.Unmarshal(r.Payload, &p) == nil && p.ToolCallID == callID {
			return h.record(ctx, threadID, r.EventID)
		}
	}
	return nil, refuse(http.StatusNotFound, "resume.interruptId", "is no call of this thread")
}

func (h *aguiHandlers) decideEntry(ctx context.Context, threadID string, r event.ApprovalRequest, entry resumeEntry, by string) error {
	if err := needs(ctx, auth.RoleApprove, "a decision"); err != nil {
		return err
	}
	d := signals.Decide{ToolCallID: r.ToolCallID, Decision: event.DecisionDeny, Reason: entry.Payload.Reason, By: by, Round: r.Round}
	if entry.Status == "resolved" && entry.Payload.Approved {
		d.Decision, d.Scope, d.Pattern, d.Args = event.DecisionApprove, entry.Payload.Scope, entry.Payload.Pattern, entry.Payload.EditedArgs
	}
	if err := d.Validate(); err != nil {
		return err
	}
	got, err := h.threads.Decide(ctx, threadID, d)
	return orRefused(err, decisionRefusals, ToolCallPath{ThreadPath{threadID}, r.ToolCallID}, got.Result)
}

// connect sends the messages of the thread, and goes on with the turn in progress.
func (h *aguiHandlers) connect(ctx context.Context, in *runInput) (*huma.StreamResponse, error) {
	if _, err := h.thread(ctx, in.ThreadID); err != nil {
		return nil, err
	}
	page, err := h.feed.Before(ctx, h.key(in.ThreadID), feed.Cursor{}, maxPage)
	if err != nil {
		return nil, err
	}
	snapshot := snapshotOf(in.ThreadID, page.Items)
	list := snapshot.List()
	before := agui.Event{Type: "MESSAGES_SNAPSHOT", Messages: &list}
	known := (&runInput{Messages: messagesOf(list)}).known()
	state, err := query(ctx, h.core, in.ThreadID, h.threads.State)
	if err != nil {
		return nil, err
	}
	if state.Body.Turn != nil {
		record, err := h.record(ctx, in.ThreadID, state.Body.Turn.EventID)
		if err != nil {
			return nil, err
		}
		if record != nil {
			at, err := h.lastIn(ctx, in.ThreadID, record)
			if err != nil {
				return nil, err
			}
			return h.streamAs(ctx, in.wire(known, before), in.ThreadID, nil, at)
		}
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", typeSSE)
		hctx.SetStatus(http.StatusOK)
		w := in.wire(nil, before)
		for _, c := range append(uistream.Begin(uistream.Config{}), uistream.Chunk{Type: "finish"}) {
			for _, e := range w.encode(c) {
				data, err := json.Marshal(e)
				if err != nil {
					return
				}
				_, _ = hctx.BodyWriter().Write([]byte("data: " + string(data) + "\n\n")) // the client may have gone
			}
		}
	}}, nil
}

// maxPage is the number of records that a snapshot is made of.
const maxPage = 1000

// snapshotOf returns the messages of a thread.
func snapshotOf(threadID string, items []feed.Item) *agui.Messages {
	out := &agui.Messages{}
	type open struct {
		turn *uistream.Turn
		run  *agui.Run
	}
	turns := map[string]open{}
	for _, item := range items {
		e := item.Event
		if e.EventID == "" {
			continue
		}
		if e.Type == event.EventMessage && e.Message.SenderType == event.CreatedByUser && e.Message.ID != e.EventID+".observed" {
			out.Said(e.Message.ID, e.Message.SenderID, e.Message.Content)
		}
		of, known := turns[e.EventID]
		if !known {
			of = open{uistream.NewTurn(uistream.Config{ThreadID: threadID, EventID: e.EventID, MessageID: e.EventID}), agui.NewRun(threadID, "", nil)}
			turns[e.EventID] = of
		}
		for _, c := range of.turn.Apply(e) {
			out.Apply(of.run, c)
		}
	}
	return out
}

func messagesOf(list []*agui.Message) []runMessage {
	out := make([]runMessage, len(list))
	for i, m := range list {
		out[i] = runMessage{ID: m.ID, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			out[i].ToolCalls = append(out[i].ToolCalls, struct {
				ID string `json:"id" doc:"The call"`
			}{c.ID})
		}
	}
	return out
}
