package thread

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
)

var (
	debounced = rule.Spec{Name: "d", Events: []string{"file.*"}, Debounce: 10 * time.Second, Agent: &rule.Agent{}}
	throttled = rule.Spec{Name: "t", Events: []string{"file.*"}, Throttle: 10 * time.Second, Agent: &rule.Agent{}}
)

// clock lets a thread live by its timers, as its workflow does.
type clock struct {
	t     *testing.T
	s     *State
	rules []rule.Spec

	// moves says that the thread moves to a new run whenever it waits.
	moves bool

	// handled are the events that an agent was woken for: when, which, and how many were
	// held back before it.
	handled []string
}

// until lets time pass.
func (c *clock) until(now time.Time) {
	c.t.Helper()
	for {
		due, _, ok := c.s.NextDue()
		if !ok || due.After(now) {
			return
		}
		c.s.Release(due)
		later, _, ok := c.s.NextDue()
		require.True(c.t, !ok || later.After(due), "what was due is not due again")
		c.turns(due)
	}
}

// turns processes what waits.
func (c *clock) turns(now time.Time) {
	c.t.Helper()
	for q, ok := c.s.next(now); ok; q, ok = c.s.next(now) {
		turn := c.s.begin(now, q)
		d, known := turn.DecidedBefore()
		if !known {
			d = pass
		}
		c.s.Turns.Current.Enter(now, d, c.rules...)
		for _, r := range turn.Runs {
			line := fmt.Sprintf("%gs %s", now.Sub(t0).Seconds(), turn.Item.ID)
			if r.Observe.Held > 0 {
				line += fmt.Sprintf(" +%d since %gs", r.Observe.Held, r.Observe.Since.Sub(t0).Seconds())
			}
			c.handled = append(c.handled, line)
			r.Phase = PhaseReplied
		}
		out := c.s.Turns.Current.End(now)
		require.Equal(c.t, len(turn.Runs) == 0, out.Status == signals.TurnHeld)
	}
	c.s.Outbox.Flushed(c.s.Outbox.Flush())
	if c.moves {
		c.s = copied(c.t, c.s)
	}
}

// post posts an event at a time, in seconds.
func (c *clock) post(seconds int, p signals.Post) {
	c.t.Helper()
	c.until(at(seconds))
	_, err := postAt(c.s, at(seconds), p)
	require.NoError(c.t, err)
	c.turns(at(seconds))
}

func TestHold(t *testing.T) {
	every := func(n, seconds int) (at []int) {
		for i := range n {
			at = append(at, i*seconds)
		}
		return at
	}
	for _, tc := range []struct {
		name string
		rule rule.Spec
		at   []int
		want []string
	}{
		{"S3-61 debounce: one event waits for quiet", debounced, []int{0}, []string{"10s e0"}},
		{"S3-61 debounce: the last of several", debounced, []int{0, 5, 9}, []string{"19s e2 +2 since 0s"}},
		{"debounce: all at once", debounced, []int{0, 0, 0}, []string{"10s e2 +2 since 0s"}},
		{"debounce: after the quiet it begins anew", debounced, []int{0, 3, 20, 24}, []string{"13s e1 +1 since 0s", "34s e3 +1 since 20s"}},
		{"debounce: what comes as the time is over is the next", debounced, []int{0, 10}, []string{"10s e0", "20s e1"}},
		{"S3-61 debounce: ten times its time at most", debounced, every(12, 9), []string{"100s e11 +11 since 0s"}},
		{"debounce: and then anew", debounced, every(14, 9), []string{"100s e11 +11 since 0s", "127s e13 +1 since 108s"}},
		{"S3-61 throttle: the first at once", throttled, []int{0}, []string{"0s e0"}},
		{"S3-61 throttle: then the last of those within the time", throttled, []int{0, 1, 2}, []string{"0s e0", "10s e2 +1 since 1s"}},
		{"throttle: all at once", throttled, []int{0, 0, 0}, []string{"0s e0", "10s e2 +1 since 0s"}},
		{"throttle: what is handled later counts as well", throttled, []int{0, 1, 12}, []string{"0s e0", "10s e1", "20s e2"}},
		{"throttle: after the time at once", throttled, []int{0, 10, 25}, []string{"0s e0", "10s e1", "25s e2"}},
		{"throttle: no more than one in its time", throttled, every(26, 1), []string{"0s e0", "10s e9 +8 since 1s", "20s e19 +9 since 10s", "30s e25 +5 since 20s"}},
		{"neither", woken("n", "*"), []int{0, 0, 1}, []string{"0s e0", "0s e1", "1s e2"}},
	} {
		for mode, moves := range map[string]bool{"": false, ", moving all the time": true} {
			t.Run(tc.name+mode, func(t *testing.T) {
				c := &clock{t: t, s: newState("alice"), rules: []rule.Spec{tc.rule}, moves: moves}
				for i, seconds := range tc.at {
					c.post(seconds, happens(name(i), "file.changed", fmt.Sprint(i)))
				}
				c.until(at(1000))
				require.Equal(t, tc.want, c.handled)
				require.Empty(t, c.s.Inbox.Debounced, "nothing is left")
				_, _, due := c.s.NextDue()
				require.False(t, due)
				require.Len(t, c.s.Inbox.Ended, len(tc.at), "S2-37 each has one status")
				for i := range tc.at {
					require.False(t, c.s.Awaits(name(i)))
				}
			})
		}
	}
}

// TestHoldOfSeveralRules: each rule holds back what it would handle, and no other.
func TestHoldOfSeveralRules(t *testing.T) {
	push := rule.Spec{Name: "push", Events: []string{"git.push"}, Debounce: 4 * time.Second, Agent: &rule.Agent{}}
	c := &clock{t: t, s: newState("alice"), rules: []rule.Spec{debounced, push, woken("rest", "*")}}
	c.post(0, happens("f1", "file.changed", `1`))
	c.post(1, happens("g1", "git.push", `1`))
	c.post(2, happens("f2", "file.removed", `1`))
	c.post(3, happens("x1", "alarm", `1`))
	require.Equal(t, []signals.HeldEvents{
		{Rule: "d", Count: 2, EventID: "f2", Until: at(12)}, {Rule: "push", Count: 1, EventID: "g1", Until: at(5)},
	}, c.s.View().Held)
	due, _, ok := c.s.NextDue()
	require.True(t, ok)
	require.Equal(t, at(5), due, "the next that is due, whichever was first")
	c.until(at(1000))
	require.Equal(t, []string{"3s x1", "5s g1", "12s f2 +1 since 0s"}, c.handled)
}

// TestReleaseAfterAnOutage: what was due meanwhile comes in the order in which it was due.
func TestReleaseAfterAnOutage(t *testing.T) {
	push := rule.Spec{Name: "push", Events: []string{"git.push"}, Debounce: 4 * time.Second, Agent: &rule.Agent{}}
	c := &clock{t: t, s: newState("alice"), rules: []rule.Spec{debounced, push}}
	c.post(0, happens("f1", "file.changed", `1`))
	c.post(1, happens("g1", "git.push", `1`))
	c.s.Release(at(100))
	require.Equal(t, []string{"g1", "f1"}, ids(c.s.Inbox.items()))
}

func TestReleaseBeforeItsTime(t *testing.T) {
	c := &clock{t: t, s: newState("alice"), rules: []rule.Spec{debounced}}
	c.post(0, happens("e1", "file.changed", `1`))
	before := asJSON(t, c.s)
	c.s.Release(at(9))
	require.Equal(t, before, asJSON(t, c.s))
}

// TestHeldEvent: what becomes of the event itself, from its turn to the next.
func TestHeldEvent(t *testing.T) {
	s := newState("alice")
	p := happens("e1", "file.changed", `1`)
	p.Priority, p.TTL = 7, 1000
	turn := routed(t, s, p, debounced)
	require.True(t, turn.Stage == ItemDebounced)
	require.Nil(t, turn.Handling)
	require.Equal(t, signals.TurnHeld, s.Turns.Current.End(t0).Status)
	require.Equal(t, signals.TurnHeld, ended(t, s, "e1").Status, "who waits is told")
	require.Equal(t, []string{"t1.opened", "e1", "e1.held.turn_ended"}, recordIDs(s.Outbox.Pending), "it is stored once")
	s.Outbox.Flushed(s.Outbox.Flush())
	dup, err := postAt(s, at(1), p)
	require.NoError(t, err)
	require.True(t, dup.Duplicate, "S3-10 also while it is held back")

	s.Release(at(10))
	require.True(t, s.Awaits("e1"), "its turn is still to come")
	require.Equal(t, 1, occurrences(s, "e1"), "S2-37 it has one status")
	q, ok := s.next(at(3600))
	require.True(t, ok, "its ttl was that of the wait in the queue")
	require.Equal(t, 7, q.Item.Priority)
	turn = s.begin(at(3600), q)
	d, known := turn.DecidedBefore()
	require.True(t, known, "hooks have seen it")
	s.Turns.Current.Enter(at(3600), d, debounced)
	require.False(t, turn.Stage == ItemDebounced, "it is held back once")
	require.Equal(t, "e1.0.1", turn.Runs[0].NextModelStep(nil).MessageID)
	require.Empty(t, s.Outbox.Pending, "it is stored already")
	turn.Runs[0].Phase = PhaseReplied
	s.Turns.Current.End(at(3600))
	require.Equal(t, signals.TurnCompleted, ended(t, s, "e1").Status)
}

// TestHeldEventOfAHook: what a hook has made belongs to a turn that may long be over when
// it is handled.
func TestHeldEventOfAHook(t *testing.T) {
	s := newState("alice")
	arrive(t, s, says("e1", "hello"))
	made := produces("guard", hookEvent("file.changed"))
	s.Turns.Current.Enter(t0, made)
	s.Turns.Current.End(t0)
	turn := next(t, s)
	s.Turns.Current.Enter(t0, pass, debounced)
	require.True(t, turn.Stage == ItemDebounced)
	s.Turns.Current.End(t0)
	require.Equal(t, signals.TurnCompleted, ended(t, s, "e1").Status)
	require.Empty(t, s.Turns.Roots, "nobody waits for what is held back")

	s.Release(at(10))
	turn = next(t, s)
	s.Turns.Current.Enter(at(10), pass, rule.Spec{Name: "p", Events: []string{"*"}, Processor: "sorter"})
	s.Turns.Current.ApplyProcessorDecision(at(10), produces("sorter", hookEvent("note.taken")))
	s.Turns.Current.End(at(10))
	require.True(t, s.Awaits(turn.Item.ID), "what is made of it now belongs to its own turn")
	require.False(t, s.Awaits("e1"), "which has ended")
	next(t, s)
	s.Turns.Current.Enter(at(10), pass)
	s.Turns.Current.End(at(10))
	require.Empty(t, s.Turns.Roots)
	require.False(t, s.Awaits(turn.Item.ID))
}

// TestHeldEventIsHandledByTheRulesOfThatTime: rules may have changed meanwhile.
func TestHeldEventIsHandledByTheRulesOfThatTime(t *testing.T) {
	c := &clock{t: t, s: newState("alice"), rules: []rule.Spec{debounced}}
	c.post(0, happens("e1", "file.changed", `1`))
	c.rules = []rule.Spec{throttled}
	c.until(at(10))
	require.Equal(t, []string{"10s e1"}, c.handled, "it has waited already")
	c.rules = []rule.Spec{debounced}
	c.post(20, happens("e2", "file.changed", `1`))
	c.rules = nil
	c.until(at(29))
	require.Len(t, c.handled, 1)
	c.s.Release(at(30))
	turn := next(t, c.s)
	c.s.Turns.Current.Enter(at(30), pass)
	require.Nil(t, turn.Handling, "there is none any more")
}

// TestRetryOfAHeldEvent: who retries wants it now.
func TestRetryOfAHeldEvent(t *testing.T) {
	for _, tc := range []struct {
		rule     rule.Spec
		released int
	}{{debounced, 10}, {throttled, 0}} {
		t.Run(tc.rule.Name, func(t *testing.T) {
			tc.rule.Function = true
			s := newState("alice")
			turn := routed(t, s, happens("e1", "file.changed", `1`), tc.rule)
			if turn.Stage == ItemDebounced {
				s.Turns.Current.End(t0)
				s.Release(at(tc.released))
				next(t, s)
				s.Turns.Current.Enter(at(tc.released), pass, tc.rule)
			}
			s.Turns.Current.FunctionFailed(at(tc.released), "no")
			s.Turns.Current.End(at(tc.released))
			require.NoError(t, s.Retry(at(11), signals.Control{}))
			turn = next(t, s)
			s.Turns.Current.Enter(at(11), pass, tc.rule)
			require.False(t, turn.Stage == ItemDebounced)
			require.Equal(t, HandlingFunction, turn.Handling.Stage)
			require.Equal(t, 1, turn.Item.Attempt)
		})
	}
}

// TestHeldEventsAreBounded: what is held back waits no longer than there is room for it,
// and leaves the queue to others.
func TestHeldEventsAreBounded(t *testing.T) {
	s := newState("alice")
	large := happens("e1", "file.changed", `"`+strings.Repeat("x", signals.MaxPayload-100)+`"`)
	routed(t, s, large, debounced)
	s.Turns.Current.End(t0)
	require.Zero(t, s.queuedBytes())
	due, _, ok := s.NextDue()
	require.True(t, ok)
	require.Equal(t, t0, due)
	s.Release(t0)
	require.Empty(t, s.Inbox.Debounced)
	require.Equal(t, "e1", s.Inbox.Queue[0].Item.ID)
	require.Less(t, len(asJSON(t, s.Carried())), 2<<20)
}

// TestHeldEventIsCancelled: an interrupt of one that is held back takes it out.
func TestHeldEventIsCancelled(t *testing.T) {
	s := newState("alice")
	routed(t, s, happens("e1", "file.changed", `1`), debounced)
	s.Turns.Current.End(t0)
	require.True(t, s.CancelEvent(at(1), signals.Control{Action: signals.ControlInterrupt, EventID: "e1"}))
	require.Empty(t, s.Inbox.Debounced)
	require.Equal(t, signals.TurnInterrupted, ended(t, s, "e1").Status)
	s.Release(at(100))
	require.Empty(t, s.Inbox.Queue)
}

// TestCloseWithHeldEvents: they are in the store, and nothing else waits for them.
func TestCloseWithHeldEvents(t *testing.T) {
	s := newState("alice")
	routed(t, s, happens("e1", "file.changed", `1`), debounced)
	s.Turns.Current.End(t0)
	s.Closing = &signals.Control{Action: signals.ControlClose}
	s.Close(at(1))
	require.Len(t, pending(s, event.TypeEnv), 1)
	require.True(t, s.idle())
	require.Equal(t, signals.TurnHeld, ended(t, s, "e1").Status)
}

// TestIDsOfHeldEvents: the agent can look up the last of those before the one that it is
// woken for.
func TestIDsOfHeldEvents(t *testing.T) {
	c := &clock{t: t, s: newState("alice"), rules: []rule.Spec{debounced}, moves: true}
	for i := range 2 * maxHeldIDs {
		c.post(0, happens(name(i), "file.changed", fmt.Sprint(i)))
	}
	c.s.Release(at(10))
	turn := next(t, c.s)
	c.s.Turns.Current.Enter(at(10), pass, debounced)
	o := turn.Runs[0].Observe
	require.Equal(t, name(2*maxHeldIDs-1), o.EventID)
	require.Equal(t, 2*maxHeldIDs-1, o.Held)
	require.Len(t, o.HeldIDs, maxHeldIDs)
	require.Equal(t, name(maxHeldIDs-1), o.HeldIDs[0])
	require.Equal(t, name(2*maxHeldIDs-2), o.HeldIDs[maxHeldIDs-1])
}

// TestHeldEventsThatAreTooMuch: they wait no longer than there is room for them.
func TestHeldEventsThatAreTooMuch(t *testing.T) {
	push := rule.Spec{Name: "push", Events: []string{"git.push"}, Debounce: time.Hour, Agent: &rule.Agent{}}
	c := &clock{t: t, s: newState("alice"), rules: []rule.Spec{debounced, push}}
	half := `"` + strings.Repeat("x", maxHeldBytes/2) + `"`
	c.post(0, happens("f1", "file.changed", half))
	due, _, _ := c.s.NextDue()
	require.Equal(t, at(10), due)
	c.post(1, happens("g1", "git.push", half))
	due, _, _ = c.s.NextDue()
	require.Equal(t, at(1), due)
	c.until(at(1))
	require.ElementsMatch(t, []string{"1s f1", "1s g1"}, c.handled)
}

// TestInterruptOfAHeldEvent: it is never handled, and what the rule does with others stays.
func TestInterruptOfAHeldEvent(t *testing.T) {
	stop := func(c *clock, id string) bool {
		return c.s.CancelEvent(at(5), signals.Control{Action: signals.ControlInterrupt, EventID: id, By: "ann"})
	}
	t.Run("debounce", func(t *testing.T) {
		c := &clock{t: t, s: newState("alice"), rules: []rule.Spec{debounced}}
		c.post(0, happens("e1", "file.changed", `1`))
		require.True(t, stop(c, "e1"))
		require.False(t, stop(c, "e1"))
		require.Equal(t, signals.TurnInterrupted, ended(t, c.s, "e1").Status)
		require.Equal(t, 1, occurrences(c.s, "e1"), "S2-37")
		c.post(20, happens("e2", "file.changed", `1`))
		c.until(at(100))
		require.Equal(t, []string{"30s e2"}, c.handled)
	})
	t.Run("throttle", func(t *testing.T) {
		c := &clock{t: t, s: newState("alice"), rules: []rule.Spec{throttled}}
		c.post(0, happens("e1", "file.changed", `1`))
		c.post(1, happens("e2", "file.changed", `1`))
		require.True(t, stop(c, "e2"))
		c.post(6, happens("e3", "file.changed", `1`))
		c.until(at(100))
		require.Equal(t, []string{"0s e1", "10s e3"}, c.handled, "no more than one in its time")
	})
}
