package approval

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
)

// records makes records of approvals, in their order, with the ids that threads give them.
func records(approvals ...event.Approval) []event.Record {
	var out []event.Record
	for i, a := range approvals {
		suffix := ".decision"
		switch {
		case a.Decision == event.DecisionRevoked:
			suffix = ".revoked"
		case a.Missing > 0:
			suffix = ".vote." + a.By
		}
		rec := event.NewRecord(a.ToolCallID+suffix, event.TypeApproval, "", "", a.DecidedAt, a)
		rec.Seq = int64(i + 1)
		out = append(out, rec)
	}
	return out
}

// result is the record of what a call has come to.
func result(toolCallID string) event.Record {
	return event.NewRecord(toolCallID+".result", event.TypeMessage, "", "", then, event.Message{ToolCallID: toolCallID, Content: "done"})
}

func read(t *testing.T, records []event.Record) History {
	t.Helper()
	return ReadHistory(records)
}

func TestFindOnce(t *testing.T) {
	once := approvalOf(t, "call_1", shellCall(), event.ScopeOnce)
	with := func(change func(*event.Approval)) event.Approval {
		a := once
		change(&a)
		return a
	}
	denied := with(func(a *event.Approval) { a.Decision = event.DecisionDeny })
	revoked := event.Approval{ToolCallID: "call_1", Decision: event.DecisionRevoked, By: "bob", DecidedAt: then.Add(time.Minute)}
	vote := func(by string, missing int) event.Approval {
		return with(func(a *event.Approval) { a.By, a.Missing = by, missing })
	}
	round2 := with(func(a *event.Approval) { a.Round = 2 })

	t.Run("S4-T19 a once approval is recorded, and found", func(t *testing.T) {
		got, ok := read(t, records(once)).FindOnce("call_1")
		require.True(t, ok)
		require.Equal(t, once, got)
	})
	t.Run("S4-85 only until the call has run, S4-86 which consumes it", func(t *testing.T) {
		_, ok := read(t, append(records(once), result("call_1"))).FindOnce("call_1")
		require.False(t, ok)
		_, ok = read(t, append(records(once), result("call_2"))).FindOnce("call_1")
		require.True(t, ok, "another call has run")
		_, ok = read(t, append([]event.Record{result("call_1")}, records(once)...)).FindOnce("call_1")
		require.False(t, ok, "whatever the order")
	})
	t.Run("S4-87 there is no state but the records", func(t *testing.T) {
		stored := append(records(once), result("call_9"))
		raw, err := json.Marshal(stored)
		require.NoError(t, err)
		var again []event.Record
		require.NoError(t, json.Unmarshal(raw, &again))
		require.Equal(t, read(t, stored), read(t, again), "after a restart it is the same")
		_, ok := read(t, nil).FindOnce("call_1")
		require.False(t, ok)
		_, ok = History{}.FindOnce("call_1")
		require.False(t, ok)
	})
	for name, c := range map[string]struct {
		records []event.Record
		found   bool
	}{
		"another call's":                {records(with(func(a *event.Approval) { a.ToolCallID = "call_2" })), false},
		"S4-82 a denial":                {records(denied), false},
		"nobody has answered":           {records(with(func(a *event.Approval) { a.Decision = event.DecisionExpired })), false},
		"a word that is no decision":    {records(with(func(a *event.Approval) { a.Decision = "approved" })), false},
		"one of two votes":              {records(vote("ann", 1)), false},
		"both votes":                    {records(vote("ann", 1), with(func(a *event.Approval) { a.By = "bob" })), true},
		"a vote, then a denial":         {records(vote("ann", 1), denied), false},
		"a vote after the denial":       {records(denied, vote("ann", 1)), false},
		"an approval after the denial":  {records(denied, once), false},
		"a denial after the approval":   {records(once, denied), true},
		"revoked":                       {records(once, revoked), false},
		"revoked, and approved again":   {records(once, revoked, round2), true},
		"the same round again, revoked": {records(once, revoked, once), false},
		"revoked twice":                 {records(once, revoked, round2, revoked), false},
		"a later round was denied":      {records(once, with(func(a *event.Approval) { a.Round, a.Decision = 2, event.DecisionDeny })), false},
		"a later round goes on":         {records(once, with(func(a *event.Approval) { a.Round, a.Missing = 2, 1 })), false},
		"the round before, replayed":    {records(round2, revoked, once), false},
		"revoked before there was one":  {records(revoked, once), true},
		"session is for this call too":  {records(with(func(a *event.Approval) { a.Scope = event.ScopeSession })), true},
		"other records":                 {append(records(once), event.NewRecord("x", event.TypeStatus, "", "", then, 1)), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := read(t, c.records).FindOnce("call_1")
			require.Equal(t, c.found, ok)
			backwards := slices.Clone(c.records)
			slices.Reverse(backwards)
			_, ok = read(t, backwards).FindOnce("call_1")
			require.Equal(t, c.found, ok, "the place in the thread counts, not that in the list")
		})
	}
	t.Run("records that are still to be stored come last", func(t *testing.T) {
		late := records(revoked)[0]
		late.Seq = 0
		_, ok := read(t, append([]event.Record{late}, records(once)...)).FindOnce("call_1")
		require.False(t, ok)
	})
	t.Run("what cannot be read may have taken back what came before", func(t *testing.T) {
		for _, payload := range []string{`{"round":"two"}`, `{`, strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)} {
			bad := event.Record{ID: "call_0.decision", Type: event.TypeApproval, Payload: json.RawMessage(payload)}
			h := read(t, append(records(once), bad))
			_, ok := h.FindOnce("call_1")
			require.False(t, ok, "people are asked again")
			require.Empty(t, h.Grants())
			require.Equal(t, []string{"call_0.decision"}, h.Unreadable())
			later := records(once)
			bad.Seq, later[0].Seq = 1, 2
			_, ok = read(t, append(later, bad)).FindOnce("call_1")
			require.True(t, ok, "what is decided since then holds")
		}
	})
	t.Run("by a grant, as long as that holds", func(t *testing.T) {
		given := approvalOf(t, "call_0", shellCall(), event.ScopeSession)
		covered := with(func(a *event.Approval) { a.Grant, a.Scope = "call_0", event.ScopeSession })
		_, ok := read(t, records(given, covered)).FindOnce("call_1")
		require.True(t, ok)
		_, ok = read(t, records(given, covered, event.Approval{ToolCallID: "call_0", Decision: event.DecisionRevoked})).FindOnce("call_1")
		require.False(t, ok)
		_, ok = read(t, records(covered)).FindOnce("call_1")
		require.False(t, ok)
	})
}

func TestFindGrant(t *testing.T) {
	session := approvalOf(t, "call_1", shellCall(), event.ScopeSession)
	revoked := event.Approval{ToolCallID: "call_1", Decision: event.DecisionRevoked, By: "bob", DecidedAt: then.Add(time.Minute)}
	with := func(a event.Approval, change func(*event.Approval)) event.Approval {
		change(&a)
		return a
	}

	t.Run("S4-T18 a session approval is recorded, S4-84 and found", func(t *testing.T) {
		h := read(t, append(records(session), result("call_1")))
		g, ok := h.FindFor(shellCall(), Terms{})
		require.True(t, ok, "that its own call has run changes nothing")
		require.Equal(t, Grant{
			ID: "call_1", Scope: event.ScopeSession, Agent: "assistant", ToolName: "shell_cmd", Digest: session.Digest, Definition: "sha256:d1",
			WorkingDirectory: "/desk", By: "ann", GrantedAt: then,
		}, g)
		require.Equal(t, []Grant{g}, h.Grants())
		_, ok = h.FindFor(shellCall(arguments(`{"command":"rm"}`)), Terms{})
		require.False(t, ok)
	})
	t.Run("it outlives another round of its own call", func(t *testing.T) {
		round := approvalOf(t, "call_1", shellCall(), event.ScopeOnce)
		round.Round, round.Grant = 2, "call_1"
		again := event.NewRecord("call_1.decision.2", event.TypeApproval, "", "", then, round)
		again.Seq = 2
		h := read(t, append(records(session), again))
		_, ok := h.FindFor(shellCall(), Terms{})
		require.True(t, ok, "the call was let through by it")
		_, ok = h.FindOnce("call_1")
		require.True(t, ok)
	})
	t.Run("S4-79 an approval for once covers no other call", func(t *testing.T) {
		h := read(t, records(approvalOf(t, "call_1", shellCall(), event.ScopeOnce)))
		_, ok := h.FindFor(shellCall(), Terms{})
		require.False(t, ok)
		require.Empty(t, h.Grants())
	})
	t.Run("revoked", func(t *testing.T) {
		h := read(t, records(session, revoked))
		_, ok := h.FindFor(shellCall(), Terms{})
		require.False(t, ok)
		require.Len(t, h.Grants(), 1, "it is still listed")
		require.Equal(t, "bob", h.Grants()[0].RevokedBy)
		require.Equal(t, then.Add(time.Minute), *h.Grants()[0].RevokedAt)
	})
	for name, a := range map[string]event.Approval{
		"a denial":                   with(session, func(a *event.Approval) { a.Decision = event.DecisionDeny }),
		"a vote":                     with(session, func(a *event.Approval) { a.Missing = 1 }),
		"what another grant covered": with(session, func(a *event.Approval) { a.Grant = "call_0" }),
		"expired":                    with(session, func(a *event.Approval) { a.Decision = event.DecisionExpired }),
		"an approval of before, without a digest": with(session, func(a *event.Approval) { a.Digest = "" }),
	} {
		t.Run("nothing is granted by "+name, func(t *testing.T) {
			_, ok := read(t, records(a)).FindFor(shellCall(), Terms{})
			require.False(t, ok)
		})
	}
	t.Run("what is decided on the same call later takes its place", func(t *testing.T) {
		h := read(t, records(session, with(session, func(a *event.Approval) { a.Round, a.Decision, a.By = 2, event.DecisionDeny, "eve" })))
		_, ok := h.FindFor(shellCall(), Terms{})
		require.False(t, ok)
		require.Equal(t, "eve", h.Grants()[0].RevokedBy)
	})
	t.Run("given again", func(t *testing.T) {
		again := with(session, func(a *event.Approval) { a.Round, a.DecidedAt = 2, then.Add(time.Hour) })
		h := read(t, records(session, revoked, again))
		g, ok := h.FindFor(shellCall(), Terms{})
		require.True(t, ok)
		require.Equal(t, then.Add(time.Hour), g.GrantedAt)
		require.Len(t, h.Grants(), 2)
		require.Equal(t, then.Add(time.Minute), *h.Grants()[0].RevokedAt)
	})
	t.Run("of several the oldest that covers", func(t *testing.T) {
		other := with(approvalOf(t, "call_0", shellCall(arguments(`{}`)), event.ScopeSession), func(a *event.Approval) { a.By = "bob" })
		h := read(t, records(other, session, with(session, func(a *event.Approval) { a.ToolCallID = "call_2" })))
		g, ok := h.FindFor(shellCall(), Terms{})
		require.True(t, ok)
		require.Equal(t, "call_1", g.ID)
		require.Equal(t, []string{"call_0", "call_1", "call_2"}, []string{h.Grants()[0].ID, h.Grants()[1].ID, h.Grants()[2].ID})
	})
	t.Run("the history keeps to itself", func(t *testing.T) {
		h := read(t, records(session))
		h.Grants()[0].Agent = "intern"
		require.Equal(t, "assistant", h.Grants()[0].Agent)
	})
	require.Empty(t, History{}.Grants())
}
