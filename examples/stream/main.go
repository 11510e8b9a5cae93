// Command stream serves the HTTP API of a runtime, and watches a reply arrive through
// it, token by token, as server-sent events.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
)

func main() {
	taskQueue := flag.String("task-queue", "example-stream", "task queue of the threads")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *taskQueue); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, taskQueue string) error {
	records, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		return err
	}
	defer records.Close()
	runtime, err := threadmill.New(threadmill.Config{
		TaskQueue: taskQueue, Store: records,
		Agents: []agent.Agent{{Name: "counter", Model: "demo/any"}},
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	api, err := httpapi.New(runtime, httpapi.Config{})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: api, ReadHeaderTimeout: 10 * time.Second}
	// Event streams do not end otherwise.
	server.RegisterOnShutdown(api.CloseStreams)
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Shutdown(ctx) }()
	return talk(ctx, "http://"+listener.Addr().String()+"/v1/threads", signals.NewID())
}

// talk opens a thread, watches it, posts a message, and closes the thread after the reply.
func talk(ctx context.Context, threads, id string) error {
	if err := call(ctx, http.MethodPost, threads, `{"id": "`+id+`"}`); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, threads+"/"+id+"/events", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := call(ctx, http.MethodPost, threads+"/"+id+"/messages", `{"content": "think of numbers\ncount 5 every 10ms", "sender": "ann"}`); err != nil {
		return err
	}
	lines, answered := bufio.NewScanner(res.Body), false
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// The lines with "id:" are the positions for resuming after a lost connection.
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e event.AgentEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		switch {
		case e.Type == event.EventStatus && e.Status.Status == event.StatusClosed:
			return nil
		case !answered:
			show(e)
		}
		if e.Type == event.EventFinal && !answered {
			answered = true
			if err := call(ctx, http.MethodDelete, threads+"/"+id, ""); err != nil {
				return err
			}
		}
	}
	return errors.Join(errors.New("the stream ended before the thread was closed"), lines.Err())
}

func show(e event.AgentEvent) {
	switch e.Type {
	case event.EventThought, event.EventStream:
		fmt.Printf("%s %q\n", e.Type, e.Content)
	case event.EventMessage:
		fmt.Printf("%s from %s: %q\n", e.Type, e.Message.SenderID, e.Message.Content)
	default:
		fmt.Println(e.Type)
	}
}

func call(ctx context.Context, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s", method, url, res.Status)
	}
	return nil
}
