package process

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
)

// Viewer follows a thread's event stream, and reconnects with Last-Event-ID whenever it is
// disconnected, like a browser.
type Viewer struct {
	url    string
	notify func(event.AgentEvent)

	mu     sync.Mutex
	events []event.AgentEvent
	last   string
}

// Watch opens a viewer, which ends with the test. notify, unless nil, is called with each event.
func (d *Devserver) Watch(t testing.TB, thread string, notify func(event.AgentEvent)) *Viewer {
	ctx, cancel := context.WithCancel(context.Background())
	v := &Viewer{url: d.URL + "/v1/threads/" + thread + "/events", notify: notify}
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return v
}

func (v *Viewer) run(ctx context.Context) {
	again := time.NewTicker(testenv.Tick)
	defer again.Stop()
	for {
		v.once(ctx)
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// once reads until the stream ends.
func (v *Viewer) once(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		return
	}
	req.Header.Set("Accept", "text/event-stream")
	if v.last != "" {
		req.Header.Set("Last-Event-ID", v.last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return
	}
	id, data := "", ""
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // an incomplete event was not sent
		}
		switch line = strings.TrimRight(line, "\r\n"); {
		case strings.HasPrefix(line, "id:"):
			id = strings.TrimSpace(line[len("id:"):])
		case strings.HasPrefix(line, "data:"):
			data = line[len("data:"):]
		case line == "" && data != "":
			v.keep(id, data)
			data = ""
		}
	}
}

func (v *Viewer) keep(id, data string) {
	var e event.AgentEvent
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		e = event.AgentEvent{Type: event.AgentEventType("not JSON: " + data)}
	}
	v.mu.Lock()
	v.events, v.last = append(v.events, e), id
	v.mu.Unlock()
	if v.notify != nil {
		v.notify(e)
	}
}

// Events returns the events so far.
func (v *Viewer) Events() []event.AgentEvent {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.events)
}

// Stored returns the events that come from records.
func (v *Viewer) Stored() []event.AgentEvent {
	return slices.DeleteFunc(v.Events(), func(e event.AgentEvent) bool {
		switch e.Type {
		case event.EventThought, event.EventStream, event.EventToolProgress, event.EventReset, event.EventGap:
			return true
		}
		return false
	})
}
