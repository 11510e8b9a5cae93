package faults

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
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
	check.Arrives(t, gate.Reached(), "the middle of the reply")
	p.Cut()
	gate.Release()
	before := p.Refused.Load()
	require.Eventually(t, func() bool { return p.Refused.Load() >= before+3 }, testenv.Patience, testenv.Tick)
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

// streamOutage kills NATS, with its memory, during a model's reply, and while ten chats go on.
func (f faults) streamOutage(t *testing.T) {
	n := proc.NewNATS(t)
	s := f.stage(t, nil, "NATS_URL="+n.URL)
	s.Start()
	gate := s.provider.Block(3)
	defer gate.Release()
	s.Open("t", "count 6")
	v := s.Watch(t, "t", nil)
	check.Arrives(t, gate.Reached(), "the middle of the reply")
	require.Eventually(t, func() bool { return check.CountEvents(v.Events(), event.EventStream) == 3 }, testenv.Patience, testenv.Tick)
	n.Kill()
	gate.Release()
	n.Start()
	s.AwaitTurns("t", 1)
	require.Equal(t, []string{"user: count 6", "assistant: 1 2 3 4 5 6"}, s.contents("t"))
	s.requireSeen("t", v)
	require.Eventually(t, func() bool {
		return check.CountEvents(v.Events(), event.EventGap)+check.CountEvents(v.Events(), event.EventReset) > 0
	}, testenv.Patience, testenv.Tick, "viewers hear that pieces are missing")
	require.Equal(t, 1, s.provider.Calls(), "the reply does not depend on the stream")

	s.Say("t", "count 5")
	s.AwaitTurns("t", 2)
	s.requireSeen("t", v)

	// Ten chats begin before NATS is killed and go on while it is away: half of them are watched from the beginning.
	const chats = 10
	threads, viewers := []string{"t"}, map[string]*proc.Viewer{"t": v}
	for i := range chats {
		name := fmt.Sprint("chat-", i)
		threads = append(threads, name)
		s.Open(name, "before")
		s.AwaitTurns(name, 1)
		if i%2 == 0 {
			viewers[name] = s.Watch(t, name, nil)
			s.requireSeen(name, viewers[name])
		}
	}
	asked := s.provider.Calls()
	n.Kill()
	for i, name := range threads[1:] {
		s.Say(name, "away "+name)
		if i%2 == 1 {
			viewers[name] = s.Watch(t, name, nil)
		}
	}
	for _, name := range threads[1:] {
		s.AwaitTurns(name, 2)
		s.requireSeen(name, viewers[name])
		s.Say(name, `use shell_cmd {"command":"echo ran >> `+name+`"}`)
		require.Equal(t, "accepted", s.Approve(name, s.AwaitApproval(name).ToolCallID))
	}
	for _, name := range threads[1:] {
		s.AwaitTurns(name, 3)
		require.Equal(t, []string{"ran"}, s.lines(name))
		s.requireSeen(name, viewers[name])
		require.Empty(t, lastFailure(t, s, name), "no step counts as lost")
	}
	require.Equal(t, asked+3*chats, s.provider.Calls(), "the model is called once for each step")
	ready := func() string {
		var health struct{ Status string }
		require.Equal(t, http.StatusOK, s.Try(t.Context(), http.MethodGet, "/readyz", nil, &health))
		return health.Status
	}
	require.Equal(t, "degraded", ready())

	n.Start()
	require.Eventually(t, func() bool { return ready() == "ok" }, testenv.Patience, testenv.Tick)
	shown := check.CountEvents(viewers["chat-0"].Events(), event.EventStream)
	gate = s.provider.Block(3)
	defer gate.Release()
	s.Say("chat-0", "count 6")
	require.Eventually(t, func() bool {
		return check.CountEvents(viewers["chat-0"].Events(), event.EventStream) == shown+3
	}, testenv.Patience, testenv.Tick, "viewers get tokens again")
	gate.Release()
	s.AwaitTurns("chat-0", 4)
	for name, v := range viewers {
		s.requireSeen(name, v)
	}
	require.Zero(t, s.Terminate())
	db := s.open()
	for _, name := range threads {
		requireWhole(t, db, name)
	}
}

// TestOutageOfAProvider: people see that a turn waits for its model, it continues after the outage,
// and they can interrupt it.
func TestOutageOfAProvider(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{Configure: func(c *threadmill.Config) {
		c.ModelRetries = map[string]llm.Retry{"openai": {InitialInterval: 6 * time.Second}}
	}})
	down := llmtest.Status(http.StatusServiceUnavailable, "")
	w.Provider.Fail(down, down)
	patient, hasty := w.Open(), w.Open()
	view := check.Watch(t, w, patient, "")
	e, cut := w.Post(patient, "hello"), w.Post(hasty, "hello")
	retrying := func(id string) *event.Retry {
		var out *event.Retry
		require.Eventually(t, func() bool {
			s, err := w.Threads.State(w.Ctx(), id)
			if err == nil && s.Turn != nil && len(s.Turn.Runs) > 0 {
				out = s.Turn.Runs[0].Retrying
			}
			return out != nil
		}, testenv.Patience, testenv.Tick)
		return out
	}
	for _, id := range []string{patient, hasty} {
		r := retrying(id)
		require.Equal(t, 1, r.Attempts)
		require.Equal(t, "server_error", r.Class)
		require.Contains(t, r.Error, "503")
	}
	require.NoError(t, w.Threads.Control(w.Ctx(), hasty, signals.Control{Action: signals.ControlInterrupt, By: "ann"}))
	require.Equal(t, signals.TurnInterrupted, check.Await(t, w, hasty, cut).Status)

	require.Equal(t, signals.TurnCompleted, check.Await(t, w, patient, e).Status)
	require.Equal(t, 3, w.Provider.Calls())
	shown := view.Until(t, func(f check.Frame) bool {
		return f.Event.Type == event.EventStatus && f.Event.Status.Status == event.StatusRetrying
	})
	last := shown[len(shown)-1].Event
	require.Equal(t, e, last.EventID)
	require.Equal(t, 1, last.Status.Retry.Attempts)
	require.Equal(t, 6*time.Second, last.Status.Retry.NextAttemptAt.Sub(last.Status.Retry.Since).Round(time.Second))
}
