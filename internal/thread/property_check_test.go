package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/store"
)

// check is what holds at every moment.
func (m *machine) check() {
	seen := map[string]int{}
	for _, r := range m.s.Outbox.Pending {
		seen[r.ID]++
	}
	for id := range m.store {
		seen[id]++
	}
	m.checkCalls(seen)
	m.checkEvents(seen)
	m.checkTasks(seen)
	if len(seen)%4 == 0 {
		m.checkWaits()
	}
	if !m.hooked && m.crowd == nil || m.one(4) {
		require.Equal(m.t, asJSON(m.t, m.s), asJSON(m.t, copied(m.t, m.s)), "a round trip changes nothing")
	}
}

// open are the calls that have no result yet.
func (m *machine) open() map[string]bool {
	open := map[string]bool{}
	for _, t := range m.s.Turns.all() {
		for _, r := range t.Runs {
			for _, c := range r.Calls {
				if c.Stage == CallWaiting || c.Stage == CallReady || c.Stage == CallDelegated || c.Stage == CallAtClient {
					open[c.Plan.ID] = true
				}
			}
			if r.hasReply() {
				for _, p := range r.open() {
					open[p.ID] = true
				}
			}
		}
	}
	return open
}

func (m *machine) checkCalls(seen map[string]int) {
	open := m.open()
	for id := range m.asked {
		results := seen[recordid.Result(id)]
		if open[id] {
			require.Zero(m.t, results, "call %s has a result and is open", id)
		} else {
			require.Equal(m.t, 1, results, "call %s has no result and is not open", id)
		}
	}
}

// checkWaits: by the records, the same calls wait as by the thread, and those for people are marked in the store; except that those of an interrupted turn have records of
// their ends a moment later. The machine does not store the first request of a call, which its planning does.
func (m *machine) checkWaits() {
	if slices.ContainsFunc(m.s.Turns.all(), func(t *Turn) bool { return t.Interrupted != nil }) {
		return
	}
	var records []event.Record
	want := map[string]bool{}
	waits := func(id string, what string, round int) { want[fmt.Sprintf("%s %s %d", id, what, max(round, 1))] = true }
	m.s.Turns.eachCall(func(c *Call) {
		if c.Requested != nil {
			records = append(records, event.NewRecord(recordid.Request(*c.Requested), event.TypeApprovalRequest, "", "", m.now, *c.Requested))
		}
	})
	for _, q := range m.s.Approvals() {
		waits(q.ToolCallID, "approval", q.Round)
	}
	for _, q := range m.s.InputRequests() {
		waits(q.ToolCallID, "input", q.Round)
	}
	for _, c := range m.s.Turns.ClientCalls() {
		waits(c.ToolCallID, "client", 1)
	}
	records = append(append(records, m.order...), m.s.Outbox.Pending...)
	got, asks, marked := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range feed.Calls(records).Waiting() {
		switch {
		case c.Input != nil:
			got[fmt.Sprintf("%s input %d", c.ID, max(c.Input.Round, 1))] = true
		case c.Client != nil:
			got[fmt.Sprintf("%s client 1", c.ID)] = true
			continue
		default:
			got[fmt.Sprintf("%s approval %d", c.ID, max(c.Request.Round, 1))] = true
		}
		asks[c.ID] = true
	}
	require.Equal(m.t, want, got)
	for _, c := range store.MarkChanges(records) {
		if c.Kind == store.ActivityWaiting && c.ID != "" && !c.Ends {
			marked[c.ID] = true
		}
	}
	require.Equal(m.t, asks, marked)
}

// checkEvents: each event waits, is being processed, or has ended; and is in one place.
func (m *machine) checkEvents(seen map[string]int) {
	for _, q := range m.s.Inbox.Queue {
		id := q.Item.ID
		if _, known := m.arrived[id]; !known {
			m.arrived[id] = len(m.arrived)
			m.made[id] = q.Origin != nil
		}
	}
	waits, held := map[string]int{}, places(m.s)
	for _, q := range m.s.Inbox.Queue {
		waits[q.Item.ID]++
	}
	for _, id := range m.posted {
		m.checkEvent(id, seen, waits[id], held[id])
	}
	for id, made := range m.made {
		if made {
			m.checkEvent(id, seen, waits[id], held[id])
		}
	}
}

func (m *machine) checkEvent(id string, seen map[string]int, waits, places int) {
	require.LessOrEqual(m.t, waits, 1, "event %s waits twice", id)
	_, ended := m.s.Turns.Outcome(id)
	awaits := m.s.Awaits(id)
	require.False(m.t, awaits && ended, "event %s awaits and has ended", id)
	m.done[id] = !awaits && (ended || m.done[id])
	require.True(m.t, awaits || m.done[id], "event %s is lost", id)
	if !awaits {
		require.True(m.t, seen[id] > 0 || seen[id+".expired"] > 0, "event %s left no record", id)
	}
	require.LessOrEqual(m.t, places, 1, "S2-37 event %s has several statuses", id)
	if !m.closed && len(m.s.Inbox.Ended) < maxEnded && len(m.s.Inbox.Failed) < maxFailed {
		require.Equal(m.t, 1, places, "S2-37 event %s has no status", id)
	}
}

// checkOrder is what holds of the event that is processed next, given those that waited.
func (m *machine) checkOrder(q Queued, waiting []event.Item) {
	for _, other := range m.s.Inbox.Queue {
		if len(m.s.Turns.Parked) > 0 && !m.s.Turns.mayPassWaiting(&other) {
			continue // it waits for the turn that waits for people
		}
		require.LessOrEqual(m.t, other.Item.Priority, q.Item.Priority, "S2-38")
		if other.Item.Priority != q.Item.Priority || other.Item.Attempt+q.Item.Attempt > 0 {
			continue
		}
		if other.Released != nil || q.Released != nil {
			continue // it waits anew
		}
		if q.OnBusy == event.OnBusyInterrupt || other.OnBusy == event.OnBusyInterrupt {
			continue // who interrupts goes ahead
		}
		mine, its := q.Origin, other.Origin
		switch {
		case mine == nil && its == nil:
			require.Less(m.t, m.arrived[q.Item.ID], m.arrived[other.Item.ID], "S2-38 ties in order of arrival: %v", ids(waiting))
		case mine == nil && !event.Background(other.Item.Type):
			require.Fail(m.t, "S0-20 what was made goes ahead of its equals", "%s before %s", q.Item.ID, other.Item.ID)
		case mine != nil && its != nil && mine.Root == its.Root:
			require.Less(m.t, q.Item.CreatedAt.UnixNano(), other.Item.CreatedAt.UnixNano()+1, "S0-20 in the order in which it was made: %s", asJSON(m.t, []Queued{q, other}))
		}
	}
}

// checkEnds counts the runs of a turn of which viewers are told an end of their own: all,
// but those in whose place hooks have answered.
func (m *machine) checkEnds(t *Turn) int {
	ends := 0
	for _, r := range t.Runs {
		want := 1
		if r.Phase == PhaseAnswered {
			want = 0
		}
		ends += want
		got := 0
		prefix := fmt.Sprintf("%s.%d.", m.s.Turns.Current.TurnID(), r.Slot)
		all := append([]event.Record{}, m.s.Outbox.Pending...)
		for id, r := range m.store {
			if !containsRecord(m.s.Outbox.Pending, id) {
				all = append(all, r)
			}
		}
		for _, rec := range all {
			if strings.HasPrefix(rec.ID, prefix) && (rec.Type == event.TypeFinal || rec.Type == event.TypeError) {
				got++
			}
		}
		if r.Phase == PhaseInterrupted {
			got++ // the end of the turn writes it
		}
		require.Equal(m.t, want, got, "S1-23 run %d of %s: %+v", r.Slot, m.s.Turns.Current.TurnID(), r)
	}
	return ends
}

// checkTurnsEnded: what belongs to an event ends with the announcement that its turn is over.
// Only what people do to an event by hand, and reports that come late, follow.
func (m *machine) checkTurnsEnded() {
	last, announced := map[string]event.Record{}, map[string]bool{}
	for _, r := range m.order {
		var status event.StatusChange
		byHand := r.Type == event.TypeStatus && json.Unmarshal(r.Payload, &status) == nil && status.Detail == r.ParentEventID
		if r.EventID != "" && !byHand {
			last[r.EventID] = r
		}
		if r.Type == event.TypeTurnEnded {
			var end event.TurnEnded
			require.NoError(m.t, json.Unmarshal(r.Payload, &end))
			for _, id := range append(end.Joined, end.EventID) {
				announced[id] = true
			}
		}
	}
	for id, r := range last {
		require.Equal(m.t, event.TypeTurnEnded, r.Type, "the last record of event %s is %s", id, r.ID)
	}
	for _, id := range m.posted {
		require.True(m.t, announced[id], "the end of event %s was never announced", id)
	}
}

func containsRecord(records []event.Record, id string) bool {
	for _, r := range records {
		if r.ID == id {
			return true
		}
	}
	return false
}
