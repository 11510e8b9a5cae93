package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// mill is the side of Threadmill.
type mill struct {
	threads *threadclient.Client
	api     string
	viewer  bool

	// agent answers. "" = the default agent.
	agent string
}

var _ side = (*mill)(nil)

func (m *mill) name() string { return cmp.Or(m.agent, "threadmill") }

func (m *mill) thread(s shape, by way) thread {
	return &millThread{mill: m, id: newID("t"), shape: s, by: by}
}

type millThread struct {
	*mill
	id    string
	shape shape
	by    way
	turns int

	view *viewer
	seen int
}

func (t *millThread) next() (p signals.Post, want string) {
	t.turns++
	text := t.shape.message(t.turns)
	p = signals.UserMessage(t.id, "ann", text)
	p.ID = fmt.Sprintf("e%d", t.turns)
	return p, reply(text)
}

func (t *millThread) first(ctx context.Context) error {
	p, want := t.next()
	var start signals.Start
	if t.agent != "" {
		start.Agents = []string{t.agent}
	}
	if err := t.threads.Open(ctx, t.id, start, &p); err != nil {
		return err
	}
	return t.update(ctx, p, want)
}

// watch connects a viewer, which sees the following events.
func (t *millThread) watch(ctx context.Context) (err error) {
	if t.viewer {
		t.view, err = watch(ctx, t.api, t.id)
	}
	return err
}

func (t *millThread) turn(ctx context.Context) error {
	p, want := t.next()
	if t.by == byUpdate {
		return t.update(ctx, p, want)
	}
	if _, err := t.threads.PostSignal(ctx, t.id, p); err != nil {
		return err
	}
	return t.await(ctx, want)
}

func (t *millThread) update(ctx context.Context, p signals.Post, want string) error {
	out, err := t.threads.Turn(ctx, t.id, p)
	if err != nil {
		return err
	}
	if out.Status != signals.TurnCompleted || out.Message == nil {
		return fmt.Errorf("turn %s ended %s: %s", p.ID, out.Status, out.Error)
	}
	return same(out.Message.Content, want)
}

// await waits until the viewer has received a turn's last event.
func (t *millThread) await(ctx context.Context, want string) error {
	content := ""
	for {
		select {
		case e, open := <-t.view.events:
			switch {
			case !open:
				return fmt.Errorf("the viewer of %s was cut off: %w", t.id, t.view.err)
			case e.Type == event.EventMessage && e.Message.Role == event.RoleAssistant:
				content = e.Message.Content
			case e.Type == event.EventFinal:
				t.seen++
				if want == "" {
					return nil
				}
				return same(content, want)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finish waits until the viewer has received everything, and disconnects it.
func (t *millThread) finish(ctx context.Context) error {
	if t.view == nil {
		return nil
	}
	defer t.view.close()
	for t.seen < t.turns-1 { // the viewer connected after the first turn
		if err := t.await(ctx, ""); err != nil {
			return err
		}
	}
	return nil
}
