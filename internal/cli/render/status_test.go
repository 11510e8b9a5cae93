package render

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

func TestChangesOfAThread(t *testing.T) {
	for want, change := range map[string]event.StatusChange{
		"· title set by threadmill\n":            {Detail: "title", By: "threadmill"},
		"· agents set by ann: planner, writer\n": {Detail: "agents", By: "ann", Agents: []string{"planner", "writer"}},
		"· title, metadata set\n":                {Detail: "title, metadata"},
		"· thread set by ann\n":                  {By: "ann"},
	} {
		change.Status = event.StatusUpdated
		require.Equal(t, want, New(Options{}).Event(event.AgentEvent{Type: event.EventStatus, Status: &change}).String())
	}
}

func TestWhereAGrantHolds(t *testing.T) {
	made := event.Approval{ToolCallID: "c1", ToolName: "shell_cmd", Agent: "papers", Decision: event.DecisionApprove, By: "ann", ThreadID: "t1.s1"}
	for scope, want := range map[event.Scope]string{
		event.ScopeOnce:    "✓ shell_cmd approved by ann\n",
		event.ScopeSession: "✓ shell_cmd approved by ann for the session, in thread t1.s1\n",
	} {
		made.Scope = scope
		require.Equal(t, want, New(Options{}).Event(event.AgentEvent{Type: event.EventApproval, Approval: &made}).String())
	}
}

func TestQueueShowsTurnsThatWait(t *testing.T) {
	item := func(id string, status event.ItemStatus) event.Item {
		return event.Item{ID: id, Type: "file.changed", Status: status, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	}
	now := item("e2", event.ItemProcessing)
	q := signals.Queue{Processing: &now, Waiting: []event.Item{item("e1", event.ItemProcessing)}, Items: []event.Item{item("e3", event.ItemPending)}}
	require.Equal(t, `STATUS      PRIORITY  EVENT  TYPE          CREATED              TTL  CONTENT
processing  0         e2     file.changed  2026-01-02 03:04:05  -    -
processing  0         e1     file.changed  2026-01-02 03:04:05  -    -
pending     0         e3     file.changed  2026-01-02 03:04:05  -    -
`, Queue(q, TableOptions{Location: time.UTC}))
}
