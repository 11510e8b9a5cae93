package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// person writes messages and decides.
const person = "ann"

// askingAgent needs approval for each of its calls.
const askingAgent = "asking"

// mill is the side of Threadmill.
type mill struct {
	runtime *threadmill.Runtime
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

	// seen are the turns whose end the viewer has received, unseen those before it connected.
	seen, unseen int
}

func (t *millThread) next() (p signals.Post, want string) {
	t.turns++
	text := t.shape.message(t.turns, t.by)
	p = signals.UserMessage(t.id, person, text)
	p.ID = fmt.Sprintf("e%d", t.turns)
	return p, reply(text)
}

func (t *millThread) first(ctx context.Context) error {
	if t.by == byHTTP {
		return t.turn(ctx)
	}
	p, want := t.next()
	if err := t.threads.Open(ctx, t.id, signals.Start{Agents: t.agents()}, &p); err != nil {
		return err
	}
	if t.shape.asks {
		if err := t.connect(ctx, "start"); err != nil {
			return err
		}
	}
	return t.update(ctx, p, want)
}

// agents are those of the thread, nil = the default agent.
func (t *millThread) agents() []string {
	switch {
	case t.shape.asks:
		return []string{askingAgent}
	case t.agent != "":
		return []string{t.agent}
	}
	return nil
}

// watch connects a viewer, which sees the following events. A client over HTTP is a viewer itself.
func (t *millThread) watch(ctx context.Context) error {
	if !t.viewer || t.view != nil || t.by == byHTTP {
		return nil
	}
	t.unseen = t.turns
	return t.connect(ctx, "now")
}

func (t *millThread) connect(ctx context.Context, from string) (err error) {
	t.view, err = watch(ctx, t.api, t.id, from)
	return err
}

func (t *millThread) turn(ctx context.Context) error {
	switch t.by {
	case byHTTP:
		return t.chat(ctx)
	case byUpdate, byGo:
		p, want := t.next()
		return t.update(ctx, p, want)
	case bySignal:
	}
	p, want := t.next()
	if _, err := t.threads.PostSignal(ctx, t.id, p); err != nil {
		return err
	}
	if t.shape.asks {
		if err := t.approve(ctx); err != nil {
			return err
		}
	}
	return t.await(ctx, want)
}

func (t *millThread) update(ctx context.Context, p signals.Post, want string) error {
	if !t.shape.asks {
		return t.complete(ctx, p, want)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	approved := make(chan error, 1)
	go func() {
		err := t.approve(ctx)
		if err != nil {
			stop()
		}
		approved <- err
	}()
	err := t.complete(ctx, p, want)
	if err != nil {
		stop()
	}
	return errors.Join(err, <-approved)
}

// complete posts a message and waits for the end of its turn.
func (t *millThread) complete(ctx context.Context, p signals.Post, want string) error {
	out, err := t.ask(ctx, p)
	if err != nil {
		return err
	}
	if out.Status != signals.TurnCompleted || out.Message == nil {
		return fmt.Errorf("turn %s ended %s: %s", p.ID, out.Status, out.Error)
	}
	return same(out.Message.Content, want)
}

// ask posts a message, and returns the result of its turn.
func (t *millThread) ask(ctx context.Context, p signals.Post) (signals.TurnResult, error) {
	if t.by != byGo || t.turns == 1 { // the thread was opened with the first one
		return t.threads.Turn(ctx, t.id, p)
	}
	var m event.NewMessage
	if err := json.Unmarshal(p.Payload, &m); err != nil {
		return signals.TurnResult{}, err
	}
	turn, err := t.runtime.Send(ctx, m, threadmill.SendOptions{})
	if err != nil {
		return signals.TurnResult{}, err
	}
	return turn.Wait(ctx)
}

// await waits until the viewer has received a turn's last event.
func (t *millThread) await(ctx context.Context, want string) error {
	content := ""
	for {
		e, err := t.event(ctx)
		switch {
		case err != nil:
			return err
		case e.Type == event.EventMessage && e.Message.Role == event.RoleAssistant:
			content = e.Message.Content
		case e.Type == event.EventFinal:
			if want == "" {
				return nil
			}
			return same(content, want)
		}
	}
}

// approve waits until the viewer has received a request for approval, and approves.
func (t *millThread) approve(ctx context.Context) error {
	for {
		e, err := t.event(ctx)
		if err != nil {
			return err
		}
		if e.Type == event.EventApprovalRequest {
			_, err = t.threads.Decide(ctx, t.id, signals.Decide{ToolCallID: e.Request.ToolCallID, Decision: event.DecisionApprove, By: person})
			return err
		}
	}
}

// event returns the viewer's next event.
func (t *millThread) event(ctx context.Context) (seen, error) {
	select {
	case e, open := <-t.view.events:
		if !open {
			return e, fmt.Errorf("the viewer of %s was cut off: %w", t.id, t.view.err)
		}
		if e.Type == event.EventFinal {
			t.seen++
		}
		return e, nil
	case <-ctx.Done():
		return seen{}, ctx.Err()
	}
}

// finish waits until the viewer has received everything, and disconnects it.
func (t *millThread) finish(ctx context.Context) error {
	if t.view == nil {
		return nil
	}
	defer t.view.close()
	for t.seen < t.turns-t.unseen {
		if err := t.await(ctx, ""); err != nil {
			return err
		}
	}
	return nil
}
