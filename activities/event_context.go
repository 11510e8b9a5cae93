package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
)

// arrive stores the workflow's records and, in the same transaction, the messages that describe the
// agent's event. The records are stored even if the messages cannot be created.
func (a *Activities) arrive(ctx context.Context, in step.Model) (store.Appended, error) {
	shown, failed := a.observe(ctx, in)
	done, err := a.append(ctx, in.Thread, store.Batch{Records: shown}, in.Flush)
	if err != nil {
		return done, err
	}
	return done, failed
}

// observe returns the messages that describe the agent's event, unless they are stored. An event
// that the workflow has just passed is not looked up: storing existing messages again changes
// nothing.
func (a *Activities) observe(ctx context.Context, in step.Model) ([]event.Record, error) {
	if in.Observe == nil {
		return nil, nil
	}
	e, ok, err := observed(*in.Observe, in.Flush.Records)
	if err != nil {
		return nil, configError(err)
	}
	if !ok {
		there, err := a.cfg.Store.RecordsByID(ctx, in.Thread, recordid.Observed(in.Observe.EventID))
		if err != nil {
			return nil, readError(err)
		}
		if len(there) > 0 {
			return nil, nil
		}
		if e, err = a.observedBefore(ctx, in); err != nil {
			return nil, err
		}
	}
	who, err := a.agentFor(ctx, in.Thread, in.Agent, in.Tools)
	if err != nil {
		return nil, err
	}
	return observation(in, who.Name, e, time.Now()), nil
}

// observedBefore reads an event that an earlier step stored.
func (a *Activities) observedBefore(ctx context.Context, in step.Model) (event.EnvEvent, error) {
	id := in.Observe.EventID
	records, err := a.cfg.Store.RecordsByID(ctx, in.Thread, id, recordid.Interception(id), recordid.Withdrawal(id))
	if err != nil {
		return event.EnvEvent{}, readError(err)
	}
	e, ok, err := observed(*in.Observe, slices.Concat(records, in.Flush.Records))
	switch {
	case err != nil:
		return e, configError(err)
	case !ok:
		return e, configError(fmt.Errorf("environment event %s, or the decision of hooks on it, is not in thread %s", id, in.Thread.ThreadID))
	}
	return e, nil
}

// observed finds the event among records. If hooks changed it, their decision must be among the
// records too, since they may have hidden content from the model.
func observed(o step.Observe, records []event.Record) (event.EnvEvent, bool, error) {
	decisionID := recordid.Interception(o.EventID)
	var about []event.Record
	decided := false
	for _, r := range records {
		decided = decided || r.ID == decisionID
		if r.ID == o.EventID || r.ID == decisionID {
			about = append(about, r)
		}
	}
	if o.Replaced && !decided {
		return event.EnvEvent{}, false, nil
	}
	e, ok := envEvents(about)[o.EventID]
	return e, ok, nil
}

// observation returns an agent's messages about an event: that it was observed, a call for its
// content, and the result. The agent never made that call, but it is the form in which models
// accept facts.
func observation(in step.Model, agentName string, e event.EnvEvent, now time.Time) []event.Record {
	seen := observedTexts(*in.Observe, e)
	call := event.ToolCall{ID: recordid.InfoCall(e.ID), Function: event.Function{Name: builtin.GetEventInfo, Arguments: encode(eventIDs{[]string{e.ID}})}}
	messages := []event.Message{
		{
			ID: recordid.Observed(e.ID), SenderID: cmp.Or(e.Metadata.EnvName, "environment"), SenderType: event.CreatedByUser,
			Content: strings.Join(seen, "\n"), Parts: event.TextParts(seen...),
		},
		{
			ID: recordid.InfoRequest(e.ID), SenderID: agentName, SenderType: event.CreatedByAgent, AgentID: agentName,
			ToolCalls: []event.ToolCall{call}, ReplyToMessageID: recordid.Observed(e.ID),
		},
		{
			ID: recordid.Result(call.ID), SenderID: builtin.GetEventInfo, SenderType: event.CreatedByTool, AgentID: agentName,
			Content: describeEvent(e), ToolCallID: call.ID, ToolName: builtin.GetEventInfo, ReplyToMessageID: recordid.InfoRequest(e.ID),
		},
	}
	var records []event.Record
	for _, m := range messages {
		m.ThreadID, m.Role = in.Thread.ThreadID, m.SenderType.Role()
		records = append(records, event.NewRecord(m.ID, event.TypeMessage, in.TraceID, e.ID, now, m).In(step.TurnEvent(in.Root, in.EventID)))
		if len(m.ToolCalls) > 0 {
			// As for a model's reply: viewers receive the call before its result.
			records = append(records, event.NewRecord(recordid.Calls(m.ID), event.TypeToolCall, in.TraceID, e.ID, now,
				event.ToolCallEvent{ThreadID: m.ThreadID, AgentName: agentName, ToolCalls: m.ToolCalls}).In(step.TurnEvent(in.Root, in.EventID)))
		}
	}
	return records
}

// observedTexts returns the parts of the first message.
func observedTexts(o step.Observe, e event.EnvEvent) []string {
	texts := []string{"Observed event: " + e.Type, "Event ID: " + e.ID, "Time: " + jsTime(e.Time())}
	if o.Held == 0 {
		return texts
	}
	held := "1 event"
	if o.Held > 1 {
		held = fmt.Sprintf("%d events", o.Held)
	}
	if o.Since != nil {
		held += " since " + jsTime(*o.Since)
	}
	text := "Held back before it: " + held + "; " + builtin.GetEventInfo + " shows earlier events by their ids"
	if len(o.HeldIDs) > 0 {
		text += ", the last of which are " + strings.Join(o.HeldIDs, ", ")
	}
	return append(texts, text)
}

// jsTime formats a time like JavaScript's toISOString.
func jsTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// asking inserts the query of an event before the first message of the run that handles it, or at
// the end. It keeps this place during the run, even after the event has left the context. When the
// event is handled again, the query is at the end again. Messages are newest first.
func asking(in step.Model, newest []*transcript.Message) []*transcript.Message {
	if in.Observe == nil || in.Observe.Query == "" {
		return newest
	}
	run := in.MessageID[:strings.LastIndex(in.MessageID, ".")+1]
	at := 0
	for i, m := range newest {
		if strings.HasPrefix(m.Record.ID, run) || strings.HasPrefix(m.ReplyToMessageID, run) {
			at = i + 1
		}
	}
	query := &transcript.Message{Message: event.Message{SenderType: event.CreatedByUser, Role: event.RoleUser, Content: in.Observe.Query}}
	return slices.Insert(slices.Clone(newest), at, query)
}
