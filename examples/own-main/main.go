// Command own-main is a production process with a tool, a hook and an HTTP handler of its own: next to those, it
// has the flags, the API and the health checks of command worker.
//
//	go run ./examples/own-main --sqlite records.db --http 127.0.0.1:8090 --config examples/own-main/threadmill.yaml
//	curl -d 'use refund {"order": "A-1", "euros": 20}' http://127.0.0.1:8090/refunds
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/app"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/tool"
)

func main() {
	app.Main(app.Config{
		Name: "refunds", Description: "Answer customers, and pay back their orders",
		Configure: func(cfg *threadmill.Config) error {
			cfg.Tools = append(cfg.Tools, refund)
			cfg.Hooks = append(cfg.Hooks, ceiling)
			return nil
		},
		API: func(cfg *httpapi.Config) error {
			cfg.Routes = routes
			return nil
		},
	})
}

type order struct {
	ID    string `json:"order"`
	Euros int    `json:"euros"`
}

var refund = tool.MustFunc("refund", "Pays back an order.",
	func(_ context.Context, _ tool.Call, in order) (string, error) {
		return fmt.Sprintf("paid back %d euros for %s", in.Euros, in.ID), nil
	})

// ceiling denies large refunds.
var ceiling = hook.OnToolCall("ceiling", func(_ context.Context, e event.ToolCallEvent) (hook.Result, error) {
	for _, call := range e.ToolCalls {
		var in order
		if call.Function.Name == "refund" && json.Unmarshal([]byte(call.Function.Arguments), &in) == nil && in.Euros > 100 {
			return hook.Respond(hook.Response{SenderType: event.CreatedBySystem, SenderID: "policy", Content: "More than 100 euros need a manager."}), nil
		}
	}
	return hook.Pass(), nil
})

// routes are served beside the API, to those who may post messages to it.
func routes(runtime *threadmill.Runtime) []httpapi.Route {
	return []httpapi.Route{{Pattern: "POST /refunds", Role: auth.RolePost, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply, err := ask(r, runtime)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"reply": reply}) // the client may have gone
	})}}
}

// ask opens a thread with the message in the request, and returns the reply.
func ask(r *http.Request, runtime *threadmill.Runtime) (string, error) {
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 10_000))
	if err != nil {
		return "", err
	}
	m := event.NewMessage{SenderID: auth.FromContext(r.Context()).Name, Content: string(text)}
	turn, err := runtime.Send(r.Context(), m, threadmill.SendOptions{})
	if err != nil {
		return "", err
	}
	result, err := turn.Wait(r.Context())
	if err != nil {
		return "", err
	}
	return result.Message.Content, nil
}
