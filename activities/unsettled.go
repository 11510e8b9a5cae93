package activities

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/store"
)

// settle gives a result to each call of a turn that ended early, if the thread does not know the call: its reply was stored by a
// workflow task, or by an attempt, that was lost with its worker, and then the turn was interrupted.
func (a *Activities) settle(ctx context.Context, ref step.Ref, flush step.Flush) error {
	for _, r := range flush.Records {
		var ended event.TurnEnded
		if r.Type != event.TypeTurnEnded || json.Unmarshal(r.Payload, &ended) != nil || ended.Status == string(event.ItemCompleted) {
			continue
		}
		calls, err := a.unsettled(ctx, ref, r, flush)
		if err != nil {
			return err
		}
		if len(calls) == 0 {
			continue
		}
		logs, err := a.cfg.Store.ToolLogs(ctx, ref)
		if err != nil {
			return readError(err)
		}
		for _, m := range calls {
			batch := store.Batch{}
			if i := slices.IndexFunc(logs, func(l store.ToolLog) bool { return l.ToolCallID == m.ToolCallID }); i >= 0 {
				now := time.Now()
				m.Content = unknownText
				log := logs[i]
				log.Status, log.Output, log.FinishedAt = store.ToolUnknown, asJSON(unknownText), &now
				batch.ToolFinish = &log
			}
			batch.Records = []event.Record{event.NewRecord(m.ID, event.TypeMessage, r.TraceID, ended.EventID, r.CreatedAt, m).In(r.EventID)}
			if _, err := a.append(ctx, ref, batch, step.Flush{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// unsettled returns the missing results of the calls in the stored replies of a turn that ended. The thread may say that a
// call has not begun which a lost workflow task has started: such a result counts as missing.
func (a *Activities) unsettled(ctx context.Context, ref step.Ref, end event.Record, flush step.Flush) (missing []event.Message, err error) {
	settled := map[string]bool{}
	for _, r := range flush.Records {
		var m event.Message
		if r.Type != event.TypeMessage || json.Unmarshal(r.Payload, &m) != nil || m.ToolCallID == "" || m.Content != step.NotBegunText {
			settled[r.ID] = true
		}
	}
	each := func(r event.Record) {
		settled[r.ID] = true
		var m event.Message
		if json.Unmarshal(r.Payload, &m) != nil {
			return
		}
		for _, c := range m.ToolCalls {
			missing = append(missing, event.Message{
				ID: recordid.Result(c.ID), ThreadID: ref.ThreadID, SenderID: c.Function.Name, SenderType: event.CreatedByTool, Role: event.RoleTool, Content: step.NotBegunText,
				ToolCallID: c.ID, ToolName: c.Function.Name, IsError: true, AgentID: m.AgentID, ReplyToMessageID: m.ID,
			})
		}
	}
	for after, more := int64(0), true; more; {
		page, err := a.cfg.Store.Records(ctx, ref, store.Query{Types: []string{event.TypeMessage}, EventID: end.EventID, After: after, MaxBytes: pageBytes})
		if err != nil {
			return nil, readError(err)
		}
		for _, r := range page {
			after = r.Seq
			each(r)
		}
		more = len(page) > 0
	}
	return slices.DeleteFunc(missing, func(m event.Message) bool { return settled[m.ID] }), nil
}
