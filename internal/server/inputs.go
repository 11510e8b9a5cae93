package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tool"
)

type answerInputInput struct {
	ToolCallPath
	Body struct {
		signals.InputAnswers
		ToolCallID string `json:"-"`
	}
}

func (h *approvalHandlers) registerInputs() {
	register(h.core, auth.RolePost, huma.Operation{
		OperationID: "answerInput", Method: http.MethodPost, Path: "/v1/threads/{id}/tool-calls/{toolCallId}/input", Tags: []string{"approvals"},
		Summary: "Answer a tool call that asks for input",
		Description: "Answers all questions of the request. The answer counts once: sending it again is already_resolved, another one a 409. " +
			"Values that do not match the schema of their question are a 422 that names them.",
		Errors: []int{400, 403, 404, 409, 413, 422, 503},
	}, h.answerInput)
}

func (h *approvalHandlers) answerInput(ctx context.Context, in *answerInputInput) (*output[signals.DecideResult], error) {
	a := in.Body.InputAnswers
	a.ToolCallID = in.ToolCallID
	var err error
	if a.By, err = actor(ctx, "body.by", a.By, byAPI); err != nil {
		return nil, err
	}
	return ask(ctx, h.core, in.ID, func(ctx context.Context) (signals.DecideResult, error) {
		got, err := h.sendInput(ctx, h.approvals, in.ID, a)
		return signals.DecideResult{Result: got}, orRefused(err, inputRefusals, in.ToolCallPath, got)
	})
}

// sendInput checks answers against the schemas of their questions, and sends them.
func (l *lookup) sendInput(ctx context.Context, threads Approvals, threadID string, a signals.InputAnswers) (signals.DecideOutcome, error) {
	if err := a.Validate(); err != nil {
		return "", err
	}
	questions, err := l.questions(ctx, threads, threadID, a)
	if err != nil {
		return "", err
	}
	for _, question := range questions {
		if err := tool.CheckAnswer(question, a.Answers[question.ID]); err != nil {
			if e, ok := errors.AsType[*tool.ArgumentError](err); ok {
				err = errors.New(e.Reason)
			}
			return "", event.FieldErrorf("answers."+question.ID+".content", "%v", err)
		}
	}
	return threads.AnswerInput(ctx, threadID, a)
}

// questions returns the questions of a request for input: as stored, since the thread may have no room for those of
// sub-agents, or as the thread has them, if it has yet to store them.
func (l *lookup) questions(ctx context.Context, threads Approvals, threadID string, a signals.InputAnswers) ([]event.InputQuestion, error) {
	round := max(a.Round, event.FirstRound)
	stored, err := l.storedInput(ctx, threadID, a.ToolCallID, round)
	if err != nil {
		return nil, err
	}
	if stored != nil {
		return stored.Questions, nil
	}
	waiting, err := threads.Approvals(ctx, threadID)
	if err != nil {
		return nil, err
	}
	for _, q := range waiting.Inputs {
		if q.ToolCallID == a.ToolCallID && q.Round == round {
			return q.Questions, nil
		}
	}
	return nil, nil
}

// storedInput returns a request for input as stored, or nil.
func (l *lookup) storedInput(ctx context.Context, threadID, toolCallID string, round int) (*event.InputRequest, error) {
	records, err := l.store.RecordsByID(ctx, l.key(threadID), recordid.InputRequest(toolCallID, round))
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		var q event.InputRequest
		if r.Type == event.TypeInputRequest && json.Unmarshal(r.Payload, &q) == nil {
			return &q, nil
		}
	}
	return nil, nil
}

// complete completes the questions for which a thread had no room, if they are stored.
func (l *lookup) complete(ctx context.Context, threadID string, q *event.InputRequest) error {
	if !q.Truncated {
		return nil
	}
	stored, err := l.storedInput(ctx, threadID, q.ToolCallID, q.Round)
	if stored != nil {
		*q = *stored
	}
	return err
}

var inputRefusals = refusals{
	signals.DecideConflict:   "tool call %[1]q has another answer already",
	signals.DecideNotPending: "no tool call %[1]q waits for this input in thread %[2]q: its round may be another by now",
	signals.DecideNotAllowed: "agents of the thread may not answer tool call %[1]q",
}
