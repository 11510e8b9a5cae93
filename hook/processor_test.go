package hook_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

type order struct {
	N int `json:"n"`
}

func TestProcess(t *testing.T) {
	problem := errors.New("sold out")
	deps := hook.Deps{Thread: hook.Thread{ID: "t1"}}
	p := hook.Process("order.created", func(_ context.Context, o order, d hook.Deps) ([]hook.Produced, error) {
		require.Equal(t, deps, d, "S2-27")
		if o.N == 0 {
			return nil, problem
		}
		return []hook.Produced{hook.NewProduced("order.accepted", o), hook.Message(event.CreatedBySystem, "shop", "thanks")}, nil
	})
	require.Equal(t, "order.created", p.EventType)

	made, err := p.Process(t.Context(), aCustom, deps)
	require.NoError(t, err)
	require.Equal(t, []hook.Produced{
		{Type: "order.accepted", Payload: []byte(`{"n":1}`)},
		{Type: "message", Payload: []byte(`{"threadId":"","senderId":"shop","senderType":"system","content":"thanks"}`)},
	}, made, "S2-26")
	for _, none := range []string{"", "null", "{}"} {
		_, err = p.Process(t.Context(), event.CustomEvent{Type: "order.created", Payload: []byte(none)}, deps)
		require.ErrorIs(t, err, problem, "no payload %q is no failure by itself", none)
	}
	for _, bad := range []string{`{"n":"one"}`, `[]`, `{`} {
		_, err = p.Process(t.Context(), event.CustomEvent{Type: "order.created", Payload: []byte(bad)}, deps)
		require.ErrorContains(t, err, "reading the payload of a order.created event", bad)
	}
	_, err = p.Process(t.Context(), aMessage, deps)
	require.ErrorContains(t, err, "a message event has no payload of your own")
}

func TestNewProducedPanics(t *testing.T) {
	require.PanicsWithValue(t, "hook: payload of a produced event has no JSON form: json: unsupported type: chan int", func() {
		hook.NewProduced("tick", make(chan int))
	})
}

func TestRunProcessor(t *testing.T) {
	problem := errors.New("no connection")
	var made []hook.Produced
	var failure, doubt error
	wanted := true
	asked := 0
	p := hook.Processor{
		Name: "p", EventType: "order.created",
		ShouldProcess: func(context.Context, event.Event, hook.Deps) (bool, error) { return wanted, doubt },
		Process: func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) {
			asked++
			return append([]hook.Produced(nil), made...), failure
		},
	}
	ask := func() (hook.Answer, error) { return p.Run(t.Context(), aCustom, hook.Deps{}) }

	got, err := ask()
	require.NoError(t, err)
	require.Equal(t, event.OutcomePassed, got.Outcome, "S2-30 nothing was produced")
	require.Equal(t, 1, asked)

	wanted = false
	got, err = ask()
	require.NoError(t, err)
	require.Equal(t, event.OutcomePassed, got.Outcome)
	require.Equal(t, 1, asked, "S2-28 it is skipped")

	wanted, doubt = true, problem
	_, err = ask()
	require.ErrorIs(t, err, problem)
	require.Equal(t, 1, asked)
	doubt, failure = nil, problem
	_, err = ask()
	require.ErrorIs(t, err, problem)
	failure = nil

	made = []hook.Produced{{Payload: []byte(`{"senderId":"shop","senderType":"system","content":"thanks"}`)}, {Type: "order.accepted"}}
	got, err = ask()
	require.NoError(t, err)
	require.Equal(t, event.OutcomeOverwritten, got.Outcome, "S2-24 S2-29")
	require.Equal(t, []hook.Produced{
		{Type: "message", Payload: []byte(`{"threadId":"t1","senderId":"shop","senderType":"system","content":"thanks"}`)},
		{Type: "order.accepted", Payload: []byte("null")},
	}, got.Produced, "what can be left out is filled in")

	for want, bad := range map[string]hook.Produced{
		`produced[0].type: "error" events are created by the thread itself`: {Type: event.TypeError},
		"produced[0].payload: is not valid JSON":                            {Type: "tick", Payload: []byte("{")},
		"produced[0].ttl: must not be negative":                             {Type: "tick", TTL: -1},
		"produced[0].payload: cannot be of type array":                      {Payload: []byte("[]")},
		"produced[0].payload.content: is required":                          hook.Message(event.CreatedBySystem, "shop", ""),
		`produced[0].payload.threadId: is "t2", but the event's is "t1"`:    hook.NewProduced("", event.NewMessage{ThreadID: "t2", SenderID: "a", SenderType: event.CreatedByUser, Content: "x"}),
		"bytes, must be at most 262144":                                     hook.NewProduced("tick", strings.Repeat("x", hook.MaxEvent+35)),
	} {
		made = []hook.Produced{bad}
		_, err = ask()
		require.ErrorContains(t, err, want, want)
	}

	p.Process = func(context.Context, event.Event, hook.Deps) ([]hook.Produced, error) { panic("nil map") }
	_, err = ask()
	var panicked *hook.PanicError
	require.ErrorAs(t, err, &panicked, "S2-35 a panic is a failure like any other")
	require.Contains(t, panicked.Stack, "processor_test.go")
	p.ShouldProcess = nil
	_, err = ask()
	require.ErrorAs(t, err, &panicked)
}
