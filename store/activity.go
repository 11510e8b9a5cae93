package store

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
)

// Activity is what an open thread does, for lists of threads.
type Activity string

// The activities of a thread. A thread that does several things has the first of them that applies,
// in this order.
const (
	// ActivityWaiting means that a tool call waits for a person.
	ActivityWaiting Activity = "waiting"

	// ActivityFailing means that the last turn failed and was not retried.
	ActivityFailing Activity = "failing"

	// ActivityRunning means that an event waits for its turn, or its turn has not ended.
	ActivityRunning Activity = "running"

	// ActivityUnanswered means that the last message of a person mentions no agent of the thread.
	ActivityUnanswered Activity = "unanswered"

	// ActivityIdle means that nothing is left to do.
	ActivityIdle Activity = "idle"
)

// Mark is something that a thread has begun and not ended. Drivers keep the marks of a thread and
// derive its [Activity] from them.
type Mark struct {
	Kind Activity

	// ID is an event's id, or that of a tool call. EventID is the event whose turn it belongs to.
	ID, EventID string
}

// MarkChange is a change of marks that the record with RecordID makes when it is stored.
type MarkChange struct {
	RecordID string

	// mark begins, unless Ends. Without an ID, all marks of its kind and of its EventID end, and
	// without an EventID those of all turns.
	Mark
	Ends bool
}

// MarkChanges returns the changes of marks that records make. Of several changes of the same mark
// only the last one remains, so that their order does not matter.
func MarkChanges(records []event.Record) []MarkChange {
	var changes []MarkChange
	at := map[Mark]int{}
	for _, r := range records {
		for _, c := range changesOf(r) {
			c.RecordID = r.ID
			key := Mark{Kind: c.Kind, ID: c.ID}
			if c.ID == "" {
				key.EventID = c.EventID
				endAll(changes, c)
			}
			if i, known := at[key]; known {
				changes[i] = c
				continue
			}
			at[key] = len(changes)
			changes = append(changes, c)
		}
	}
	return changes
}

// endAll turns the changes of marks that a change without an id covers into ends.
func endAll(changes []MarkChange, all MarkChange) {
	for i, c := range changes {
		if c.Kind == all.Kind && c.ID != "" && (all.EventID == "" || c.EventID == all.EventID) {
			changes[i].Ends, changes[i].RecordID = true, all.RecordID
		}
	}
}

func changesOf(r event.Record) []MarkChange {
	switch r.Type {
	case event.TypeTurnEnded:
		return turnEnded(r)
	case event.TypeStatus:
		return statusChanged(r)
	case event.TypeApprovalRequest:
		var q event.ApprovalRequest
		if json.Unmarshal(r.Payload, &q) == nil {
			return []MarkChange{begin(ActivityWaiting, q.ToolCallID, r.EventID)}
		}
	case event.TypeInputRequest:
		var q event.InputRequest
		if json.Unmarshal(r.Payload, &q) == nil {
			return []MarkChange{begin(ActivityWaiting, q.ToolCallID, r.EventID)}
		}
	case event.TypeInputReceived:
		var a event.InputReceived
		if json.Unmarshal(r.Payload, &a) == nil {
			return []MarkChange{end(ActivityWaiting, a.ToolCallID, "")}
		}
	case event.TypeApproval:
		var a event.Approval
		if json.Unmarshal(r.Payload, &a) == nil && a.Missing == 0 && a.Decision != event.DecisionRevoked {
			return []MarkChange{end(ActivityWaiting, a.ToolCallID, "")}
		}
	case event.TypeMessage:
		var m struct{ ToolCallID string }
		if json.Unmarshal(r.Payload, &m) == nil && m.ToolCallID != "" {
			return []MarkChange{end(ActivityWaiting, m.ToolCallID, "")}
		}
	}
	if r.EventID != "" && r.EventID == r.ID {
		return []MarkChange{begin(ActivityRunning, r.ID, r.ID)}
	}
	return nil
}

func turnEnded(r event.Record) []MarkChange {
	var t event.TurnEnded
	if json.Unmarshal(r.Payload, &t) != nil {
		return nil
	}
	changes := []MarkChange{end(ActivityRunning, t.EventID, ""), end(ActivityWaiting, "", t.EventID)}
	for _, id := range t.Joined {
		changes = append(changes, end(ActivityRunning, id, ""))
	}
	switch t.Status {
	case string(event.ItemFailed):
		changes = append(changes, begin(ActivityFailing, t.EventID, t.EventID))
	case string(event.ItemCompleted):
		changes = append(changes, end(ActivityFailing, "", ""), end(ActivityUnanswered, "", ""))
	}
	return changes
}

func statusChanged(r event.Record) []MarkChange {
	var s event.StatusChange
	if json.Unmarshal(r.Payload, &s) != nil {
		return nil
	}
	switch s.Status {
	case event.StatusClosed:
		return []MarkChange{end(ActivityRunning, "", ""), end(ActivityWaiting, "", ""), end(ActivityFailing, "", ""), end(ActivityUnanswered, "", "")}
	case event.StatusUnanswered:
		return []MarkChange{begin(ActivityUnanswered, r.EventID, r.EventID)}
	case event.StatusRetried:
		return []MarkChange{end(ActivityFailing, r.EventID, ""), begin(ActivityRunning, r.EventID, r.EventID)}
	case string(event.ItemCompleted), string(event.ItemExpired), string(event.ItemOverwritten):
		return []MarkChange{end(ActivityRunning, r.EventID, ""), end(ActivityFailing, r.EventID, "")}
	case string(event.ItemFailed):
		return []MarkChange{end(ActivityRunning, r.EventID, ""), begin(ActivityFailing, r.EventID, r.EventID)}
	}
	return nil
}

func begin(kind Activity, id, eventID string) MarkChange {
	return MarkChange{Mark: Mark{Kind: kind, ID: id, EventID: eventID}}
}

func end(kind Activity, id, eventID string) MarkChange {
	return MarkChange{Mark: Mark{Kind: kind, ID: id, EventID: eventID}, Ends: true}
}
