package worldview

import (
	"context"
	"fmt"
	"slices"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/feed/projection"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/store"
)

// Messages returns the current form of the messages in at most limit records of a thread after a
// given one and, if there are more, the last record read. Requests for approval and decisions are
// included.
func Messages(ctx context.Context, s Store, key store.Key, after int64, limit int) (messages []event.WorldMessage, next int64, err error) {
	pr := newProjector(s, projection.Viewer{Key: key})
	q := store.Query{
		After: after, Limit: limit + 1, Types: []string{event.TypeMessage, event.TypeApprovalRequest, event.TypeApproval},
		MaxBytes: feed.PageBytes,
	}
	records, err := s.Records(ctx, key, q)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the messages of %s: %w", key, err)
	}
	if !q.Complete(records) {
		records = records[:min(len(records), limit)]
		next = records[len(records)-1].Seq
	}
	if len(records) == 0 {
		return nil, 0, nil
	}
	settled, err := transcript.Messages(ctx, s, key, store.Query{After: after, Before: records[len(records)-1].Seq + 1, Limit: limit})
	if err != nil {
		return nil, 0, fmt.Errorf("reading the messages of %s: %w", key, err)
	}
	for _, r := range records {
		if r.Type == event.TypeMessage {
			if now := settled[0]; !now.Hidden && !isInfoCall(&r, now.ToolCallID, now.ToolCalls) {
				messages = append(messages, pr.messageOf(now.Message, r.CreatedAt))
			}
			settled = settled[1:]
			continue
		}
		msg, ok, err := pr.approvalMessageOf(ctx, r)
		if err != nil {
			return nil, 0, err
		}
		if ok {
			messages = append(messages, msg)
		}
	}
	return messages, next, pr.setStatuses(ctx, messages)
}

// approvalMessageOf returns the message of an approval request or of a decision.
func (pr *projector) approvalMessageOf(ctx context.Context, r event.Record) (msg event.WorldMessage, ok bool, err error) {
	for _, e := range feed.Events(r) {
		derived, err := pr.Project(ctx, feed.Item{Event: e, Record: &r})
		if err != nil {
			return msg, false, err
		}
		for _, d := range derived {
			if d == nil {
				continue
			}
			if msg, ok := d.Data.(event.WorldMessage); ok {
				return msg, true, nil
			}
		}
	}
	return msg, false, nil
}

// setStatuses sets the current statuses of all calls.
func (pr *projector) setStatuses(ctx context.Context, messages []event.WorldMessage) error {
	var calls []string
	for _, msg := range messages {
		for _, about := range callsAbout(msg) {
			calls = append(calls, about.call)
		}
	}
	slices.Sort(calls)
	stands, err := pr.callStates(ctx, slices.Compact(calls)...)
	if err != nil {
		return err
	}
	for i, msg := range messages {
		for id, about := range callsAbout(msg) {
			if messages[i].ToolCallStatus == nil {
				messages[i].ToolCallStatus = map[string]event.ToolCallStatus{}
			}
			messages[i].ToolCallStatus[id] = statusOf(stands.Find(about.call), about.round)
		}
	}
	return nil
}

// roundOf is a call with a round of its approval: 0 is the last one.
type roundOf struct {
	call  string
	round int
}

// callsAbout returns the calls whose status a message has, by the ids in the message. The status in
// a decision never changes.
func callsAbout(msg event.WorldMessage) map[string]roundOf {
	out := map[string]roundOf{}
	for _, c := range msg.ToolCalls {
		out[c.ID] = roundOf{call: c.ID}
		if c.Function.Name == event.RequestApproval {
			call, round := event.ParseApprovalCallID(c.ID)
			out[c.ID] = roundOf{call, round}
		}
	}
	if msg.ToolCallID != "" && msg.ToolCallStatus == nil {
		out[msg.ToolCallID] = roundOf{call: msg.ToolCallID}
	}
	return out
}
