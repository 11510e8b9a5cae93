package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

var threadLists = []suiteTest{
	{"threads by attention", testAttention},
	{"threads by attention in pages", testAttentionPages},
	{"threads by agent", testThreadsByAgent},
	{"threads by tool and expiry of what waits", testThreadsByCall},
	{"threads by age", testThreadsByAge},
	{"threads by tokens", testThreadsByTokens},
	{"counts of threads", testCountThreads},
	{"previews of threads", testPreviews},
	{"previews show nothing that was replaced or erased", testPreviewsForget},
	{"records of waiting calls", testWaitingRecords},
}

// tick waits until the clock of the slowest driver, which counts milliseconds, has moved.
func tick() {
	for begun := time.Now().UnixMilli(); time.Now().UnixMilli() == begun; {
	}
}

// addAll adds batches to threads, each at its own time.
func addAll(t *testing.T, s whole, batches ...any) {
	t.Helper()
	for i := 0; i < len(batches); i += 2 {
		tick()
		add(t, s, in(batches[i].(string)), store.Batch{Records: batches[i+1].([]event.Record)})
	}
}

func one(r ...event.Record) []event.Record { return r }

func reminded(turn, call string) event.Record {
	return event.NewRecord(call+".reminder", event.TypeApprovalRequest, turn, turn, start, event.ApprovalRequest{ToolCallID: call, Reminder: 1}).In(turn)
}

var byAttention = store.ThreadPage{Order: store.OrderAttention}

func testAttention(t *testing.T, s whole) {
	add(t, s, store.Key{Namespace: "other", ThreadID: "t"}, store.Batch{Records: one(requested("e", "c"))})
	addAll(
		t, s, "fails1", one(ended("e", "failed")), "waits1", one(requested("e", "c1")), "idle1", one(), "waits2", one(requested("e", "c")),
		"fails2", one(ended("e", "failed")), "idle2", one(), "runs", one(posted("e", "x")), "waits1", one(requested("e", "c2")),
	)
	closed := store.Batch{Records: one(requested("e", "c")), Thread: &store.ThreadUpdate{Status: store.ThreadClosed}}
	add(t, s, in("closed"), closed)
	all := []string{"waits1", "waits2", "fails1", "fails2", "closed", "runs", "idle2", "idle1"}
	require.Equal(t, all, listed(t, s, byAttention))

	// A reminder, another message or a title make a thread active, and nobody waits less for that.
	before := thread(t, s, in("waits1"))
	title := "x"
	addAll(t, s, "waits1", one(reminded("e", "c1")), "fails1", one(posted("e2", "and")))
	add(t, s, in("waits1"), store.Batch{Thread: &store.ThreadUpdate{Title: &title}})
	after := thread(t, s, in("waits1"))
	require.True(t, after.UpdatedAt.After(before.UpdatedAt))
	require.Equal(t, before.ActivitySince, after.ActivitySince)
	require.Equal(t, all, listed(t, s, byAttention))

	// The thread waits for the call that has waited longest, then for the other one, and then runs.
	addAll(t, s, "waits1", one(decided("e", "c1", "", 0)))
	require.True(t, thread(t, s, in("waits1")).ActivitySince.After(before.ActivitySince))
	require.Equal(t, []string{"waits2", "waits1"}, listed(t, s, byAttention)[:2])
	addAll(t, s, "waits1", one(decided("e", "c2", "", 0)))
	require.Equal(t, []string{"waits2", "fails1", "fails2", "waits1"}, listed(t, s, byAttention)[:4])

	for _, test := range []struct {
		page store.ThreadPage
		want []string
	}{
		{store.ThreadPage{Activity: store.ActivityWaiting}, []string{"waits2"}},
		{store.ThreadPage{Activity: store.ActivityFailing, Status: store.ThreadOpen}, []string{"fails1", "fails2"}},
		{store.ThreadPage{Activity: store.ActivityRunning}, []string{"runs"}},
		{store.ThreadPage{Activity: store.ActivityIdle}, []string{"waits1", "idle2", "idle1"}},
		{store.ThreadPage{Status: store.ThreadClosed}, []string{"closed"}},
		{store.ThreadPage{Status: store.ThreadClosed, Activity: store.ActivityWaiting}, []string{}},
		{store.ThreadPage{ThreadFilter: store.ThreadFilter{Search: "s1"}}, []string{"fails1", "waits1"}},
	} {
		test.page.Order = store.OrderAttention
		require.Equal(t, test.want, listed(t, s, test.page), "%+v", test.page)
	}
	require.Zero(t, thread(t, s, in("idle1")).ActivitySince)
	require.Zero(t, thread(t, s, in("closed")).ActivitySince)
}

func testAttentionPages(t *testing.T, s whole) {
	var want [3][]string
	for i := range 3 {
		for group, records := range [][]event.Record{one(requested("e", "c"), requested("e", "d")), one(ended("e", "failed")), one()} {
			id := fmt.Sprintf("%c%d", 'z'-i, group) // against the order of time
			addAll(t, s, id, records)
			want[group] = append(want[group], id)
		}
	}
	addAll(t, s, want[0][0], one(reminded("e", "c")), want[1][0], one(posted("e2", "and"))) // are active again, and have waited as long
	all := append(append(want[0], want[1]...), want[2][2], want[2][1], want[2][0])
	walk := func(limit int) (found []string) {
		for page := (store.ThreadPage{Order: store.OrderAttention, Limit: limit}); ; {
			threads, err := s.Threads(t.Context(), "default", page)
			require.NoError(t, err)
			for _, row := range threads {
				found = append(found, row.ID)
			}
			if len(threads) < limit {
				return found
			}
			page = page.After(threads[limit-1])
		}
	}
	for limit := 1; limit <= len(all)+1; limit++ {
		require.Equal(t, all, walk(limit), "pages of %d", limit)
	}

	// What happens between two pages moves no other thread over the end of the first.
	page := store.ThreadPage{Order: store.OrderAttention, Limit: 2}
	first, err := s.Threads(t.Context(), "default", page)
	require.NoError(t, err)
	addAll(t, s, all[0], one(reminded("e", "c")), all[1], one(decided("e", "c", "", 0), decided("e", "d", "", 0)), "new", one(requested("e", "c")))
	page = page.After(first[1])
	page.Limit = 200
	require.Equal(t, append([]string{all[2], "new"}, append(want[1], all[1], want[2][2], want[2][1], want[2][0])...), listed(t, s, page))
}

func testThreadsByAgent(t *testing.T, s whole) {
	add(t, s, in("none"), store.Batch{})
	add(t, s, in("clerk"), store.Batch{Records: one(requested("e", "c")), Thread: &store.ThreadUpdate{Agents: []string{"clerk"}}})
	add(t, s, in("both"), store.Batch{Thread: &store.ThreadUpdate{Agents: []string{"depot", "clerk"}}})
	add(t, s, in("other"), store.Batch{Thread: &store.ThreadUpdate{Agents: []string{"clerk2"}}})
	for _, test := range []struct {
		filter store.ThreadFilter
		want   []string
	}{
		{store.ThreadFilter{Agent: "clerk"}, []string{"both", "clerk"}},
		{store.ThreadFilter{Agent: "clerk", DefaultAgent: true}, []string{"both", "clerk", "none"}},
		{store.ThreadFilter{Agent: "depot"}, []string{"both"}},
		{store.ThreadFilter{Agent: "cler_"}, []string{}},
		{store.ThreadFilter{Agent: "nobody"}, []string{}},
		{store.ThreadFilter{Agent: "\x00"}, []string{}},
	} {
		require.Equal(t, test.want, listed(t, s, store.ThreadPage{ThreadFilter: test.filter}), "%+v", test.filter)
		require.ElementsMatch(t, test.want, listed(t, s, store.ThreadPage{ThreadFilter: test.filter, Order: store.OrderAttention}), "%+v", test.filter)
		require.Equal(t, len(test.want), countThreads(t, s, test.filter).Open, "%+v", test.filter)
	}
	require.Equal(t, []string{"clerk"}, listed(t, s, store.ThreadPage{ThreadFilter: store.ThreadFilter{Agent: "clerk"}, Activity: store.ActivityWaiting}))
}

func testThreadsByCall(t *testing.T, s whole) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	asks := func(call, tool string, within time.Duration) event.Record {
		q := event.ApprovalRequest{ToolCallID: call, ToolName: tool, Arguments: `{"tool\u0000":"\u0000"}`}
		if within != 0 {
			at := now.Add(within)
			q.ExpiresAt = &at
		}
		return event.NewRecord(call+".request", event.TypeApprovalRequest, "e", "e", start, q).In("e")
	}
	asksInput := event.NewRecord("c.input.1", event.TypeInputRequest, "e", "e", start, event.InputRequest{ToolCallID: "c", ToolName: "form"}).In("e")
	addAll(
		t, s, "shell", one(asks("c", "shell", time.Hour)), "mail", one(asks("c", "mail", 0)), "form", one(asksInput),
		"two", one(asks("c", "shell", 3*time.Hour), asks("d", "mail", time.Minute)), "was", one(asks("c", "shell", time.Hour)), "idle", one(),
		"was", one(decided("e", "c", "", 0)),
		"closed", one(asks("c", "shell", time.Hour)),
	)
	add(t, s, in("closed"), store.Batch{Thread: &store.ThreadUpdate{Status: store.ThreadClosed}})
	for _, test := range []struct {
		filter store.ThreadFilter
		want   []string
	}{
		{store.ThreadFilter{Tool: "shell"}, []string{"shell", "two"}},
		{store.ThreadFilter{Tool: "mail"}, []string{"mail", "two"}},
		{store.ThreadFilter{Tool: "form"}, []string{"form"}},
		{store.ThreadFilter{Tool: "Shell"}, []string{}},
		{store.ThreadFilter{ExpiresBefore: now.Add(2 * time.Hour)}, []string{"shell", "two"}},
		{store.ThreadFilter{ExpiresBefore: now.Add(time.Hour)}, []string{"two"}},
		{store.ThreadFilter{ExpiresBefore: now.Add(time.Hour + time.Second).In(time.FixedZone("", 3600))}, []string{"shell", "two"}},
		{store.ThreadFilter{ExpiresBefore: now.Add(time.Second)}, []string{}},
		{store.ThreadFilter{Tool: "shell", ExpiresBefore: now.Add(2 * time.Hour)}, []string{"shell"}},
	} {
		require.Equal(t, test.want, listed(t, s, store.ThreadPage{ThreadFilter: test.filter, Order: store.OrderAttention}), "%+v", test.filter)
		require.ElementsMatch(t, test.want, listed(t, s, store.ThreadPage{ThreadFilter: test.filter}), "%+v", test.filter)
		require.Equal(t, store.ThreadCounts{Open: len(test.want), Waiting: len(test.want)}, countThreads(t, s, test.filter), "%+v", test.filter)
	}
}

func testThreadsByAge(t *testing.T, s whole) {
	addAll(t, s, "a", one(requested("e", "c")), "b", one(), "c", one(requested("e", "c")))
	a, b, c := thread(t, s, in("a")).UpdatedAt, thread(t, s, in("b")).UpdatedAt, thread(t, s, in("c")).UpdatedAt
	for _, test := range []struct {
		filter store.ThreadFilter
		want   []string
	}{
		{store.ThreadFilter{UpdatedBefore: b}, []string{"a"}},
		{store.ThreadFilter{UpdatedBefore: c}, []string{"b", "a"}},
		{store.ThreadFilter{UpdatedAfter: a}, []string{"c", "b"}},
		{store.ThreadFilter{UpdatedAfter: a, UpdatedBefore: c}, []string{"b"}},
		{store.ThreadFilter{UpdatedAfter: c}, []string{}},
	} {
		require.Equal(t, test.want, listed(t, s, store.ThreadPage{ThreadFilter: test.filter}), "%+v", test.filter)
		require.ElementsMatch(t, test.want, listed(t, s, store.ThreadPage{ThreadFilter: test.filter, Order: store.OrderAttention}), "%+v", test.filter)
		require.Equal(t, len(test.want), countThreads(t, s, test.filter).Open, "%+v", test.filter)
	}
	second := store.ThreadPage{ThreadFilter: store.ThreadFilter{UpdatedBefore: c.Add(time.Hour)}}.After(thread(t, s, in("b")))
	require.Equal(t, []string{"a"}, listed(t, s, second), "a cursor bounds the page too")
}

func testThreadsByTokens(t *testing.T, s whole) {
	called := func(id string, in, out int) event.Record {
		return event.NewRecord(id, event.TypeLLMCall, "e", "e", start, event.LLMCall{Usage: event.Usage{InputTokens: in, OutputTokens: out, ReasoningTokens: 5, CachedTokens: 3}}).In("e")
	}
	addAll(t, s, "a", one(called("m1", 100, 10), posted("e", "x"), called("m2", 200, 20)), "b", one(called("m1", 1, 0)), "c", one(posted("e", "x")),
		"a", one(called("m1", 100, 10), called("m3", 1000, 0)), "a", one(called("m3", 1000, 0)))
	for id, want := range map[string]int64{"a": 1330, "b": 1, "c": 0} {
		require.Equal(t, want, thread(t, s, in(id)).Tokens, id)
	}
	for least, want := range map[int64][]string{0: {"a", "c", "b"}, 1: {"a", "b"}, 2: {"a"}, 1330: {"a"}, 1331: {}} {
		filter := store.ThreadFilter{MinTokens: least}
		require.Equal(t, want, listed(t, s, store.ThreadPage{ThreadFilter: filter}), "%d", least)
		require.ElementsMatch(t, want, listed(t, s, store.ThreadPage{ThreadFilter: filter, Order: store.OrderAttention}), "%d", least)
		require.Equal(t, len(want), countThreads(t, s, filter).Open, "%d", least)
	}
}

func countThreads(t *testing.T, s whole, f store.ThreadFilter) store.ThreadCounts {
	t.Helper()
	got, err := s.CountThreads(t.Context(), "default", f)
	require.NoError(t, err)
	return got
}

func testCountThreads(t *testing.T, s whole) {
	require.Zero(t, countThreads(t, s, store.ThreadFilter{}))
	add(t, s, store.Key{Namespace: "other", ThreadID: "t"}, store.Batch{})
	addAll(
		t, s, "waits", one(requested("e", "c"), requested("e", "d")), "fails", one(ended("e", "failed")), "runs1", one(posted("e", "green")), "runs2", one(posted("e", "x")),
		"alone", one(status("e.unanswered", "e", event.StatusUnanswered), ended("e", "unanswered")), "idle", one(), "closed1", one(posted("e", "green")), "closed2", one(),
	)
	for _, id := range []string{"closed1", "closed2"} {
		add(t, s, in(id), store.Batch{Thread: &store.ThreadUpdate{Status: store.ThreadClosed}})
	}
	require.Equal(t, store.ThreadCounts{Open: 6, Closed: 2, Waiting: 1, Failing: 1, Running: 2, Unanswered: 1, Idle: 1}, countThreads(t, s, store.ThreadFilter{}))
	require.Equal(t, store.ThreadCounts{Open: 1, Closed: 1, Running: 1}, countThreads(t, s, store.ThreadFilter{Search: "green"}))
	require.Zero(t, countThreads(t, s, store.ThreadFilter{Search: "\x00"}))
}

func previews(t *testing.T, s whole, ids ...string) map[string]string {
	t.Helper()
	got, err := s.Previews(t.Context(), "default", ids...)
	require.NoError(t, err)
	return got
}

func testPreviews(t *testing.T, s whole) {
	require.Empty(t, previews(t, s))
	says := func(id, sender, text string, held bool) event.Record {
		return event.NewRecord(id, event.TypeMessage, "", "", start, event.Message{ID: id, Content: text, SenderType: event.CreatedBy(sender), Held: held}).In("e")
	}
	decision := func(id string, outcome event.Outcome, m *event.Message) event.Record {
		return event.NewRecord(id+".hook", event.TypeHook, "", "", start, event.Interception{EventID: id, EventType: event.TypeMessage, Outcome: outcome, Message: m}).In(id)
	}
	other := posted("other", "the next one")
	instead := &event.Message{ID: "e", Content: "instead", SenderType: event.CreatedByUser}
	many := []event.Record{}
	for i := range store.PreviewRecords {
		many = append(many, event.NewRecord(fmt.Sprint("s", i), event.TypeStatus, "", "", start, event.StatusChange{Status: "x"}))
	}
	withdrawn := event.NewRecord("e.withdrawn", event.TypeHook, "", "", start, event.Interception{EventID: "e", Outcome: event.OutcomeWithdrawn}).In("e")
	undecided := posted("e", "not yet").WithUndecided(event.TypeMessage)
	long := strings.Repeat("🧵 ", 300)
	for id, test := range map[string]struct {
		records []event.Record
		want    string
	}{
		"plain":        {one(posted("e", "hello"), other), "hello"},
		"agent":        {one(says("r", "agent", "I begin", false), other), "I begin"},
		"tool":         {one(says("r", "tool", "a result", false), says("s", "system", "told", false), other), "the next one"},
		"empty":        {one(says("r", "agent", "", false), other), "the next one"},
		"lines":        {one(posted("e", "  two\n\n\tlines\u2028 ")), "two lines"},
		"long":         {one(posted("e", long)), strings.Repeat("🧵 ", 99) + "🧵…"},
		"exact":        {one(posted("e", strings.Repeat("é", 200))), strings.Repeat("é", 200)},
		"NUL":          {one(posted("e", "a\x00b")), "a\uFFFDb"},
		"dropped":      {one(posted("e", "herring"), decision("e", event.OutcomeDropped, nil), other), "the next one"},
		"passed":       {one(posted("e", "mackerel"), decision("e", event.OutcomePassed, nil), other), "mackerel"},
		"replaced":     {one(posted("e", "swordfish"), decision("e", event.OutcomeReplaced, instead), other), "instead"},
		"undecided":    {one(undecided), ""},
		"decided":      {one(undecided, decision("e", event.OutcomePassed, nil)), "not yet"},
		"calls":        {one(posted("e", "calls").WithUndecided(event.TypeToolCall)), "calls"},
		"held":         {one(says("r", "agent", "halibut", true), other), "the next one"},
		"held dropped": {one(says("r", "agent", "halibut", true), decision("r", event.OutcomeDropped, &event.Message{Content: "halibut", SenderType: event.CreatedByAgent}), other), "the next one"},
		"held passed":  {one(says("r", "agent", "halibut", true), decision("r", event.OutcomePassed, &event.Message{Content: "halibut", SenderType: event.CreatedByAgent}), other), "halibut"},
		"withdrawn":    {one(posted("e", "taken back"), withdrawn, other), "the next one"},
		"both":         {one(posted("e", "taken back"), decision("e", event.OutcomeReplaced, instead), withdrawn, other), "the next one"},
		"broken":       {one(posted("e", "x"), event.NewRecord("e.hook", event.TypeHook, "", "", start, []int{1}).In("e"), other), "the next one"},
		"last":         {slices.Concat(many[1:], one(posted("e", "the hundredth"))), "the hundredth"},
		"late":         {slices.Concat(many, one(posted("e", "too late"))), ""},
		"odd":          {one(event.NewRecord("e", event.TypeMessage, "", "", start, []int{1}), event.NewRecord("f", event.TypeMessage, "", "", start, map[string]any{"content": 1, "senderType": "user"}), other), "the next one"},
		"none":         {one(), ""},
	} {
		add(t, s, in(id), store.Batch{Records: test.records})
		add(t, s, store.Key{Namespace: "elsewhere", ThreadID: id}, store.Batch{Records: one(posted("e", "elsewhere"))})
		want := map[string]string{}
		if test.want != "" {
			want[id] = test.want
		}
		require.Equal(t, want, previews(t, s, id, "nobody"), id)
	}
	require.Equal(t, map[string]string{"plain": "hello", "agent": "I begin"}, previews(t, s, "plain", "agent", "none", "\x00"))
}

func testPreviewsForget(t *testing.T, s whole) {
	add(t, s, in("a"), store.Batch{Records: one(posted("e", "my number is 7"), posted("f", "next"))})
	require.Equal(t, map[string]string{"a": "my number is 7"}, previews(t, s, "a"))
	require.NoError(t, s.ReplaceRecords(t.Context(), in("a"), posted("e", "my number is [erased]")))
	require.Equal(t, map[string]string{"a": "my number is [erased]"}, previews(t, s, "a"))
	require.NoError(t, s.ReplaceRecords(t.Context(), in("a"), event.Record{ID: "e"}))
	require.Equal(t, map[string]string{"a": "next"}, previews(t, s, "a"))
	require.NoError(t, s.EraseThread(t.Context(), in("a")))
	require.Empty(t, previews(t, s, "a"))
}

func testWaitingRecords(t *testing.T, s whole) {
	asked := func(id, call string, q any) event.Record {
		typ := event.TypeApprovalRequest
		switch q.(type) {
		case event.ClientCall:
			typ = event.TypeClientCall
		case event.InputRequest:
			typ = event.TypeInputRequest
		}
		return event.NewRecord(id, typ, "e", call, start, q).In("e")
	}
	ask := func(id, call string) event.Record {
		return asked(id, call, event.ApprovalRequest{ToolCallID: call, ToolName: "shell", Arguments: `{"text":"\u0000"}`})
	}
	result := func(call string) event.Record {
		return event.NewRecord(call+".result", event.TypeMessage, "e", call, start, event.Message{ToolCallID: call, SenderType: event.CreatedByTool}).In("e")
	}
	client := func(call string) event.Record {
		return asked(call+".client", call, event.ClientCall{ToolCallID: call, ToolName: "open"})
	}
	vote := decided("e", "c2", ".vote.1", 1)
	addAll(
		t, s, "waits", one(posted("e", "go"), ask("c1.request", "c1"), ask("c2.request", "c2"), ask("c3.request", "c3"), client("c4"), client("c5"),
			asked("c6.input.1", "c6", event.InputRequest{ToolCallID: "c6", ToolName: "form", Round: 1})),
		"waits", one(vote, decided("e", "c3", "", 0), result("c5")),
		"again", one(posted("e", "go"), ask("c1.request", "c1"), decided("e", "c1", "", 0), asked("c1.request.2", "c1", event.ApprovalRequest{ToolCallID: "c1", Round: 2})),
		"apart", one(ask("c1.request", "c1").In("")),
		"ended", one(posted("e", "go"), ask("c1.request", "c1"), client("c2"), ended("e", "interrupted")),
	)
	add(t, s, store.Key{Namespace: "other", ThreadID: "waits"}, store.Batch{Records: one(ask("c9.request", "c9"))})
	got, err := s.WaitingRecords(t.Context(), "default", "waits", "again", "apart", "ended", "none", "not\x00storable")
	require.NoError(t, err)
	ids := map[string][]string{}
	for thread, records := range got {
		for _, r := range records {
			ids[thread] = append(ids[thread], r.ID)
		}
	}
	require.Equal(t, map[string][]string{
		"waits": {"c1.request", "c2.request", "c4.client", "c6.input.1", vote.ID},
		"again": {"c1.request", decided("e", "c1", "", 0).ID, "c1.request.2"},
		"apart": {"c1.request"},
	}, ids)
	whole, err := s.RecordsByID(t.Context(), in("waits"), "c1.request")
	require.NoError(t, err)
	require.Equal(t, whole[0], got["waits"][0])
	got, err = s.WaitingRecords(t.Context(), "default")
	require.NoError(t, err)
	require.Empty(t, got)
}
