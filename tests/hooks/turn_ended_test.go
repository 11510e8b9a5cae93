package hooks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestTurnEndIsAnnounced: viewers see the end of each turn once, after all of its other events, and
// each event names its turn.
func TestTurnEndIsAnnounced(t *testing.T) {
	t.Parallel()
	d := check.NewDesk()
	w := d.Open(t, harness.Options{Agents: []agent.Agent{
		{Name: "assistant", Model: "openai/stand-in", Tools: []string{"note"}},
		{Name: "bob", Model: "openai/stand-in", Tools: []string{"note"}},
		{Name: "lost", Model: "nobody/model"},
	}}, []hook.Hook{d.Hook("guard")})
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
				d.Set(id, "guard", check.Responding(event.CreatedByUser, hook.Response{Content: "no", SenderType: event.CreatedBySystem}))
			}
			live := check.Watch(t, w, id, "")
			post := check.Message(id, "e1", tc.says)
			if tc.says == "" {
				post = signals.Post{ID: "e1", Type: "file.changed", Payload: []byte(`1`)}
			}
			out := check.Turn(w, id, post)
			require.Equal(t, tc.want, string(out.Status), out.Error)
			live.Until(t, check.IsTurnEnded)
			// The next events belong to the next turn.
			check.Turn(w, id, signals.Post{ID: "e2", Type: "marker"})
			seen := check.Watch(t, w, id, "").Until(t, func(f check.Frame) bool { return check.IsTurnEnded(f) && f.Event.EventID == "e2" })
			var of []check.Frame
			for _, f := range seen {
				if f.Event.EventID == "e1" {
					of = append(of, f)
					require.False(t, f.Event.CreatedAt.IsZero(), "%+v", f.Event)
				}
			}
			ends := 0
			for _, f := range of {
				if check.IsTurnEnded(f) {
					ends++
				}
				if m := f.Event.Message; m != nil {
					require.Equal(t, m.ID, f.Event.MessageID)
					require.False(t, m.CreatedAt.IsZero())
				}
				if f.Event.Type == event.EventFinal {
					require.NotEmpty(t, f.Event.MessageID)
					require.Equal(t, tc.respond, f.Event.Agent == "")
				}
			}
			last := of[len(of)-1].Event
			require.Equal(t, 1, ends)
			require.Equal(t, event.StatusTurnEnded, last.Status.Status, "nothing of the turn follows")
			require.Equal(t, tc.want, last.Status.Turn)
			require.GreaterOrEqual(t, check.Count(of, event.EventFinal), tc.finals)
			require.Equal(t, tc.errors, check.Count(of, event.EventError))
			// After resuming anywhere, it arrives exactly once.
			for _, f := range of[max(len(of)-3, 0) : len(of)-1] {
				rest := check.Watch(t, w, id, f.ID).Until(t, func(f check.Frame) bool { return check.IsTurnEnded(f) && f.Event.EventID == "e2" })
				n := 0
				for _, g := range rest {
					if check.IsTurnEnded(g) {
						n++
					}
				}
				require.Equal(t, 2, n)
			}
		})
	}
}
