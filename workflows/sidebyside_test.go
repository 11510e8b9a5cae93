package workflows_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// TestSteerBesideAModelCall: an agent whose model call is running answers a message that joins the
// turn after that call. Bob's next step includes it.
func TestSteerBesideAModelCall(t *testing.T) {
	for name, tools := range map[string]bool{"which calls a tool": true, "which is its last": false} {
		t.Run("a reply "+name, func(t *testing.T) {
			w := newFixture(t)
			inFlight, tookIn := make(chan struct{}), make(chan struct{})
			w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
				switch {
				case in.MessageID == "m1.0.1":
					close(inFlight)
					<-tookIn
					if tools {
						return reply(in, "", plain("c0")), nil
					}
				case in.MessageID == "m1.1.1":
					<-inFlight
					p := says("m2", "@alice no: the other database")
					p.OnBusy = event.OnBusySteer
					w.SignalWorkflow(signals.SignalPost, p)
					return reply(in, "", plain("c1")), nil
				case in.Agent == "bob":
					close(tookIn)
				}
				return reply(in, in.Agent+" is done"), nil
			}
			w.then(func() { w.post("m1", "both of you, go") })
			w.run(workflows.Input{Start: signals.Start{Agents: []string{"alice", "bob"}}})
			var answers []string
			for _, m := range w.models {
				if m.Agent == "alice" {
					answers = append(answers, m.ReplyTo)
				}
			}
			require.Equal(t, []string{"m1", "m2"}, answers, "each once")
		})
	}
}

// TestHandOnBesideAWait: an agent that another one addresses answers immediately, while a third
// waits for a person; environment events are handled too.
func TestHandOnBesideAWait(t *testing.T) {
	w := newFixture(t)
	asking := script(asks("c1"))
	w.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		switch in.Agent {
		case "alice":
			return asking(ctx, in)
		case "bob":
			return reply(in, "@carol please check"), nil
		}
		return reply(in, "ok"), nil
	}
	w.then(func() { w.post("m1", "@alice deploy\n@bob review") })
	w.then(func() {
		require.ElementsMatch(t, []string{"m1.0.1", "m1.1.1", "m1.2.1"}, w.modelled(), "alice and bob begin side by side")
		w.publish(happens("v1", "file.changed", `1`))
	})
	w.then(func() { require.Len(t, w.modelled(), 4, "the event's turn goes on beside the wait") })
	w.then(func() { w.decide("c1", event.DecisionDeny, "") })
	w.run(workflows.Input{Start: signals.Start{Agents: []string{"alice", "bob", "carol"}}})
	require.Contains(t, w.modelled(), "m1.0.2")
}
