package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// remoteAgent calls a model over HTTP, in OpenAI's protocol.
const remoteAgent = "remote"

// firstToken measures the latency of first tokens: from the provider's write to its connection
// until the client of the API has the token, both over HTTP.
func (m *meter) firstToken(ctx context.Context) (*tokenRow, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	threads, id := m.world.mill.threads, newID("t")
	if err := threads.Open(ctx, id, signals.Start{Agents: []string{remoteAgent}}, nil); err != nil {
		return nil, err
	}
	// The first turn creates the thread and its connections.
	if _, err := threads.Turn(ctx, id, signals.UserMessage(id, "ann", "hello")); err != nil {
		return nil, err
	}
	v, err := watch(ctx, m.world.mill.api, id)
	if err != nil {
		return nil, err
	}
	defer v.close()
	times := make([]time.Duration, 0, m.Tokens)
	for range m.Tokens {
		took, err := m.oneToken(ctx, v, id)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	row := &tokenRow{Count: len(times), Time: summarize(milliseconds(times))}
	m.say("first token: median %.2f ms", row.Time.Median)
	return row, nil
}

func (m *meter) oneToken(ctx context.Context, v *viewer, id string) (time.Duration, error) {
	m.world.provider.Reset()
	if _, err := m.world.mill.threads.PostSignal(ctx, id, signals.UserMessage(id, "ann", "count 3")); err != nil {
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
