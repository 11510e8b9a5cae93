package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

var activities = []suiteTest{
	{"activity follows the records", testActivity},
	{"activity ignores what was stored before", testActivityOnce},
	{"threads by activity", testThreadsByActivity},
	{"threads by text", testSearch},
	{"pending approvals", testPendingApprovals},
}

func posted(id, text string) event.Record {
	return event.NewRecord(id, event.TypeMessage, id, "", start, event.Message{ID: id, Content: text, SenderType: event.CreatedByUser}).In(id)
}

func ended(id, status string, joined ...string) event.Record {
	return event.NewRecord(id+".turn_ended", event.TypeTurnEnded, id, id, start, event.TurnEnded{EventID: id, Status: status, Joined: joined}).In(id)
}

func requested(turn, call string) event.Record {
	return event.NewRecord(call+".request", event.TypeApprovalRequest, turn, turn, start, event.ApprovalRequest{ToolCallID: call}).In(turn)
}

func decided(turn, call string, vote string, missing int) event.Record {
	return event.NewRecord(call+".decision"+vote, event.TypeApproval, turn, turn, start,
		event.Approval{ToolCallID: call, Decision: event.DecisionApprove, Missing: missing}).In(turn)
}

func status(id, turn, value string) event.Record {
	return event.NewRecord(id, event.TypeStatus, turn, turn, start, event.StatusChange{Status: value}).In(turn)
}

func testActivity(t *testing.T, s whole) {
	add(t, s, key, store.Batch{})
	require.Equal(t, store.ActivityIdle, thread(t, s, key).Activity)
	for _, step := range []struct {
		name    string
		records []event.Record
		want    store.Activity
	}{
		{"a message", []event.Record{posted("e1", "hello")}, store.ActivityRunning},
		{"a request for approval", []event.Record{requested("e1", "c1"), requested("e1", "c2")}, store.ActivityWaiting},
		{"another message waits in the queue", []event.Record{posted("e2", "and")}, store.ActivityWaiting},
		{"a vote of two", []event.Record{decided("e1", "c1", "1", 1)}, store.ActivityWaiting},
		{"a decision", []event.Record{decided("e1", "c1", "", 0)}, store.ActivityWaiting},
		{"the end of the turn that waits", []event.Record{ended("e1", "interrupted")}, store.ActivityRunning},
		{"a failure", []event.Record{ended("e2", "failed")}, store.ActivityFailing},
		{"a retry", []event.Record{status("e2.retried", "e2", event.StatusRetried)}, store.ActivityRunning},
		{"another failure", []event.Record{ended("e2.1", "failed")}, store.ActivityFailing},
		{"given up by hand", []event.Record{status("e2.set", "e2", "completed"), status("e2.1.set", "e2.1", "completed")}, store.ActivityIdle},
		{"a turn in one transaction", []event.Record{posted("e3", "x"), requested("e3", "c3"), ended("e3", "completed")}, store.ActivityIdle},
		{"a failure in one transaction", []event.Record{posted("e4", "x"), ended("e4", "failed")}, store.ActivityFailing},
		{"a later turn", []event.Record{posted("e5", "x"), ended("e5", "completed")}, store.ActivityIdle},
		{"a mention of nobody", []event.Record{posted("u1", "@nobody hi"), status("u1.unanswered", "u1", event.StatusUnanswered)}, store.ActivityRunning},
		{"its end", []event.Record{ended("u1", "unanswered")}, store.ActivityUnanswered},
		{"a failure after it", []event.Record{posted("u2", "x"), ended("u2", "failed")}, store.ActivityFailing},
		{"an answer", []event.Record{posted("u3", "x"), ended("u3", "completed")}, store.ActivityIdle},
		{"messages that join a turn", []event.Record{posted("e6", "x"), posted("e7", "y"), posted("e8", "z")}, store.ActivityRunning},
		{"their end", []event.Record{ended("e6", "completed", "e7", "e8")}, store.ActivityIdle},
		{"a result without a decision", []event.Record{requested("e9", "c9"), event.NewRecord("c9.result", event.TypeMessage, "e9", "e9", start,
			event.Message{ID: "c9.result", ToolCallID: "c9", SenderType: event.CreatedByTool}).In("e9")}, store.ActivityIdle},
		{"work without an end", []event.Record{posted("e10", "x"), requested("e10", "c10")}, store.ActivityWaiting},
		{"what has no payload of its type", []event.Record{
			event.NewRecord("bad", event.TypeTurnEnded, "", "", start, []int{1}), event.NewRecord("bad2", event.TypeApproval, "", "", start, "x"),
		}, store.ActivityWaiting},
		{"closing", []event.Record{status("closed", "", event.StatusClosed)}, store.ActivityIdle},
	} {
		add(t, s, key, store.Batch{Records: step.records})
		require.Equal(t, step.want, thread(t, s, key).Activity, step.name)
	}
	add(t, s, key, store.Batch{Thread: &store.ThreadUpdate{Status: store.ThreadClosed}})
	require.Empty(t, thread(t, s, key).Activity)
}

// testActivityOnce appends batches late and again, as retried activities do.
func testActivityOnce(t *testing.T, s whole) {
	first := store.Batch{Records: []event.Record{posted("e1", "hello"), requested("e1", "c1")}}
	add(t, s, key, first)
	add(t, s, key, store.Batch{Records: []event.Record{decided("e1", "c1", "", 0), ended("e1", "completed")}})
	require.Equal(t, store.ActivityIdle, thread(t, s, key).Activity)
	add(t, s, key, first)
	require.Equal(t, store.ActivityIdle, thread(t, s, key).Activity)
	add(t, s, key, store.Batch{Records: append(first.Records, posted("e2", "more"))})
	require.Equal(t, store.ActivityRunning, thread(t, s, key).Activity)
	other := store.Key{Namespace: key.Namespace, ThreadID: "other"}
	add(t, s, other, store.Batch{Records: []event.Record{ended("e2", "completed")}})
	require.Equal(t, store.ActivityRunning, thread(t, s, key).Activity, "another thread's turn")
}

func in(id string) store.Key { return store.Key{Namespace: "default", ThreadID: id} }

func listed(t *testing.T, s whole, page store.ThreadPage) []string {
	t.Helper()
	threads, err := s.Threads(t.Context(), "default", page)
	require.NoError(t, err)
	out := []string{}
	for _, row := range threads {
		out = append(out, row.ID)
	}
	return out
}

func testThreadsByActivity(t *testing.T, s whole) {
	add(t, s, in("idle"), store.Batch{})
	add(t, s, in("failing"), store.Batch{Records: []event.Record{ended("e", "failed")}})
	add(t, s, in("unanswered"), store.Batch{Records: []event.Record{status("e.unanswered", "e", event.StatusUnanswered), ended("e", "unanswered")}})
	add(t, s, in("waiting1"), store.Batch{Records: []event.Record{requested("e", "c")}})
	add(t, s, in("running"), store.Batch{Records: []event.Record{posted("e", "x")}})
	add(t, s, in("waiting2"), store.Batch{Records: []event.Record{requested("e", "c")}})
	add(t, s, in("closed"), store.Batch{Records: []event.Record{requested("e", "c")}, Thread: &store.ThreadUpdate{Status: store.ThreadClosed}})
	for activity, want := range map[store.Activity][]string{
		store.ActivityIdle: {"idle"}, store.ActivityFailing: {"failing"}, store.ActivityUnanswered: {"unanswered"}, store.ActivityRunning: {"running"},
		store.ActivityWaiting: {"waiting2", "waiting1"}, "": {"closed", "waiting2", "running", "waiting1", "unanswered", "failing", "idle"}, "other": {},
	} {
		require.Equal(t, want, listed(t, s, store.ThreadPage{Activity: activity}), activity)
	}
	require.Equal(t, []string{"waiting2", "waiting1"}, listed(t, s, store.ThreadPage{Activity: store.ActivityWaiting, Status: store.ThreadOpen}))
	require.Empty(t, listed(t, s, store.ThreadPage{Activity: store.ActivityWaiting, Status: store.ThreadClosed}))
	second := thread(t, s, in("waiting2"))
	require.Equal(t, []string{"waiting1"}, listed(t, s, store.ThreadPage{Activity: store.ActivityWaiting, CursorUpdatedAt: second.UpdatedAt, CursorID: "waiting2"}))
}

func testSearch(t *testing.T, s whole) {
	title := `The 100% "green" plan`
	add(t, s, in("by-title"), store.Batch{Thread: &store.ThreadUpdate{Title: &title}})
	add(t, s, in("by-agent"), store.Batch{Thread: &store.ThreadUpdate{Agents: []string{"writer", "Gärtner"}}})
	add(t, s, in("by-text"), store.Batch{Records: []event.Record{posted("e", "say \"x_y\" <now>\nor never"), posted("f", "other"), posted("g", "with NUL\x00s")}})
	// Hooks replaced one message, held another back, and released a third.
	hook := func(id string, d event.Interception) event.Record {
		return event.NewRecord(id+".hook", event.TypeHook, "", "", start, d).In(id)
	}
	add(t, s, in("by-hook"), store.Batch{Records: []event.Record{
		posted("secret", "the password is swordfish"),
		hook("secret", event.Interception{EventID: "secret", EventType: event.TypeMessage, Outcome: event.OutcomeReplaced, Message: &event.Message{ID: "secret", Content: "the password is removed"}}),
		event.NewRecord("held", event.TypeMessage, "", "", start, event.Message{ID: "held", Content: "halibut", Held: true}),
		hook("held", event.Interception{EventID: "held", Outcome: event.OutcomeDropped, Message: &event.Message{ID: "held", Content: "halibut", Held: true}}),
		posted("dropped", "herring"),
		hook("dropped", event.Interception{EventID: "dropped", Outcome: event.OutcomeDropped}),
		posted("passed", "mackerel"),
		hook("passed", event.Interception{EventID: "passed", Outcome: event.OutcomePassed, Hooks: []event.HookOutcome{{Name: "guard"}}}),
	}})
	for text, want := range map[string][]string{
		"green": {"by-title"}, "GREEN": {"by-title"}, `100% "g`: {"by-title"}, "100_": {}, "by-T": {"by-text", "by-title"},
		"writer": {"by-agent"}, "Gärtner": {"by-agent"},
		"x_y": {"by-text"}, "xzy": {}, `"x_y" <now>` + "\nor": {"by-text"}, `\`: {}, "OTHER": {"by-text"}, "with nul": {"by-text"},
		"swordfish": {}, "removed": {"by-hook"}, "halibut": {}, "herring": {}, "mackerel": {"by-hook"}, "nothing": {},
	} {
		require.ElementsMatch(t, want, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: text}}), text)
	}
	require.Empty(t, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "green"}, Status: store.ThreadClosed}))
	require.Equal(t, []string{"by-title"}, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "green"}, Activity: store.ActivityIdle, Status: store.ThreadOpen}))
	require.Empty(t, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "green"}, Activity: store.ActivityWaiting}))
	require.Len(t, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "by-"}, Limit: 2}), 2)
	require.Empty(t, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "\x00"}}))
	require.Empty(t, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "content"}}), "the names of fields are no text")
}

// testPendingApprovals counts the requests of all threads, and each once.
func testPendingApprovals(t *testing.T, s whole) {
	start := start.UTC().Truncate(time.Microsecond)
	pending := func() store.PendingApprovals {
		t.Helper()
		got, err := s.PendingApprovals(t.Context(), "default")
		require.NoError(t, err)
		return got
	}
	at := func(later time.Duration, r event.Record) event.Record {
		r.CreatedAt = start.Add(later)
		return r
	}
	require.Zero(t, pending())
	add(t, s, store.Key{Namespace: "other", ThreadID: "t"}, store.Batch{Records: []event.Record{requested("e", "c")}})
	add(t, s, in("closed"), store.Batch{Records: []event.Record{requested("e", "c")}, Thread: &store.ThreadUpdate{Status: store.ThreadClosed}})
	add(t, s, in("sub"), store.Batch{Records: []event.Record{requested("e", "of-sub")}, Thread: &store.ThreadUpdate{Parent: "parent"}})
	require.Zero(t, pending(), "of another namespace, a closed thread, and a sub-agent without the request of its parent thread")

	add(t, s, in("parent"), store.Batch{Records: []event.Record{at(time.Hour, requested("e", "of-sub"))}})
	require.Equal(t, store.PendingApprovals{Count: 1, Oldest: start.Add(time.Hour)}, pending())
	add(t, s, in("two"), store.Batch{Records: []event.Record{at(time.Minute, requested("e", "c1")), at(2*time.Minute, requested("e", "c2"))}})
	require.Equal(t, store.PendingApprovals{Count: 3, Oldest: start.Add(time.Minute)}, pending())
	add(t, s, in("two"), store.Batch{Records: []event.Record{decided("e", "c1", "", 0)}})
	require.Equal(t, store.PendingApprovals{Count: 2, Oldest: start.Add(2 * time.Minute)}, pending())

	reminder := event.NewRecord("c2.reminder.1", event.TypeApprovalRequest, "e", "e", start.Add(3*time.Hour), event.ApprovalRequest{ToolCallID: "c2", Reminder: 1}).In("e")
	add(t, s, in("two"), store.Batch{Records: []event.Record{reminder}})
	require.Equal(t, start.Add(2*time.Minute), pending().Oldest, "a reminder is no new request")
	again := event.NewRecord("c2.request.2", event.TypeApprovalRequest, "e", "e", start.Add(3*time.Hour), event.ApprovalRequest{ToolCallID: "c2", Round: 2}).In("e")
	add(t, s, in("two"), store.Batch{Records: []event.Record{decided("e", "c2", "", 0), again}})
	require.Equal(t, store.PendingApprovals{Count: 2, Oldest: start.Add(time.Hour)}, pending(), "a second request waits from its own time")
	input := event.NewRecord("c2.input.1", event.TypeInputRequest, "e", "e", start, event.InputRequest{ToolCallID: "c2"}).In("e")
	add(t, s, in("two"), store.Batch{Records: []event.Record{decided("e", "c2", ".2", 0), input}})
	require.Equal(t, 1, pending().Count, "an approved call that asks for input waits for no decision")
	require.Equal(t, store.ActivityWaiting, thread(t, s, in("two")).Activity)

	const many = 1001
	for i := range many {
		add(t, s, in(fmt.Sprint("many", i)), store.Batch{Records: []event.Record{requested("e", "c")}})
	}
	require.Equal(t, store.PendingApprovals{Count: 1 + many, Oldest: start}, pending())
}
