package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/stream/memory"
)

// remoteAgent calls a model over HTTP, in OpenAI's protocol.
const remoteAgent = "remote"

// The live streams that first tokens take, by name.
const (
	oneProcess = "in one process"
	acrossNATS = "across NATS"
)

// tokenRow are the latencies of first tokens in milliseconds, while a number of other threads are busy.
type tokenRow struct {
	Stream string  `json:"stream"`
	Busy   int     `json:"busy"`
	Time   summary `json:"time"`

	// Turns is the number of turns of the busy threads meanwhile.
	Turns int `json:"turns"`
}

// firstToken measures the latency of first tokens: from the provider's write to its connection
// until the client of the API has the token, both over HTTP.
func (m *meter) firstToken(ctx context.Context) ([]tokenRow, error) {
	near, err := m.nearby(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := m.tokensOf(ctx, oneProcess, near)
	if err != nil {
		return nil, err
	}
	url := m.NATSURL
	if url == "" {
		if url, err = testenv.FindNATS(); err != nil {
			return nil, err
		}
	}
	if url == "" {
		m.say("first tokens %s are not measured: give -nats-url, or install nats-server", acrossNATS)
		return rows, nil
	}
	far, err := m.apartByNATS(ctx, url)
	if err != nil {
		return nil, err
	}
	more, err := m.tokensOf(ctx, acrossNATS, far)
	return append(rows, more...), err
}

// nearby starts a runtime whose worker and API share a stream in memory.
func (m *meter) nearby(ctx context.Context) (*mill, error) {
	s := memory.New(memory.Config{})
	m.world.onStop(s.Close)
	return m.world.startThreadmill(ctx, m.Options, newID("bench-memory"), threadmill.Config{Stream: s})
}

// apartByNATS starts a worker and an API that have a connection to NATS each, as two processes have.
func (m *meter) apartByNATS(ctx context.Context, url string) (*mill, error) {
	queue, name := newID("bench-nats"), natsName()
	var ends [2]*threadmill.Runtime
	for i := range ends {
		s, err := openNATS(ctx, url, name)
		if err != nil {
			return nil, err
		}
		m.world.onStop(s.Close)
		if ends[i], err = m.world.runtime(queue, threadmill.Config{Stream: s}); err != nil {
			return nil, err
		}
	}
	m.world.run(ctx, ends[0])
	return m.world.serve(m.Options, ends[1])
}

// tokensOf times first tokens while no other thread is busy, and while many are.
func (m *meter) tokensOf(ctx context.Context, name string, on *mill) ([]tokenRow, error) {
	var rows []tokenRow
	for _, busy := range []int{0, m.TokenThreads} {
		times, turns, err := m.tokensBeside(ctx, on, busy)
		if err != nil {
			return nil, fmt.Errorf("%s, %d busy threads: %w", name, busy, err)
		}
		row := tokenRow{name, busy, summarize(milliseconds(times)), turns}
		m.say("first token %s, %2d busy threads: p50 %.2f ms, p99 %.2f ms", name, busy, row.Time.Median, row.Time.P99)
		rows = append(rows, row)
	}
	return rows, nil
}

// chatting are turns of busy threads. They take a second each, as with a model that writes 50 tokens a second: without
// its pauses, the threads would occupy all processors, and first tokens would wait for those.
var chatting = shape{name: "chatting", text: func(n int) string { return fmt.Sprintf("say %d%s", n, slowly) }}

// tokensBeside times first tokens of a thread while others take turns, one after the other.
func (m *meter) tokensBeside(ctx context.Context, on *mill, busy int) (times []time.Duration, turns int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	id := newID("t")
	if err := on.threads.Open(ctx, id, signals.Start{Agents: []string{remoteAgent}}, nil); err != nil {
		return nil, 0, err
	}
	// The first turn creates the thread and its connections.
	if _, err := on.threads.Turn(ctx, id, signals.UserMessage(id, person, "hello")); err != nil {
		return nil, 0, err
	}
	v, err := watch(ctx, on.api, id, "now")
	if err != nil {
		return nil, 0, err
	}
	defer v.close()
	others := make([]thread, busy)
	for i := range others {
		others[i] = on.thread(chatting, byHTTP)
	}
	if _, err := together(others, 1, func(t thread) error { return t.first(ctx) }); err != nil {
		return nil, 0, fmt.Errorf("first turn: %w", err)
	}
	took, err := m.beside(ctx, others, 0, func() error {
		for range m.Tokens {
			took, err := m.oneToken(ctx, on, v, id)
			if err != nil {
				return err
			}
			times = append(times, took)
		}
		return nil
	})
	return times, len(took), err
}

func (m *meter) oneToken(ctx context.Context, on *mill, v *viewer, id string) (time.Duration, error) {
	m.world.provider.Reset()
	if _, err := on.threads.PostSignal(ctx, id, signals.UserMessage(id, person, "count 3")); err != nil {
		return 0, err
	}
	var first seen
	for {
		select {
		case e, open := <-v.events:
			switch {
			case !open:
				return 0, fmt.Errorf("the viewer was cut off: %w", v.err)
			case e.Type == event.EventStream && first.at.IsZero():
				first = e
			case e.Type == event.EventFinal:
				return m.tokenTime(first)
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (m *meter) tokenTime(first seen) (time.Duration, error) {
	chunks := m.world.provider.Chunks()
	if len(chunks) == 0 || first.at.IsZero() {
		return 0, errors.New("a turn without tokens")
	}
	if first.Content != chunks[0].Text {
		return 0, fmt.Errorf("the first token is %q, and was %q", first.Content, chunks[0].Text)
	}
	return first.at.Sub(chunks[0].At), nil
}

func (r *report) tokenTable(b *strings.Builder) {
	if len(r.FirstToken) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### First token, from the provider to an SSE client (target: p99 < %s %s beside idle threads, < %s %s beside busy ones)\n\n",
		targetTokenIdle, oneProcess, targetTokenNATS, acrossNATS)
	fmt.Fprint(b, "| stream | busy threads | their turns | tokens | ms: p50, p95, p99 (min–max) |\n|---|---|---|---|---|\n")
	for _, t := range r.FirstToken {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %.2f, %.2f, %.2f (%.2f–%.2f) |\n", t.Stream, t.Busy, t.Turns, t.Time.Count, t.Time.Median, t.Time.P95, t.Time.P99, t.Time.Min, t.Time.Max)
	}
}
