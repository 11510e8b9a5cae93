package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// answerRow are the times in milliseconds from a request to its answer.
type answerRow struct {
	Steps steps   `json:"steps"`
	Door  string  `json:"door"`
	Time  summary `json:"time"`
}

// door is a way to tell a thread something. Its turn takes a second.
type door struct {
	name string

	// busy means that a turn of the thread runs, asks that a call waits for a decision.
	busy, asks bool

	tell func(ctx context.Context, a *listener) error
}

// listener is a thread that is told something.
type listener struct {
	*mill
	id, call string
}

// second is a message whose reply takes a second.
const second = "say this" + slowly + atLength

var doors = []door{
	{name: "open with a message", tell: func(ctx context.Context, a *listener) error {
		return a.post(ctx, "/v1/threads", map[string]any{"id": a.id + "-new", "message": second})
	}},
	{name: "message", tell: message},
	{name: "message, while a turn runs", busy: true, tell: message},
	{name: "event", tell: func(ctx context.Context, a *listener) error {
		return a.post(ctx, "/v1/threads/"+a.id+"/events", map[string]any{"type": tickType, "payload": 1})
	}},
	{name: "prompt", tell: func(ctx context.Context, a *listener) error {
		return a.post(ctx, "/sessions/"+a.id+"/prompt", map[string]any{"content": second})
	}},
	{name: "Runtime.Send", tell: func(ctx context.Context, a *listener) error {
		_, err := a.runtime.Send(ctx, event.NewMessage{ThreadID: a.id, SenderID: person, SenderType: event.CreatedByUser, Content: second}, threadmill.SendOptions{})
		return err
	}},
	{name: "decision", asks: true, tell: func(ctx context.Context, a *listener) error {
		return a.post(ctx, "/v1/threads/"+a.id+"/approvals/"+a.call, map[string]any{"decision": event.DecisionApprove, "by": person})
	}},
	{name: "interrupt", busy: true, tell: func(ctx context.Context, a *listener) error {
		return a.post(ctx, "/v1/threads/"+a.id+"/interrupt", map[string]any{"by": person})
	}},
}

func message(ctx context.Context, a *listener) error {
	return a.post(ctx, "/v1/threads/"+a.id+"/messages", map[string]any{"content": second})
}

// answers times how soon who tells a thread something is told that it is kept, while the turn takes a second.
func (m *meter) answers(ctx context.Context) (rows []answerRow, err error) {
	for _, how := range m.Steps {
		on := m.world.mill
		if how == asActivities {
			on = m.world.activities
		}
		for _, d := range doors {
			var times []time.Duration
			for range m.Answers {
				took, err := answerOf(ctx, on, d)
				if err != nil {
					return nil, fmt.Errorf("%s, steps %s: %w", d.name, how, err)
				}
				times = append(times, took)
			}
			row := answerRow{how, d.name, summarize(milliseconds(times))}
			m.say("answer to %s, steps %s: p50 %.1f ms, p95 %.1f ms", d.name, how, row.Time.Median, row.Time.P95)
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// answerOf times one answer, of a thread that has taken turns before, so that it knows which of its steps are quick.
func answerOf(ctx context.Context, on *mill, d door) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	a := &listener{mill: on, id: newID("t")}
	start := signals.Start{}
	if d.asks {
		start.Agents = []string{askingAgent}
	}
	if err := on.threads.Open(ctx, a.id, start, nil); err != nil {
		return 0, err
	}
	for range 2 {
		if _, err := on.threads.Turn(ctx, a.id, signals.UserMessage(a.id, person, "say hello")); err != nil {
			return 0, err
		}
	}
	view, err := watch(ctx, on.api, a.id, "now")
	if err != nil {
		return 0, err
	}
	defer view.close()
	switch {
	case d.busy:
		err = a.reaches(ctx, view, second, event.EventStream)
	case d.asks:
		err = a.reaches(ctx, view, "use "+plainTool+slowly+atLength, event.EventApprovalRequest)
	}
	if err != nil {
		return 0, err
	}
	began := time.Now()
	err = d.tell(ctx, a)
	return time.Since(began), err
}

// reaches posts a message, and waits for an event of its turn.
func (a *listener) reaches(ctx context.Context, view *viewer, text string, typ event.AgentEventType) error {
	if _, err := a.threads.Post(ctx, a.id, signals.UserMessage(a.id, person, text)); err != nil {
		return err
	}
	for {
		select {
		case e, open := <-view.events:
			if !open {
				return fmt.Errorf("the viewer of %s was cut off: %w", a.id, view.err)
			}
			if e.Type != typ {
				continue
			}
			if e.Request != nil {
				a.call = e.Request.ToolCallID
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// post calls the API, which must succeed.
func (a *listener) post(ctx context.Context, path string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.api+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %s", path, res.Status, answer)
	}
	return err
}

func (r *report) answersTable(b *strings.Builder) {
	if len(r.Answers) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### Answers while the turn takes a second (target: p95 ≤ %d ms)\n\n", targetAnswer.Milliseconds())
	fmt.Fprint(b, "| what a thread is told | steps | answers | ms: median, p95, max |\n|---|---|---|---|\n")
	for _, a := range r.Answers {
		fmt.Fprintf(b, "| %s | %s | %d | %.1f, %.1f, %.1f |\n", a.Door, a.Steps, a.Time.Count, a.Time.Median, a.Time.P95, a.Time.Max)
	}
}
