package thread

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

func setTo(id string, st event.ItemStatus) signals.SetStatus {
	return signals.SetStatus{EventID: id, Status: st, By: "ann", Reason: "test"}
}

// known is a thread with an event in every status: each is called as its status.
func known(t *testing.T) *State {
	t.Helper()
	s := newState()
	p := says("expired", "x")
	p.TTL = 1
	post(t, s, p)
	_, ok := s.next(at(1))
	require.False(t, ok)
	begin(t, s, "failed", "x").Runs[0].fail(t0, "no such model", false)
	s.Turns.Current.End(t0)
	arrive(t, s, says("completed", "x"))
	s.Turns.Current.Enter(t0, swallows("p"))
	s.Turns.Current.End(t0)
	post(t, s, says("overwritten", "x"))
	_, _, err := s.SetStatus(t0, setTo("overwritten", event.ItemOverwritten))
	require.NoError(t, err)
	begin(t, s, "processing", "x")
	post(t, s, says("pending", "x"))
	return s
}

// TestSetStatusTransitions: S2-46.
func TestSetStatusTransitions(t *testing.T) {
	all := []event.ItemStatus{event.ItemPending, event.ItemProcessing, event.ItemCompleted, event.ItemFailed, event.ItemExpired, event.ItemOverwritten}
	open := map[event.ItemStatus]bool{event.ItemPending: true, event.ItemProcessing: true, event.ItemFailed: true}
	for _, from := range all {
		for _, to := range all {
			t.Run("S2-46 "+string(from)+" to "+string(to), func(t *testing.T) {
				s := known(t)
				before, there := s.Queue().Find(string(from))
				require.True(t, there)
				require.Equal(t, from, before.Status)
				state := asJSON(t, s)
				it, interrupt, err := s.SetStatus(at(1), setTo(string(from), to))
				if !open[from] || to == event.ItemProcessing || to == from {
					requireField(t, "status", err)
					require.Equal(t, state, asJSON(t, s), "a refusal changes nothing")
					return
				}
				require.NoError(t, err)
				require.Equal(t, to, it.Status)
				require.Equal(t, from == event.ItemProcessing, interrupt)
				if interrupt {
					s.Turns.Interrupt(signals.Control{By: "ann"})
					s = copied(t, s)
					s.Turns.Current.Runs[0].StopRun(at(1))
					s.Turns.Current.End(at(1))
				}
				after, there := s.Queue().Find(string(from))
				require.True(t, there)
				require.Equal(t, to, after.Status)
				require.Equal(t, to == event.ItemPending, s.Awaits(string(from)))
				require.Equal(t, 1, occurrences(s, string(from)), "S2-47 it is in one place")
				if to == event.ItemPending {
					require.Equal(t, 1, after.Attempt)
					require.Empty(t, withEvent(s.Turns.Outcomes, string(from)), "how it ended is open again")
					return
				}
				require.Len(t, withEvent(s.Turns.Outcomes, string(from)), 1)
				require.Equal(t, "test", after.Error)
				status := pending(s, event.TypeStatus)
				require.Contains(t, asJSON(t, payloads(t, status)), asJSON(t, event.StatusChange{Status: string(to), Detail: string(from), By: "ann"}), "who did it is kept")
				require.Contains(t, recordIDs(s.Outbox.Pending), string(from), "S2-46 the event itself is kept, though it was never processed")
			})
		}
	}
}

func payloads(t *testing.T, records []event.Record) []event.StatusChange {
	t.Helper()
	out := []event.StatusChange{}
	for _, r := range records {
		out = append(out, payload[event.StatusChange](t, r))
	}
	return out
}

// occurrences counts in how many places a thread has an event.
func occurrences(s *State, id string) int { return places(s)[id] }

// places counts in how many places a thread has its events.
func places(s *State) map[string]int {
	v, n := s.Queue(), map[string]int{}
	for _, items := range [][]event.Item{v.Items, v.Waiting, v.Failed, v.Ended} {
		for _, it := range items {
			n[it.ID]++
		}
	}
	if v.Processing != nil {
		n[v.Processing.ID]++
	}
	return n
}

func TestSetStatusRefused(t *testing.T) {
	for _, tc := range []struct {
		field  string
		change func(*signals.SetStatus)
	}{
		{"eventId", func(c *signals.SetStatus) { c.EventID = "" }},
		{"eventId", func(c *signals.SetStatus) { c.EventID = "e9" }},
		{"by", func(c *signals.SetStatus) { c.By = "" }},
		{"reason", func(c *signals.SetStatus) { c.Reason = strings.Repeat("x", 4097) }},
		{"status", func(c *signals.SetStatus) { c.Status = "" }},
		{"status", func(c *signals.SetStatus) { c.Status = "done" }},
		{"priority", func(c *signals.SetStatus) { c.Priority = new(int) }},
		{"priority", func(c *signals.SetStatus) {
			c.EventID, c.Status, c.Priority = "processing", event.ItemPending, new(int)
		}},
		{"content", func(c *signals.SetStatus) { c.Content = "other" }},
		{"content", func(c *signals.SetStatus) { c.Status, c.Content = event.ItemPending, " \n" }},
		{"content", func(c *signals.SetStatus) { c.Status, c.Content, c.By = event.ItemPending, "other", "bob" }},
		{"content", func(c *signals.SetStatus) {
			c.EventID, c.Status, c.Content = "processing", event.ItemPending, "other"
		}},
		{"content", func(c *signals.SetStatus) {
			c.EventID, c.Status, c.Content = "failed", event.ItemPending, "other"
		}},
		{"payload", func(c *signals.SetStatus) {
			c.Status, c.Content = event.ItemPending, strings.Repeat("x", signals.MaxPayload)
		}},
	} {
		s := known(t)
		before := asJSON(t, s)
		c := setTo("pending", event.ItemCompleted)
		tc.change(&c)
		_, _, err := s.SetStatus(t0, c)
		requireField(t, tc.field, err)
		require.Equal(t, before, asJSON(t, s))
	}
	s := known(t)
	s.Closing = &signals.Control{}
	_, _, err := s.SetStatus(t0, setTo("pending", event.ItemCompleted))
	require.ErrorIs(t, err, ErrClosed)
}

func TestSetStatusOfWaitingEvent(t *testing.T) {
	for st, want := range map[event.ItemStatus]signals.TurnStatus{
		event.ItemCompleted: signals.TurnCompleted, event.ItemOverwritten: signals.TurnCompleted, event.ItemFailed: signals.TurnFailed, event.ItemExpired: signals.TurnExpired,
	} {
		s := newState()
		post(t, s, says("e1", "x"))
		_, _, err := s.SetStatus(t0, setTo("e1", st))
		require.NoError(t, err)
		require.Equal(t, signals.TurnResult{EventID: "e1", Status: want, Error: "test", LastRecord: s.Outbox.Pending[len(s.Outbox.Pending)-1].ID}, ended(t, s, "e1"), "who waits for its turn is told")
		_, ok := s.next(t0)
		require.False(t, ok, "it is never processed")
		if st == event.ItemFailed {
			require.NoError(t, s.Retry(t0, signals.Control{EventID: "e1"}), "S2-17")
			require.True(t, s.Awaits("e1"))
		}
	}
}

func TestMoveInTheQueue(t *testing.T) {
	s := newState()
	for _, id := range []string{"e1", "e2", "e3"} {
		post(t, s, says(id, "x"))
	}
	move := func(id string, priority int) event.Item {
		c := setTo(id, event.ItemPending)
		c.Priority = &priority
		it, interrupt, err := s.SetStatus(t0, c)
		require.NoError(t, err)
		require.False(t, interrupt)
		return it
	}
	order := func() (ids []string) {
		for _, it := range s.Inbox.items() {
			ids = append(ids, it.ID)
		}
		return ids
	}
	require.Equal(t, 1, move("e3", 1).Priority)
	require.Equal(t, []string{"e3", "e1", "e2"}, order())
	move("e1", -1)
	require.Equal(t, []string{"e3", "e2", "e1"}, order())
	last := s.Outbox.Pending[len(s.Outbox.Pending)-1]
	require.JSONEq(t, `{"status":"pending","detail":"priority -1","by":"ann"}`, string(last.Payload), "who moved it is stored")

	_, _, err := s.SetStatus(t0, setTo("e2", event.ItemFailed))
	require.NoError(t, err)
	require.Equal(t, 7, move("e2", 7).Priority, "a failed event is retried at its new place")
	require.Equal(t, []string{"e2", "e3", "e1"}, order())
}

// TestWaitInTheQueue: the record of a message tells since when it waited.
func TestWaitInTheQueue(t *testing.T) {
	for waited, posted := range map[time.Duration]time.Time{999 * time.Millisecond: {}, time.Second: t0, time.Hour: t0} {
		s := newState()
		post(t, s, says("e1", "x"))
		q, ok := s.next(t0.Add(waited))
		require.True(t, ok)
		s.begin(t0.Add(waited), q)
		var m event.Message
		require.NoError(t, json.Unmarshal(s.Outbox.Pending[len(s.Outbox.Pending)-1].Payload, &m))
		require.Equal(t, "x", m.Content)
		require.True(t, posted.Equal(m.PostedAt), "after %s: %s", waited, m.PostedAt)
	}
}

func TestEditInTheQueue(t *testing.T) {
	edit := func(s *State, id, content string) (event.Item, error) {
		c := setTo(id, event.ItemPending)
		c.Content = content
		it, interrupt, err := s.SetStatus(at(1), c)
		require.False(t, interrupt)
		return it, err
	}
	s := newState()
	p := says("e1", "to production")
	p.Payload = []byte(`{"threadId":"t1","senderId":"ann","senderType":"user","content":"to production","metadata":{"n":12345678901234567890}}`)
	p.Priority, p.TTL = 3, 60_000
	post(t, s, p)
	before := s.Inbox.Queue[0]
	it, err := edit(s, "e1", "to <staging> @critic")
	require.NoError(t, err)
	require.JSONEq(t, `{"threadId":"t1","senderId":"ann","senderType":"user","content":"to <staging> @critic","metadata":{"n":12345678901234567890}}`, string(it.Payload))
	require.Contains(t, string(it.Payload), "12345678901234567890", "exactly")
	require.Equal(t, at(1), it.UpdatedAt)
	after := s.Inbox.Queue[0]
	after.Item.Payload, after.Item.UpdatedAt, after.content = before.Item.Payload, before.Item.UpdatedAt, before.content
	require.Equal(t, before, after, "nothing else changes")
	last := s.Outbox.Pending[len(s.Outbox.Pending)-1]
	require.JSONEq(t, `{"status":"pending","detail":"edited","by":"ann"}`, string(last.Payload), "who edited it is stored")
	post(t, s, p)
	q, ok := s.next(at(1))
	require.True(t, ok)
	require.Equal(t, "to <staging> @critic", q.message().Content, "a repeated post changes nothing")

	s = newState()
	post(t, s, says("e1", strings.Repeat("x", signals.MaxPayload/2)))
	for i := range 4 {
		post(t, s, says(fmt.Sprintf("f%d", i), strings.Repeat("x", signals.MaxPayload/2)))
	}
	_, err = edit(s, "e1", strings.Repeat("x", signals.MaxPayload-1000))
	require.ErrorIs(t, err, ErrFull)

	for name, change := range map[string]func(*Queued){
		"hooked":      func(q *Queued) { q.Hooked = true },
		"derived":     func(q *Queued) { q.Origin = &Origin{Root: "e0"} },
		"for another": func(q *Queued) { q.User = "bob" },
		"stored":      func(q *Queued) { q.Stored = true },
		"not loaded":  func(q *Queued) { *q = q.withoutContent() },
		"retried":     func(q *Queued) { q.Item.Attempt = 1 },
		"of no user":  func(q *Queued) { q.read().Message.SenderType = event.CreatedBySystem },
		"no message":  func(q *Queued) { q.Item.Type = "deploy" },
		"of somebody": func(q *Queued) { q.read().Message.SenderID, q.User = "bob", "bob" },
	} {
		s := newState()
		post(t, s, says("e1", "x"))
		change(&s.Inbox.Queue[0])
		state := asJSON(t, s)
		_, err := edit(s, "e1", "y")
		requireField(t, "content", err)
		require.Equal(t, state, asJSON(t, s), name)
	}
	s = newState()
	post(t, s, says("e1", "x"))
	s.Inbox.Queue[0].read().Message.SenderID, s.Inbox.Queue[0].User = "user", "user"
	_, err = edit(s, "e1", "y")
	require.NoError(t, err, "the sender is nobody")
}

func TestSetStatusWhileHooksDecide(t *testing.T) {
	s := newState()
	arrive(t, s, says("e1", "x"))
	s.Turns.Current.HooksStarted(s.Turns.Current.ItemEvent(), watch...)
	_, interrupt, err := s.SetStatus(t0, setTo("e1", event.ItemPending))
	require.NoError(t, err)
	require.True(t, interrupt)
	s.Turns.Interrupt(signals.Control{})
	require.Equal(t, signals.TurnInterrupted, s.Turns.Current.End(t0).Status)
	turn := next(t, s)
	_, seen := turn.DecidedBefore()
	require.False(t, seen, "they had not decided: they are asked anew")
	require.Equal(t, "e1~1", s.Turns.Current.ItemEvent().Key)
	require.Empty(t, turn.Intercepting)
	s.Turns.Current.Enter(t0, pass)
	takeStep(t, s, turn.Runs[0], "fine")
	s.Turns.Current.End(t0)
	require.Equal(t, signals.TurnCompleted, ended(t, s, "e1").Status)
}

// TestSetStatusTooLate: the turn is over before the interrupt reaches it.
func TestSetStatusTooLate(t *testing.T) {
	s := newState()
	r := begin(t, s, "e1", "x").Runs[0]
	takeStep(t, s, r, "all said")
	_, interrupt, err := s.SetStatus(t0, setTo("e1", event.ItemFailed))
	require.NoError(t, err)
	require.True(t, interrupt)
	s.Turns.Interrupt(signals.Control{})
	require.Equal(t, signals.TurnCompleted, s.Turns.Current.End(t0).Status)
	it, _ := s.Queue().Find("e1")
	require.Equal(t, event.ItemCompleted, it.Status)
}

func TestCancel(t *testing.T) {
	s := newState()
	begin(t, s, "e1", "x")
	post(t, s, says("e2", "waits"))
	require.False(t, s.CancelEvent(t0, signals.Control{EventID: "e1"}), "it does not wait")
	require.False(t, s.CancelEvent(t0, signals.Control{EventID: "e9"}))
	require.True(t, s.CancelEvent(t0, signals.Control{EventID: "e2", By: "ann", Reason: "never mind"}))
	require.Equal(t, signals.TurnInterrupted, ended(t, s, "e2").Status)
	it, _ := s.Queue().Find("e2")
	require.Equal(t, event.ItemCompleted, it.Status)
	require.NotEmpty(t, it.Error)
	require.Contains(t, recordIDs(s.Outbox.Pending), "e2", "what was said is kept")
	require.Equal(t, event.StatusChange{Status: event.StatusInterrupted, By: "ann", Detail: "never mind"}, payload[event.StatusChange](t, s.Outbox.Pending[len(s.Outbox.Pending)-2]))
	require.Empty(t, s.Inbox.Queue)
	require.Equal(t, Posted{EventID: "e2", Duplicate: true}, post(t, s, says("e2", "waits")))
}

// TestCancelWhatWasMade: the turn of an event goes on with what hooks have made of it,
// also while another event is processed.
func TestCancelWhatWasMade(t *testing.T) {
	s := newState()
	arrive(t, s, says("e1", "hello"))
	s.Turns.Current.Enter(t0, answers("guard", "one"))
	urgent := says("e2", "first")
	urgent.Priority = 9
	post(t, s, urgent)
	s.Turns.Current.End(t0)
	next(t, s)
	require.Equal(t, "e2", s.Turns.Current.Item.ID)
	require.True(t, s.Awaits("e1"))
	require.True(t, s.CancelEvent(t0, signals.Control{EventID: "e1", By: "ann"}))
	require.Empty(t, s.Inbox.Queue)
	require.Equal(t, signals.TurnInterrupted, ended(t, s, "e1").Status)
	require.False(t, s.Awaits("e1"))
	require.Empty(t, s.Turns.Roots)
}

// TestInterruptEndsWhatWasMade: a turn is all that was made of its event, whichever part of
// that is being processed.
func TestInterruptEndsWhatWasMade(t *testing.T) {
	three := []hook.Response{{Content: "one", SenderType: event.CreatedByUser}, {Content: "two", SenderType: event.CreatedByUser}, {Content: "three", SenderType: event.CreatedByUser}}
	for _, processed := range []string{"a part of it", "the event itself"} {
		t.Run(processed, func(t *testing.T) {
			s := newState()
			stop := signals.Control{Action: signals.ControlInterrupt, By: "ann", Reason: "enough"}
			if processed == "a part of it" {
				arrive(t, s, says("e1", "hello"))
				s.Turns.Current.Enter(t0, responds("guard", three...))
				s.Turns.Current.End(t0)
				next(t, s)
				s.Turns.Current.Enter(t0, pass)
			} else {
				s, _ = called(t, runs("c1"), runs("c2"))
				r := s.Turns.Current.Runs[0]
				r.ApplyCallsDecision(t0, pass)
				r.Calls[0].CallRan(step.ToolReply{ToolCallID: "c1", Status: "succeeded"})
				for i := range three {
					three[i].EnqueueAfter = hook.EnqueueImmediately
				}
				r.Calls[0].ApplyResultDecision(t0, responds("guard", three...))
				require.Len(t, s.Inbox.Queue, 3)
			}
			post(t, s, says("e2", "of somebody else"))
			s.Turns.Interrupt(stop)
			s.CancelDerived(t0, stop)
			require.Equal(t, []string{"e2"}, ids(s.Inbox.items()))
			s.Turns.Current.Runs[0].StopRun(t0)
			s.Turns.Current.End(t0)
			out := ended(t, s, "e1")
			require.Equal(t, signals.TurnInterrupted, out.Status)
			require.Empty(t, s.Turns.Roots)
			require.Equal(t, "e2", next(t, s).Item.ID)
		})
	}
}

// TestInterruptWhileJoining: a message that is about to join a turn is interrupted with it.
func TestInterruptWhileJoining(t *testing.T) {
	s := newState()
	r := begin(t, s, "e1", "hello").Runs[0]
	for _, id := range []string{"e2", "e3"} {
		p := says(id, "and mind the gap")
		p.OnBusy = event.OnBusySteer
		post(t, s, p)
	}
	q, ok := s.Turns.Current.NextSteered(t0)
	require.True(t, ok)
	require.True(t, s.Turns.InTurn("e2"))
	s.Turns.Interrupt(signals.Control{EventID: "e2", By: "ann", Reason: "never mind"})
	s.Turns.Current.PutBack(t0, q)
	require.Equal(t, []string{"e3"}, ids(s.Inbox.items()))
	r.StopRun(t0)
	s.Turns.Current.End(t0)
	for _, id := range []string{"e1", "e2"} {
		require.Equal(t, signals.TurnInterrupted, ended(t, s, id).Status)
	}
	require.True(t, s.Awaits("e3"))
}

// TestSteerWithOptions: what a post says about its turn holds for a turn of its own.
func TestSteerWithOptions(t *testing.T) {
	for name, say := range map[string]func(*signals.Post){
		"agents": func(p *signals.Post) { p.Agents = []string{"bob"} },
		"tools":  func(p *signals.Post) { p.Tools = []string{} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newState()
			begin(t, s, "e1", "hello")
			p := says("e2", "and mind the gap")
			p.OnBusy = event.OnBusySteer
			say(&p)
			post(t, s, p)
			_, ok := s.Turns.Current.NextSteered(t0)
			require.False(t, ok)
			require.Equal(t, []string{"e2"}, ids(s.Inbox.items()))
		})
	}
}

func TestInTurn(t *testing.T) {
	s := newState()
	require.False(t, s.Turns.InTurn("e1"))
	begin(t, s, "e1", "x")
	p := says("e2", "joins")
	p.OnBusy = event.OnBusySteer
	post(t, s, p)
	require.False(t, s.Turns.InTurn("e2"))
	require.True(t, s.joined(t0))
	require.True(t, s.Turns.InTurn("e1"))
	require.True(t, s.Turns.InTurn("e2"))
	require.False(t, s.Turns.InTurn("e3"))
}

func TestEndedItems(t *testing.T) {
	s := newState()
	for i := range maxEnded + 3 {
		arrive(t, s, says(name(i), "x"))
		s.Turns.Current.Enter(t0, swallows("p"))
		s.Turns.Current.End(t0)
	}
	require.Len(t, s.Inbox.Ended, maxEnded)
	require.Equal(t, name(3), s.Inbox.Ended[0].ID, "the oldest are forgotten")
	require.Equal(t, name(maxEnded+2), s.Inbox.Ended[maxEnded-1].ID)
	for _, it := range s.Inbox.Ended {
		require.Nil(t, it.Payload, "payloads are in the store")
		require.Equal(t, "e", it.TraceID[:1])
	}
	view := copied(t, s).Queue()
	require.Equal(t, asJSON(t, s.Inbox.Ended), asJSON(t, view.Ended))
	require.NotNil(t, newState().Queue().Ended, "a list, also when it is empty")
}

// TestSteeredItem: who joins a turn has a place at every moment, and a status in the end.
func TestSteeredItem(t *testing.T) {
	steered := func(t *testing.T) (*State, Queued) {
		s := newState()
		begin(t, s, "e1", "x")
		p := says("e2", "joins")
		p.OnBusy = event.OnBusySteer
		post(t, s, p)
		q, ok := s.Turns.Current.NextSteered(t0)
		require.True(t, ok)
		return s, q
	}
	for _, tc := range []struct {
		decision step.HookDecision
		status   event.ItemStatus
		replyTo  string
	}{
		{pass, event.ItemCompleted, "e2"},
		{replaces("guard", saying(event.CreatedByUser, "ann", "other")), event.ItemCompleted, "e2"},
		{replaces("route", calling("assistant", "x1")), event.ItemCompleted, "e1"},
		{answers("guard", "no"), event.ItemCompleted, "e1"},
		{produces("p", hook.NewProduced("note.taken", 1)), event.ItemOverwritten, "e1"},
		{refuses("guard", "it broke"), event.ItemFailed, "e1"},
	} {
		t.Run("S2-37 "+string(tc.decision.Outcome), func(t *testing.T) {
			s, q := steered(t)
			require.True(t, s.Awaits("e2"), "also while hooks decide on it")
			require.Equal(t, "e1", q.Item.TraceID, "S2-40")
			s.Turns.Current.Join(t0, q, tc.decision)
			it, ok := s.Queue().Find("e2")
			require.True(t, ok)
			require.Equal(t, tc.status, it.Status)
			require.Equal(t, 1, occurrences(s, "e2"))
			require.Equal(t, tc.replyTo, s.Turns.Current.Runs[0].ReplyTo)
			require.Empty(t, s.Turns.Current.Joining)
			if tc.status != event.ItemFailed {
				require.True(t, s.Awaits("e2"))
				return
			}
			out := ended(t, s, "e2")
			require.Equal(t, signals.TurnFailed, out.Status, "S2-16")
			require.Equal(t, "it broke", out.Error)
			require.NoError(t, s.Retry(t0, signals.Control{EventID: "e2"}), "S2-17 nothing is lost")
			takeStep(t, s, s.Turns.Current.Runs[0], "done")
			s.Turns.Current.End(t0)
			require.Equal(t, signals.TurnCompleted, ended(t, s, "e1").Status, "the turn itself has not failed")
			require.Equal(t, "e2", next(t, s).Item.ID)
		})
	}
	t.Run("S0-14 what became calls is run in the turn", func(t *testing.T) {
		s, q := steered(t)
		s.Turns.Current.Join(t0, q, replaces("route", calling("assistant", "x1")))
		require.Len(t, s.Turns.Current.Runs, 2)
		r := s.Turns.Current.Runs[1]
		require.Equal(t, PhasePlan, r.Phase)
		require.Len(t, r.Plan, 1)
		said := pending(s, event.TypeMessage)
		m := payload[event.Message](t, said[len(said)-1])
		require.Equal(t, "e1.1.0", m.ID)
		require.Equal(t, "e2", m.ReplyToMessageID)
	})
	t.Run("S2-38 it goes back to its place", func(t *testing.T) {
		s := newState()
		begin(t, s, "e1", "x")
		put := func(now int, id string, busy event.OnBusy) {
			p := says(id, "x")
			p.OnBusy = busy
			_, err := postAt(s, at(now), p)
			require.NoError(t, err)
		}
		put(1, "e2", "")
		put(2, "e3", event.OnBusySteer)
		put(3, "e4", "")
		q, ok := s.Turns.Current.NextSteered(at(3))
		require.True(t, ok)
		put(4, "e5", event.OnBusyInterrupt)
		s.Turns.Current.PutBack(t0, q)
		require.Equal(t, []string{"e5", "e2", "e3", "e4"}, ids(s.Inbox.items()), "who interrupts is heard next")
	})
	t.Run("S2-50 it goes back when the turn stops before they have decided", func(t *testing.T) {
		s, q := steered(t)
		key := s.Turns.Current.SteeredEvent(q).Key
		s.Turns.Current.PutBack(t0, q)
		require.True(t, s.Awaits("e2"))
		require.Empty(t, s.Turns.Current.Joining)
		s = copied(t, s)
		q, ok := s.Turns.Current.NextSteered(t0)
		require.True(t, ok)
		require.Equal(t, key, s.Turns.Current.SteeredEvent(q).Key, "what the same turn has asked is heard in the next run")
		s.Turns.Current.PutBack(t0, q)
		s.Turns.Interrupt(signals.Control{})
		s.Turns.Current.Runs[0].StopRun(t0)
		s.Turns.Current.End(t0)
		post(t, s, says("e3", "x"))
		s.Inbox.Queue[0].Item.Priority = -1
		require.Equal(t, "e3", next(t, s).Item.ID)
		q, _ = s.Turns.Current.NextSteered(t0)
		require.NotEqual(t, key, s.Turns.Current.SteeredEvent(q).Key, "another turn asks anew: the first hook workflow may still be on its way to its end")
	})
}

// TestPostIsReadOnce: what was read of a post goes with it through the queue into its turn.
func TestPostIsReadOnce(t *testing.T) {
	s := newState()
	in, err := s.ReadPost(says("e1", "hello"))
	require.NoError(t, err)
	_, err = s.Post(t0, in)
	require.NoError(t, err)
	require.Same(t, in.content.Message, s.Inbox.Queue[0].read().Message)
	s.BeginNext(t0)
	require.Same(t, in.content.Message, s.Turns.Current.read().Message)
}
