package tests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// storeOutage disconnects PostgreSQL during a model's reply.
func (f faults) storeOutage(t *testing.T) {
	s, p, db := f.onPostgres(t)
	s.Start()
	gate := s.provider.Block(2)
	defer gate.Release()
	s.Open("t", "count 5")
	v := s.Watch(t, "t", nil)
	arrives(t, gate.Reached(), "the middle of the reply")
	p.Cut()
	gate.Release()
	before := p.Refused.Load()
	require.Eventually(t, func() bool { return p.Refused.Load() >= before+3 }, proc.Patience, proc.Tick)
	for range 20 {
		for _, path := range []string{"/v1/threads/t/events", "/v1/threads/t/messages", "/v1/threads", "/v1/agents"} {
			require.Equal(t, http.StatusServiceUnavailable, s.Try(t.Context(), http.MethodGet, path, nil, nil), path)
		}
	}
	require.Equal(t, 1, strings.Count(s.Output(), "store unavailable"), "the outage is logged once: %s", s.Output())
	p.Mend()
	s.AwaitTurns("t", 1)
	require.Contains(t, s.Output(), "store available again")
	require.Equal(t, []string{"user: count 5", "assistant: 1 2 3 4 5"}, s.contents("t"))
	s.Say("t", "second")
	s.AwaitTurns("t", 2)
	require.Equal(t, []string{"user: count 5", "assistant: 1 2 3 4 5", "user: second", "assistant: second"}, s.contents("t"))
	s.requireSeen("t", v)
	requireWhole(t, db, "t")
}

// streamOutage kills NATS, with its memory, during a model's reply.
func (f faults) streamOutage(t *testing.T) {
	n := proc.NewNATS(t)
	s := f.stage(t, nil, "NATS_URL="+n.URL)
	s.Start()
	gate := s.provider.Block(3)
	defer gate.Release()
	s.Open("t", "count 6")
	v := s.Watch(t, "t", nil)
	arrives(t, gate.Reached(), "the middle of the reply")
	require.Eventually(t, func() bool { return number(v.Events(), event.EventStream) == 3 }, proc.Patience, proc.Tick)
	n.Kill()
	gate.Release()
	n.Start()
	s.AwaitTurns("t", 1)
	require.Equal(t, []string{"user: count 6", "assistant: 1 2 3 4 5 6"}, s.contents("t"))
	s.requireSeen("t", v)
	require.Positive(t, number(v.Events(), event.EventGap)+number(v.Events(), event.EventReset), "viewers hear that pieces are missing")
	require.Equal(t, 1, s.provider.Calls(), "the reply does not depend on the stream")

	s.Say("t", "count 5")
	s.AwaitTurns("t", 2)
	s.requireSeen("t", v)
	require.Zero(t, s.Terminate())
	requireWhole(t, s.open(), "t")
}

func number(events []event.AgentEvent, typ event.AgentEventType) int {
	n := 0
	for _, e := range events {
		if e.Type == typ {
			n++
		}
	}
	return n
}
