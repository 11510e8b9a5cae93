package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/threadmill/threadmill/event"
)

// seen is an event with the time at which the client received it.
type seen struct {
	event.AgentEvent
	at time.Time
}

// viewer reads a thread's server-sent events over HTTP.
type viewer struct {
	// events is closed when the stream ends; err says why.
	events chan seen
	err    error
	close  context.CancelFunc
}

// manyEvents exceeds the events that a viewer receives while they are not read.
const manyEvents = 1 << 14

// browser reuses no connections: each viewer has its own.
var browser = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// watch connects a viewer to a thread's events, from "start" or from "now" on.
func watch(ctx context.Context, api, id, from string) (*viewer, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/v1/threads/"+id+"/events?from="+from, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := browser.Do(req)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching thread %s: %w", id, err)
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		cancel()
		return nil, fmt.Errorf("watching thread %s: %s", id, res.Status)
	}
	v := &viewer{events: make(chan seen, manyEvents), close: cancel}
	go v.read(res)
	return v, nil
}

func (v *viewer) read(res *http.Response) {
	defer close(v.events)
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			v.err = err
			return
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		e := seen{at: time.Now()}
		if err := json.Unmarshal(data, &e.AgentEvent); err != nil {
			v.err = err
			return
		}
		v.events <- e
	}
}
