package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/chat"
	"github.com/threadmill/threadmill/internal/chat/aisdk"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// answers returns what the message says about calls. What the person saw of a call has to be what is
// stored.
func (m chatMessage) answers() ([]callAnswer, error) {
	var out []callAnswer
	for i, p := range m.Parts {
		a := callAnswer{id: p.ToolCallID}
		switch {
		case p.State == "approval-responded" && p.Approval != nil && p.Approval.Approved != nil:
			if len(p.Input) == 0 || string(p.Input) == "null" {
				return nil, refuse(http.StatusUnprocessableEntity, fmt.Sprintf("messages.parts[%d].input", i), "is required with a decision: the arguments that the person saw")
			}
			a.id = cmp.Or(p.Approval.ID, p.ToolCallID)
			a.decision = &signals.Decide{Decision: event.DecisionDeny, Reason: p.Approval.Reason, ToolArgs: p.Input}
			if *p.Approval.Approved {
				a.decision.Decision = event.DecisionApprove
			}
		case p.State == "output-available":
			a.result = &signals.ToolResult{Output: outputText(p.Output)}
			a.input = &inputPayload{}
			_ = event.DecodeJSON("output", p.Output, a.input) // an output of a tool may have any form
		case p.State == "output-error":
			a.result = &signals.ToolResult{Output: p.ErrorText, IsError: true}
			a.input = &inputPayload{Action: event.InputCancel}
		default:
			continue
		}
		out = append(out, a)
	}
	return out, nil
}

// callAnswer is what a client says about a call: a decision, or the result of a tool that it runs.
type callAnswer struct {
	// id is that of the request of a decision, see [chat.ApprovalID], or that of a call.
	id       string
	decision *signals.Decide
	result   *signals.ToolResult

	// input is the answer if the call waits for input, and then neither decision nor result.
	input *inputPayload
}

// inputPayload is a client's answer to a request for input: to its only question, or to each, by id.
type inputPayload struct {
	Action  event.InputAction            `json:"action,omitempty" enum:"accept,decline,cancel" doc:"Of an answer to a request for input with one question, or to all of them alike"`
	Content json.RawMessage              `json:"content,omitempty" doc:"With the action accept: the values"`
	Answers map[string]event.InputAnswer `json:"answers,omitempty" doc:"Of an answer to several questions: an answer for each, by its id"`
}

// answers returns the answer to each question.
func (p inputPayload) answers(q event.InputRequest) map[string]event.InputAnswer {
	if p.Answers != nil {
		return p.Answers
	}
	out := map[string]event.InputAnswer{}
	for _, question := range q.Questions {
		out[question.ID] = event.InputAnswer{Action: p.Action, Content: p.Content}
	}
	return out
}

// settle takes the answers to calls that wait for them, and returns those calls. Answers to others
// are repeated, or late, and change nothing.
func (h *chatHandlers) settle(ctx context.Context, threadID, sender string, answers []callAnswer) (settled []string, err error) {
	within, cancel := h.answer(ctx)
	defer cancel()
	waiting, err := h.threads.Approvals(within, threadID)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		taken := false
		var asked *event.InputRequest
		if a.input != nil {
			if asked, err = h.asked(within, threadID, waiting, a.id); err != nil {
				return nil, err
			}
		}
		switch {
		case asked != nil:
			a.id, taken = asked.ToolCallID, true
			err = h.answerInput(within, threadID, sender, *asked, *a.input)
		case a.decision != nil:
			request, open, problem := h.requested(within, threadID, waiting, a.id)
			if problem != nil || !open {
				err = problem
				break
			}
			a.id, a.decision.Round = request.ToolCallID, request.Round
			taken, err = h.decide(within, threadID, sender, a)
		case a.result != nil:
			open := slices.ContainsFunc(waiting.ClientCalls, func(c event.ClientCall) bool { return c.ToolCallID == a.id })
			if !open {
				open, err = h.open(within, threadID, recordid.ClientCall(a.id), recordid.Result(a.id))
			}
			if !open || err != nil {
				break
			}
			a.result.ToolCallID, taken = a.id, true
			if a.result.By, err = actor(ctx, "sender", sender, byAPI); err != nil {
				return nil, err
			}
			if len(a.result.Output) > signals.MaxPayload {
				return nil, tooLarge("messages", len(a.result.Output))
			}
			_, err = h.threads.ToolResult(within, threadID, *a.result)
			if _, late := errors.AsType[*signals.DecisionError](err); late { // a client that loads a conversation sends it whole
				err = nil
			}
		}
		if err != nil {
			return nil, err
		}
		if taken {
			settled = append(settled, a.id)
		}
	}
	return settled, nil
}

// asked returns the open request for input with an id, or nil. The thread learns of a request a moment
// after people see it: until then, it is open if the store has it and no answer.
func (h *chatHandlers) asked(ctx context.Context, threadID string, waiting signals.Approvals, id string) (*event.InputRequest, error) {
	for _, q := range waiting.Inputs {
		if aisdk.InputID(q) == id {
			return &q, nil
		}
	}
	record, err := h.chats.Record(ctx, threadID, id)
	if err != nil || record == nil || record.Type != event.TypeInputRequest {
		return nil, err
	}
	var q event.InputRequest
	if err := json.Unmarshal(record.Payload, &q); err != nil {
		return nil, err
	}
	open, err := h.open(ctx, threadID, id, recordid.InputReceived(q.ToolCallID, q.Round), recordid.Result(q.ToolCallID))
	if err != nil || !open {
		return nil, err
	}
	return &q, nil
}

// requested is [chatHandlers.asked] for approval requests.
func (h *chatHandlers) requested(ctx context.Context, threadID string, waiting signals.Approvals, id string) (q event.ApprovalRequest, open bool, err error) {
	for _, q := range waiting.Approvals {
		if chat.ApprovalID(&q) == id {
			return q, true, nil
		}
	}
	q.ToolCallID, q.Round = event.ParseApprovalCallID(id)
	open, err = h.open(ctx, threadID, recordid.Request(q), recordid.Decision(q.ToolCallID, q.Round), recordid.Result(q.ToolCallID))
	return q, open, err
}

// open reports whether a call waits, by the records of its request and of what ends it.
func (h *chatHandlers) open(ctx context.Context, threadID string, ids ...string) (bool, error) {
	records, err := h.store.RecordsByID(ctx, h.key(threadID), ids...)
	return len(feed.Calls(records).Waiting()) > 0, err
}

func (h *chatHandlers) answerInput(ctx context.Context, threadID, sender string, q event.InputRequest, p inputPayload) error {
	a := signals.InputAnswers{ToolCallID: q.ToolCallID, Round: q.Round, Answers: p.answers(q)}
	var err error
	if a.By, err = actor(ctx, "sender", sender, byAPI); err != nil {
		return err
	}
	got, err := h.sendInput(ctx, h.threads, threadID, a)
	return orRefused(err, inputRefusals, ToolCallPath{ThreadPath{threadID}, q.ToolCallID}, got)
}

// decide reports whether a decision is taken: somebody else may be faster.
func (h *chatHandlers) decide(ctx context.Context, threadID, sender string, a callAnswer) (taken bool, err error) {
	if err := needs(ctx, auth.RoleApprove, "a decision"); err != nil {
		return false, err
	}
	a.decision.ToolCallID = a.id
	if a.decision.By, err = person(ctx, "sender", sender); err != nil {
		return false, err
	}
	if err := a.decision.Validate(); err != nil {
		return false, err
	}
	got, err := h.threads.Decide(ctx, threadID, *a.decision)
	if got.Result == signals.DecideConflict {
		waiting, err := h.threads.Approvals(ctx, threadID)
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(waiting.Approvals, func(q event.ApprovalRequest) bool { return q.ToolCallID == a.id }) {
			return false, nil
		}
	}
	return true, orRefused(err, decisionRefusals, ToolCallPath{ThreadPath{threadID}, a.id}, got.Result)
}
