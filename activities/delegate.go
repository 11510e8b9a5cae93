package activities

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/text/excerpt"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/tool"
)

// endDelegate stores the remaining records of a sub-agent's thread and, in the parent thread, the
// sub-agent's answer as the result of the waiting call.
func (a *Activities) endDelegate(ctx context.Context, in step.End) (step.EndReply, error) {
	if _, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush); err != nil {
		return step.EndReply{}, err
	}
	text, err := a.repliesIn(ctx, in.Thread, in.Parent.TraceID)
	if err != nil {
		return step.EndReply{}, err
	}
	text, failed := answerOf(in, text)
	if in.Parent.Background == nil {
		text = in.Parent.EditedPrefix + text
		out := step.EndReply{Failed: failed}
		out.Answer, out.Truncated = step.CarryText(text)
		return out, a.storeAnswer(ctx, in.Parent, in.Thread, text, failed)
	}
	if failed {
		return step.EndReply{Error: step.Why(text)}, nil
	}
	return step.EndReply{Result: carryResult(asJSON(text))}, nil
}

// answerOf returns the result of the call: the sub-agent's replies or, if its turn has not
// completed, the reason.
func answerOf(in step.End, answer string) (text string, failed bool) {
	why := ""
	switch in.Status {
	case signals.TurnCompleted:
		return answer, false
	case signals.TurnInterrupted:
		why = "Error: the sub-agent was interrupted."
	case signals.TurnUnanswered:
		why = "Error: nobody answered."
	default:
		why = "Error: the sub-agent failed."
	}
	if in.Error != "" {
		why = strings.TrimSuffix(why, ".") + ": " + in.Error
	}
	if answer != "" {
		why += "\n" + answer
	}
	return why, true
}

// repliesIn joins the replies of a thread's agents to the call. Other turns of the thread have other
// traces.
func (a *Activities) repliesIn(ctx context.Context, ref step.Ref, traceID string) (string, error) {
	var b strings.Builder
	for m, err := range transcript.EachMessage(ctx, a.cfg.Store, ref) {
		if err != nil {
			return "", readError(err)
		}
		if shown, ok := m.ForModels(); ok && m.Record.TraceID == traceID && shown.SenderType == event.CreatedByAgent {
			b.WriteString(shown.Content)
		}
	}
	return excerpt.Text(b.String(), tool.MaxResult), nil
}

// storeAnswer stores the result of a call in the parent thread.
func (a *Activities) storeAnswer(ctx context.Context, to step.Parent, by step.Ref, text string, failed bool) error {
	record, log := answer(to, by, text, failed, time.Now())
	above := step.Ref{Namespace: by.Namespace, ThreadID: to.ThreadID}
	_, err := a.append(ctx, above, store.Batch{Records: []event.Record{record}, ToolFinish: &log}, step.Flush{})
	return err
}

// answer returns the result of a call that a sub-agent worked on, and the call's log.
func answer(to step.Parent, by step.Ref, text string, failed bool, now time.Time) (event.Record, store.ToolLog) {
	status := store.ToolSucceeded
	if failed {
		status = store.ToolFailed
	}
	id := recordid.Result(to.ToolCallID)
	m := event.Message{
		ID: id, ThreadID: to.ThreadID, SenderID: to.ToolName, SenderType: event.CreatedByTool, Role: event.RoleTool, Content: text,
		ToolCallID: to.ToolCallID, ToolName: to.ToolName, IsError: failed, AgentID: to.Agent, ReplyToMessageID: to.MessageID,
		Metadata: map[string]any{"threadId": by.ThreadID},
	}
	log := store.ToolLog{
		ToolCallID: to.ToolCallID, ToolName: to.ToolName, Agent: to.Agent, TraceID: to.TraceID,
		Input: asJSON(by.ThreadID), Output: asJSON(text), Status: status, Attempt: 1, StartedAt: now, FinishedAt: &now,
	}
	record := event.NewRecord(id, event.TypeMessage, to.TraceID, to.EventID, now, m).In(step.TurnEvent(to.Root, to.EventID))
	if to.Undecided {
		record = record.WithUndecided(event.TypeMessage)
	}
	return record, log
}

// parentViewers shows a sub-agent's output to viewers of the parent thread, as progress of the call.
type parentViewers struct {
	a    *Activities
	to   step.Parent
	ref  step.Ref
	head int64
}

// parentViewersOf returns nil, which shows nothing, if the agent is not a sub-agent.
func (a *Activities) parentViewersOf(ctx context.Context, in step.Model) *parentViewers {
	if in.Parent == nil {
		return nil
	}
	out := &parentViewers{a: a, to: *in.Parent, ref: step.Ref{Namespace: in.Thread.Namespace, ThreadID: in.Parent.ThreadID}}
	row, err := a.cfg.Store.Thread(ctx, out.ref)
	if err != nil {
		// Viewers receive the fragments, but may receive them again when they reconnect.
		a.log.WarnContext(ctx, "reading the thread of a sub-agent's call", "thread", out.ref.ThreadID, "error", err)
	}
	out.head = row.Head
	return out
}

// say shows a fragment of text.
func (s *parentViewers) say(ctx context.Context, text string) {
	if s == nil || text == "" {
		return
	}
	e, err := s.progress(text)
	if err != nil {
		return // text always has a JSON form
	}
	s.a.publish(ctx, s.ref, stream.Entry{After: s.head, TraceID: s.to.TraceID, Event: &e})
}

// progress returns the event for a fragment of text. For a background task it is the task's
// progress, since the call already has its result.
func (s *parentViewers) progress(text string) (event.AgentEvent, error) {
	if task := s.to.Background; task != nil {
		e, err := task.Progress(text)
		e.ToolName = s.to.ToolName
		return e, err
	}
	data, err := json.Marshal(text)
	return event.AgentEvent{
		Type: event.EventToolProgress, EventID: step.TurnEvent(s.to.Root, s.to.EventID), ToolName: s.to.ToolName, ToolCallID: s.to.ToolCallID, Agent: s.to.Agent, Data: data,
	}, err
}
