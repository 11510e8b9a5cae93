package tests

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

func isTurnEnded(f frame) bool { return f.event.EndsTurn() }

// TestTurnEndIsAnnounced: viewers see the end of each turn once, after all of its other events, and
// each event names its turn.
func TestTurnEndIsAnnounced(t *testing.T) {
	t.Parallel()
	d := newDesk()
	w := d.open(t, harness.Options{Agents: []agent.Agent{
		{Name: "assistant", Model: "openai/stand-in", Tools: []string{"note"}},
		{Name: "bob", Model: "openai/stand-in", Tools: []string{"note"}},
		{Name: "lost", Model: "nobody/model"},
	}}, []hook.Hook{d.hook("guard")})
	for name, tc := range map[string]struct {
		agents  []string
		says    string // nothing: an event that no rule matches
		respond bool
		want    string
		finals  int
		errors  int
	}{
		"one agent with tools": {agents: []string{"assistant"}, says: `use note {}`, want: "completed", finals: 1},
		"two agents":           {agents: []string{"assistant", "bob"}, says: "hello", want: "completed", finals: 2},
		"one that hands on":    {agents: []string{"assistant", "bob"}, says: `@assistant use note {"text":"\n@bob hello"}`, want: "completed", finals: 2},
		"one of two fails":     {agents: []string{"assistant", "lost"}, says: "hello", want: "failed", finals: 1, errors: 1},
		"a hook answers":       {agents: []string{"assistant"}, says: "hello", respond: true, want: "completed", finals: 1},
		"nobody answers":       {agents: []string{"assistant"}, says: "as @assistant said", want: "unanswered"},
		"no rule matches":      {agents: []string{"assistant"}, want: "unanswered"},
	} {
		t.Run(name, func(t *testing.T) {
			id := w.Open(tc.agents...)
			if tc.respond {
				d.set(id, "guard", responding(event.CreatedByUser, hook.Response{Content: "no", SenderType: event.CreatedBySystem}))
			}
			live := watch(t, w, id, "")
			post := message(id, "e1", tc.says)
			if tc.says == "" {
				post = signals.Post{ID: "e1", Type: "file.changed", Payload: []byte(`1`)}
			}
			out := turn(w, id, post)
			require.Equal(t, tc.want, string(out.Status), out.Error)
			live.until(t, isTurnEnded)
			// The next events belong to the next turn.
			turn(w, id, signals.Post{ID: "e2", Type: "marker"})
			seen := watch(t, w, id, "").until(t, func(f frame) bool { return isTurnEnded(f) && f.event.EventID == "e2" })
			var of []frame
			for _, f := range seen {
				if f.event.EventID == "e1" {
					of = append(of, f)
					require.False(t, f.event.CreatedAt.IsZero(), "%+v", f.event)
				}
			}
			ends := 0
			for _, f := range of {
				if isTurnEnded(f) {
					ends++
				}
				if m := f.event.Message; m != nil {
					require.Equal(t, m.ID, f.event.MessageID)
					require.False(t, m.CreatedAt.IsZero())
				}
				if f.event.Type == event.EventFinal {
					require.NotEmpty(t, f.event.MessageID)
					require.Equal(t, tc.respond, f.event.Agent == "")
				}
			}
			last := of[len(of)-1].event
			require.Equal(t, 1, ends)
			require.Equal(t, event.StatusTurnEnded, last.Status.Status, "nothing of the turn follows")
			require.Equal(t, tc.want, last.Status.Turn)
			require.GreaterOrEqual(t, count(of, event.EventFinal), tc.finals)
			require.Equal(t, tc.errors, count(of, event.EventError))
			// After resuming anywhere, it arrives exactly once.
			for _, f := range of[max(len(of)-3, 0) : len(of)-1] {
				rest := watch(t, w, id, f.id).until(t, func(f frame) bool { return isTurnEnded(f) && f.event.EventID == "e2" })
				n := 0
				for _, g := range rest {
					if isTurnEnded(g) {
						n++
					}
				}
				require.Equal(t, 2, n)
			}
		})
	}
}
