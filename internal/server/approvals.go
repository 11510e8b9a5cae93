package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// ApprovalRequest is a tool call that waits for people: an [event.ApprovalRequest] with the
// words that describe it in the API.
type ApprovalRequest struct {
	ToolCallID       string       `json:"toolCallId"`
	ToolName         string       `json:"toolName"`
	Arguments        string       `json:"arguments" doc:"The raw JSON of the stored call. Over 16 KiB they are cut, and say so; the thread's events have them whole"`
	Agent            string       `json:"agent" doc:"Whose call it is"`
	MessageID        string       `json:"messageId,omitempty" doc:"The reply that holds the call"`
	WorkingDirectory string       `json:"workingDirectory,omitempty" doc:"Where the call would work, if that is known"`
	Digest           string       `json:"digest,omitempty" doc:"Of what is to be approved: tool, arguments, working directory"`
	Definition       string       `json:"definition,omitempty" doc:"Digest of the tool's definition at that time"`
	Reason           string       `json:"reason,omitempty" doc:"Why people are asked"`
	RequestedAt      time.Time    `json:"requestedAt"`
	Round            int          `json:"round,omitempty" doc:"How often the call was asked about, if more than once: an approval did not hold any more when it was to run. A decision has to name it"`
	Approvers        []string     `json:"approvers,omitempty" doc:"The only ones who may decide. Left out: anybody"`
	Quorum           int          `json:"quorum,omitempty" doc:"How many have to approve, if more than one. One denial denies"`
	Votes            []event.Vote `json:"votes,omitempty" doc:"Those who have approved so far"`
	ExpiresAt        *time.Time   `json:"expiresAt,omitempty" doc:"When the request ends without a decision. Left out: never"`
	Reminder         int          `json:"reminder,omitempty" doc:"How often people were reminded"`
}

// ClientCall is a tool call that waits for a connected client: an [event.ClientCall] with the
// words that describe it in the API.
type ClientCall struct {
	ToolCallID  string    `json:"toolCallId"`
	ToolName    string    `json:"toolName"`
	Arguments   string    `json:"arguments" doc:"The raw JSON of the stored call"`
	Agent       string    `json:"agent" doc:"Whose call it is"`
	MessageID   string    `json:"messageId,omitempty" doc:"The reply that holds the call"`
	RequestedAt time.Time `json:"requestedAt"`
	ExpiresAt   time.Time `json:"expiresAt" doc:"When the call fails if no client has answered"`
}

type approvalsOutput struct {
	Body struct {
		Approvals   []ApprovalRequest `json:"approvals" nullable:"false" doc:"Those that wait for people"`
		ClientCalls []ClientCall      `json:"clientCalls" nullable:"false" doc:"Those that wait for a connected client to run them"`
	}
}

// WaitingApproval is a call that waits, and the thread in which it does.
type WaitingApproval struct {
	ThreadID string          `json:"threadId" doc:"Where it can be decided on. Of a sub-agent's call: the thread for which it works"`
	Title    string          `json:"title,omitempty" doc:"The thread's"`
	Request  ApprovalRequest `json:"request"`
}

// WaitingCall is a call for a client, and the thread in which it waits.
type WaitingCall struct {
	ThreadID string     `json:"threadId" doc:"Where it can be answered"`
	Title    string     `json:"title,omitempty" doc:"The thread's"`
	Call     ClientCall `json:"call"`
}

type allApprovalsInput struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many threads are asked, the newest of those that wait"`
}

type allApprovalsOutput struct {
	Body struct {
		Approvals   []WaitingApproval `json:"approvals" nullable:"false" doc:"Those that wait for people, the longest first"`
		ClientCalls []WaitingCall     `json:"clientCalls" nullable:"false" doc:"Those that wait for a connected client, in threads that wait for people too"`
		Unanswered  []string          `json:"unanswered,omitempty" doc:"Threads that wait, but did not answer in time"`
		More        bool              `json:"more,omitempty" doc:"There are more threads that wait than were asked"`
	}
}

// ToolCallPath is the input of operations on one tool call.
type ToolCallPath struct {
	ThreadPath
	ToolCallID string `path:"toolCallId" doc:"The tool call's id"`
}

type decideInput struct {
	ToolCallPath
	Body decideBody
}

// decideBody is the body of POST /v1/threads/{id}/approvals/{toolCallId}.
type decideBody struct {
	Decision string `json:"decision" enum:"approve,deny"`
	Scope    string `json:"scope,omitempty" enum:"once,session,pattern" doc:"How far an approval reaches: this call; the same call again, by the same agent in this thread; or those that fit the pattern. Default: once"`
	Reason   string `json:"reason,omitempty" maxLength:"4096" doc:"Of a denial: the agent is told"`
	By       string `json:"by,omitempty" maxLength:"200" doc:"Who decides; it is kept. The name of the API key, or without one as the client says it. Default: api"`

	Args    json.RawMessage   `json:"args,omitempty" doc:"An object: the arguments that are to run in the place of the call's own. They are checked like those, and kept beside them. With scope once only"`
	Pattern map[string]string `json:"pattern,omitempty" doc:"Of scope pattern: globs by the names of arguments. All other arguments are granted as they are"`
	Round   int               `json:"round,omitempty" minimum:"0" doc:"That of the request, if it has one"`

	Agent            string          `json:"agent,omitempty" doc:"If given, the call must be this agent's"`
	ToolName         string          `json:"toolName,omitempty" doc:"If given, the call must be of this tool"`
	ToolArgs         json.RawMessage `json:"toolArgs,omitempty" doc:"If given, the call's arguments must be these: an object, or the text of the request. They never replace them"`
	WorkingDirectory string          `json:"workingDirectory,omitempty" doc:"If given, the call must work there"`
	Digest           string          `json:"digest,omitempty" doc:"If given, the request's digest must be this"`
}

type decideOutput struct {
	Body struct {
		Result  string `json:"result" enum:"accepted,already_resolved"`
		Missing int    `json:"missing,omitempty" doc:"How many more have to approve: the call still waits"`
	}
}

// resultOutput says what became of what was said about a tool call.
type resultOutput struct {
	Body struct {
		Result string `json:"result" enum:"accepted,already_resolved"`
	}
}

func resulted(result signals.DecideOutcome) *resultOutput {
	out := &resultOutput{}
	out.Body.Result = string(result)
	return out
}

func (s *server) registerApprovals() {
	tags := []string{"approvals"}
	register(s, auth.Read, huma.Operation{
		OperationID: "listAllApprovals", Method: http.MethodGet, Path: "/v1/approvals", Tags: tags,
		Summary: "List the tool calls that wait for a decision, of all threads",
		Description: "Threads that began to wait this moment may be missing. A call of a sub-agent is listed once, " +
			"in the thread for which it works. Threads are asked themselves, so it needs a worker that runs.",
		Errors: []int{503},
	}, s.listAllApprovals)
	register(s, auth.Read, huma.Operation{
		OperationID: "listApprovals", Method: http.MethodGet, Path: "/v1/threads/{id}/approvals", Tags: tags,
		Summary: "List the tool calls that wait for a decision, or for a client", Errors: []int{404, 503},
	}, s.listApprovals)
	register(s, auth.Approve, huma.Operation{
		OperationID: "decide", Method: http.MethodPost, Path: "/v1/threads/{id}/approvals/{toolCallId}", Tags: tags,
		Summary: "Approve or deny a tool call",
		Description: "Deciding the same again is already_resolved. A call that was settled otherwise, or is not the one that " +
			"the request describes, is a 409; one on which this person may not decide is a 403. The problem document then has " +
			"result: conflict, mismatch or not_allowed. by is the name of the API key, or without one what the client says.",
		Errors: []int{400, 403, 404, 409, 413, 503},
	}, s.decide)
}

func (s *server) listAllApprovals(ctx context.Context, in *allApprovalsInput) (*allApprovalsOutput, error) {
	within, cancel := s.answer(ctx)
	defer cancel()
	waiting, err := s.Threads.ListApprovals(within, threadclient.ApprovalsQuery{Limit: in.Limit})
	if err != nil {
		return nil, s.problem(ctx, "", err)
	}
	out := &allApprovalsOutput{}
	out.Body.Approvals = make([]WaitingApproval, 0, len(waiting.Approvals))
	for _, w := range waiting.Approvals {
		out.Body.Approvals = append(out.Body.Approvals, WaitingApproval{w.ThreadID, w.Title, ApprovalRequest(w.Request)})
	}
	out.Body.ClientCalls = make([]WaitingCall, 0, len(waiting.ClientCalls))
	for _, w := range waiting.ClientCalls {
		out.Body.ClientCalls = append(out.Body.ClientCalls, WaitingCall{w.ThreadID, w.Title, ClientCall(w.Call)})
	}
	out.Body.Unanswered, out.Body.More = waiting.Unanswered, waiting.More
	return out, nil
}

func (s *server) listApprovals(ctx context.Context, in *ThreadPath) (*approvalsOutput, error) {
	within, cancel := s.answer(ctx)
	defer cancel()
	list, err := s.Threads.Approvals(within, in.ID)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	out := &approvalsOutput{}
	out.Body.Approvals = make([]ApprovalRequest, 0, len(list.Approvals))
	for _, r := range list.Approvals {
		out.Body.Approvals = append(out.Body.Approvals, ApprovalRequest(r))
	}
	out.Body.ClientCalls = make([]ClientCall, 0, len(list.ClientCalls))
	for _, c := range list.ClientCalls {
		out.Body.ClientCalls = append(out.Body.ClientCalls, ClientCall(c))
	}
	return out, nil
}

func (s *server) decide(ctx context.Context, in *decideInput) (*decideOutput, error) {
	d, err := in.decision(ctx)
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	within, cancel := s.answer(ctx)
	defer cancel()
	got, err := s.Threads.DecideResult(within, in.ID, d)
	if err == nil {
		err = refusedDecision(in.ToolCallPath, got.Result)
	}
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	out := &decideOutput{}
	out.Body.Result, out.Body.Missing = string(got.Result), got.Missing
	return out, nil
}

// decision is what the thread is told.
func (in *decideInput) decision(ctx context.Context) (signals.Decide, error) {
	b := in.Body
	by, err := actor(ctx, "body.by", b.By, byAPI)
	if err != nil {
		return signals.Decide{}, err
	}
	d := signals.Decide{
		ToolCallID: in.ToolCallID, Decision: event.Decision(b.Decision), Scope: event.Scope(b.Scope), Reason: b.Reason, By: by,
		Args: b.Args, Pattern: b.Pattern, Round: b.Round,
		Agent: b.Agent, ToolName: b.ToolName, WorkingDirectory: b.WorkingDirectory, Digest: b.Digest,
	}
	d.ToolArgs = b.ToolArgs
	var text *string
	if json.Unmarshal(b.ToolArgs, &text) == nil && text != nil { // as the request has them
		d.ToolArgs = json.RawMessage(*text)
	}
	if len(b.ToolArgs) > 0 && (!json.Valid(d.ToolArgs) || string(d.ToolArgs) == "null") {
		return d, &event.FieldError{Field: "toolArgs", Problem: "is not JSON, or null: send the call's arguments as an object, or as the text of the request, or leave it out"}
	}
	return d, signals.CheckDecide(d)
}

// decisionProblem is a problem document that also says what became of what was said about
// a tool call.
type decisionProblem struct {
	huma.ErrorModel
	Result signals.DecideOutcome `json:"result"`
}

// refusedDecision says what was wrong about a decision that changes nothing, or nil.
func refusedDecision(call ToolCallPath, result signals.DecideOutcome) error {
	switch result {
	case signals.Accepted, signals.AlreadyResolved:
		return nil
	case signals.Conflict:
		return decisionRefused(http.StatusConflict, result, "tool call %q was settled otherwise", call.ToolCallID)
	case signals.Mismatch:
		return decisionRefused(http.StatusConflict, result,
			"tool call %q is not the one that the decision describes, by its agent, tool, arguments, working directory, digest or round; look at the request again",
			call.ToolCallID)
	case signals.NotPending:
		return decisionRefused(http.StatusNotFound, result, "no tool call %q waits in thread %q", call.ToolCallID, call.ID)
	case signals.NotAllowed:
		return decisionRefused(http.StatusForbidden, result,
			"this person may not decide on tool call %q: the request names its approvers, and agents of the thread never may", call.ToolCallID)
	}
	return unknownOutcome(call, result)
}

func decisionRefused(status int, result signals.DecideOutcome, format string, args ...any) error {
	detail := fmt.Sprintf(format, args...)
	return &decisionProblem{huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail}, result}
}

func unknownOutcome(call ToolCallPath, result signals.DecideOutcome) error {
	return fmt.Errorf("tool call %q of thread %q: unknown result %q", call.ToolCallID, call.ID, result)
}
