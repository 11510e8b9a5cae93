package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// Approval is what was decided on a call: an [event.Approval] with the words that describe
// it in the API.
type Approval struct {
	ToolCallID       string            `json:"toolCallId"`
	ToolName         string            `json:"toolName"`
	Agent            string            `json:"agent" doc:"Whose call it is"`
	Decision         event.Decision    `json:"decision" enum:"approve,deny,expired,revoked" doc:"expired: nobody has decided in time. revoked: the approval, and what it grants, holds no more"`
	Scope            event.Scope       `json:"scope" enum:"once,session,pattern"`
	Reason           string            `json:"reason,omitempty"`
	By               string            `json:"by" doc:"Who decided, as the client said it"`
	DecidedAt        time.Time         `json:"decidedAt"`
	Digest           string            `json:"digest,omitempty" doc:"Of what was decided on: tool, arguments, working directory"`
	Definition       string            `json:"definition,omitempty" doc:"Digest of the tool's definition"`
	WorkingDirectory string            `json:"workingDirectory,omitempty"`
	Round            int               `json:"round,omitempty" doc:"That of the request, if the call was asked about more than once"`
	Arguments        string            `json:"arguments,omitempty" doc:"If set, they were to run in the place of the call's own"`
	Pattern          map[string]string `json:"pattern,omitempty" doc:"Of scope pattern: globs by the names of arguments"`
	Rest             string            `json:"rest,omitempty" doc:"Of scope pattern: digest of tool, working directory and all other arguments"`
	ThreadID         string            `json:"threadId,omitempty" doc:"The sub-agent's thread, where it holds, if it is a sub-agent's call"`
	Grant            string            `json:"grant,omitempty" doc:"The grant that covers the call, if nobody was asked"`
	Missing          int               `json:"missing,omitempty" doc:"One of several approvals that the call needs: how many were missing then"`
	Votes            []event.Vote      `json:"votes,omitempty" doc:"All of them, once none was missing"`
}

// Decision is an approval with its place in the thread.
type Decision struct {
	Seq int64 `json:"seq"`
	Approval
}

type decisionsInput struct {
	ThreadPath
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
	Cursor string `query:"cursor" doc:"The next of the page before"`
}

type decisionsOutput struct {
	Body struct {
		Decisions []Decision `json:"decisions" nullable:"false"`
		Next      string     `json:"next,omitempty" doc:"The cursor of the next page, if there is one"`
	}
}

func (s *server) registerDecisions() {
	register(s, auth.Read, huma.Operation{
		OperationID: "listDecisions", Method: http.MethodGet, Path: "/v1/threads/{id}/decisions", Tags: []string{"approvals"},
		Summary:     "List all that was decided on tool calls, the oldest first",
		Description: "Who decided what, when, how far it reaches, and the digest of what was decided on; with votes, expired requests, revoked approvals, and calls that a grant has let through.",
		Errors:      []int{404, 503},
	}, s.listDecisions)
}

func (s *server) listDecisions(ctx context.Context, in *decisionsInput) (*decisionsOutput, error) {
	after, err := behind(in.Cursor)
	if err != nil {
		return nil, err
	}
	if _, err := s.thread(ctx, in.ID); err != nil {
		return nil, err
	}
	records, err := s.Store.Records(ctx, s.key(in.ID), store.Query{After: after, Types: []string{event.TypeApproval}, Limit: in.Limit + 1})
	if err != nil {
		return nil, s.problem(ctx, in.ID, err)
	}
	out := &decisionsOutput{}
	if len(records) > in.Limit {
		records = records[:in.Limit]
		out.Body.Next = strconv.FormatInt(records[in.Limit-1].Seq, 10)
	}
	out.Body.Decisions = make([]Decision, 0, len(records))
	for _, r := range records {
		var a event.Approval
		if err := json.Unmarshal(r.Payload, &a); err != nil {
			s.Logger.Warn("a decision cannot be read, and is left out", "thread", in.ID, "record", r.ID, "error", err)
			continue
		}
		out.Body.Decisions = append(out.Body.Decisions, Decision{r.Seq, Approval(a)})
	}
	return out, nil
}
