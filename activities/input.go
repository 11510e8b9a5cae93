package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// Bounds of a tool's request for input.
const (
	// maxQuestionBytes is the maximum size of all questions of a request, which are in history.
	maxQuestionBytes = step.MaxCarriedContent

	// maxQuestionID is the maximum size of a question's id, which threads keep even if they have no room for the
	// question.
	maxQuestionID = 128

	// maxInputState is the maximum size of a tool's state, which only the store has.
	maxInputState = 256 << 10

	// maxInputRounds is the maximum number of requests of a call.
	maxInputRounds = 50
)

// inputRecord is the payload of an "input_request" record. Only the tool sees its state.
type inputRecord struct {
	event.InputRequest
	State string `json:"state,omitempty"`
}

// inputRequestID returns the id of the next request for input of the call.
func (r *toolRun) inputRequestID() string {
	return recordid.InputRequest(r.in.ToolCallID, r.in.Answered+1)
}

// ask stores a tool's request for input and returns it. The call runs again with the answers.
func (r *toolRun) ask(ctx context.Context, need *tool.InputRequired) (step.ToolReply, error) {
	if err := r.checkInput(need); err != nil {
		return r.finish(ctx, store.ToolFailed, failure(err))
	}
	ctx = context.WithoutCancel(ctx)
	now := time.Now()
	q := inputRecord{State: need.State, InputRequest: event.InputRequest{
		ToolCallID: r.in.ToolCallID, ToolName: r.in.ToolName, Agent: r.in.Agent, MessageID: r.in.MessageID, Round: r.in.Answered + 1,
		Questions: need.Questions, RequestedAt: now.UTC(),
	}}
	log := r.log(store.ToolWaiting)
	log.FinishedAt = &now
	id := r.inputRequestID()
	record := event.NewRecord(id, event.TypeInputRequest, r.in.TraceID, r.in.EventID, now, q).In(step.TurnEvent(r.in.Root, r.in.EventID))
	done, err := r.a.append(ctx, r.in.Thread, store.Batch{Once: id, Records: []event.Record{record}, ToolFinish: &log}, step.Flush{})
	if err != nil {
		return step.ToolReply{}, err
	}
	// As stored: another attempt may have been first.
	return asked(done.Records[slices.IndexFunc(done.Records, func(rec event.Record) bool { return rec.ID == id })])
}

// repeated returns a question with the reason why its last answer was not valid.
func repeated(message, problem string) string {
	message, _, _ = strings.Cut(message, "\n\nThe last answer")
	return fmt.Sprintf("%s\n\nThe last answer was not valid: %s", message, problem)
}

func reason(err error) string {
	if e, ok := errors.AsType[*tool.ArgumentError](err); ok {
		return e.Reason
	}
	return err.Error()
}

func (r *toolRun) checkInput(need *tool.InputRequired) error {
	size, ids := 0, map[string]bool{}
	for i := range need.Questions {
		q := &need.Questions[i]
		q.Kind = cmp.Or(q.Kind, event.InputForm)
		size += len(q.ID) + len(q.Message) + len(q.Schema) + len(q.URL)
		switch {
		case q.ID == "" || ids[q.ID]:
			return fmt.Errorf("the tool's question %d has no id of its own", i+1)
		case len(q.ID) > maxQuestionID:
			return fmt.Errorf("the id of the tool's question %d is %d bytes, must be at most %d", i+1, len(q.ID), maxQuestionID)
		case q.Kind != event.InputForm && q.Kind != event.InputURL:
			return fmt.Errorf("the tool's question %q has the unknown kind %q", q.ID, q.Kind)
		case q.Kind == event.InputURL && !strings.HasPrefix(q.URL, "https://") && !strings.HasPrefix(q.URL, "http://"):
			return fmt.Errorf("the tool's question %q has no web address", q.ID)
		case len(q.Schema) > 0:
			if err := tool.CheckQuestion(*q); err != nil {
				return fmt.Errorf("the tool's question %q: %w", q.ID, err)
			}
		}
		ids[q.ID] = true
	}
	switch {
	case len(need.Questions) == 0 || len(need.Questions) > signals.MaxInputQuestions:
		return fmt.Errorf("the tool asks %d questions at once, must be 1 to %d", len(need.Questions), signals.MaxInputQuestions)
	case size > maxQuestionBytes:
		return fmt.Errorf("the tool's questions are %d bytes, must be at most %d", size, maxQuestionBytes)
	case len(need.State) > maxInputState:
		return fmt.Errorf("the tool's state is %d bytes, must be at most %d", len(need.State), maxInputState)
	case r.in.Answered >= maxInputRounds:
		return fmt.Errorf("the tool asks more than %d times", maxInputRounds)
	}
	return nil
}

// asked returns a stored request for input.
func asked(rec event.Record) (step.ToolReply, error) {
	var q event.InputRequest
	if err := json.Unmarshal(rec.Payload, &q); err != nil {
		return step.ToolReply{}, configError(fmt.Errorf("reading stored record %s: %w", rec.ID, err))
	}
	return step.ToolReply{ToolCallID: q.ToolCallID, Input: &q}, nil
}

// input returns a person's answers to the tool's last request, or nil if there was none. If answers do
// not match the schemas of their questions, it returns the request to repeat.
func (r *toolRun) input(ctx context.Context) (*tool.Input, *tool.InputRequired, error) {
	if r.in.Answered == 0 {
		return nil, nil, nil
	}
	request, answer := recordid.InputRequest(r.in.ToolCallID, r.in.Answered), recordid.InputReceived(r.in.ToolCallID, r.in.Answered)
	records, err := r.a.cfg.Store.RecordsByID(ctx, r.in.Thread, request, answer)
	if err != nil {
		return nil, nil, readError(err)
	}
	var q inputRecord
	var got event.InputReceived
	for _, rec := range records {
		into := any(&q)
		if rec.ID == answer {
			into = &got
		}
		if err := json.Unmarshal(rec.Payload, into); err != nil {
			return nil, nil, configError(fmt.Errorf("reading stored record %s: %w", rec.ID, err))
		}
	}
	if q.Round == 0 || got.Round == 0 {
		return nil, nil, configError(fmt.Errorf("the input %s is not stored", answer))
	}
	again := &tool.InputRequired{State: q.State, Questions: slices.Clone(q.Questions)}
	valid := true
	for i, question := range again.Questions {
		if err := tool.CheckAnswer(question, got.Answers[question.ID]); err != nil {
			again.Questions[i].Message, valid = repeated(question.Message, reason(err)), false
		}
	}
	if !valid {
		return nil, again, nil
	}
	return &tool.Input{Answers: got.Answers, State: q.State}, nil, nil
}
