package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/observe/outage"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

type healthOutput struct {
	Status       int
	CacheControl string `header:"Cache-Control"`
	Body         health
}

// health contains the status of each component.
type health struct {
	Status     string            `json:"status" enum:"ok,degraded,unavailable" doc:"unavailable: without a component, the process cannot do its work. degraded: it does, but no worker runs the threads, or viewers get no tokens"`
	Components map[string]string `json:"components,omitempty" doc:"ok, or what is wrong"`
}

const (
	up       = "ok"
	degraded = "degraded"
	down     = "unavailable"

	// tokenless is the state of the live stream if it does not answer: no role needs it.
	tokenless = down + ": turns go on, and viewers get what is stored, without tokens"

	readyWithin = 2 * time.Second
)

// healthHandlers serve liveness and readiness.
type healthHandlers struct {
	*core
	store      store.Store
	stream     stream.Stream
	ready      func(ctx context.Context) map[string]error
	workers    *workerWatch
	components sync.Map // the *outage.Log of each component, by its name
}

func (h *healthHandlers) registerHealth() {
	tags := []string{"health"}
	register(h.core, public, huma.Operation{
		OperationID: "healthz", Method: http.MethodGet, Path: "/healthz", Tags: tags,
		Summary: "The process is up", Description: "It does not check what the process needs: see readyz.", Errors: []int{http.StatusMisdirectedRequest},
	}, func(context.Context, *struct{}) (*healthOutput, error) {
		return &healthOutput{Status: http.StatusOK, CacheControl: "no-store", Body: health{Status: up}}, nil
	})
	register(h.core, public, huma.Operation{
		OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Tags: tags,
		Summary: "The process does its work: store and Temporal answer",
		Description: "503 with the same body when one of them does not. Without a worker, or with workers of another program on the task queue, the status is degraded, with 200: posts are kept until there is one. " +
			"So it is without the live stream, which no role needs. " +
			"Components are listed for principals with the role read.",
		Errors: []int{http.StatusMisdirectedRequest},
	}, h.readyz)
}

// noteComponent logs the beginning and the end of a component's outage. The store's
// outages are logged by [storeCalls].
func (h *healthHandlers) noteComponent(name string, err error) {
	if name == "store" {
		return
	}
	log, _ := h.components.LoadOrStore(name, outage.New(h.logger, name))
	if err != nil {
		log.(*outage.Log).Down(err)
	} else {
		log.(*outage.Log).Up()
	}
}

// lower lowers the status to degraded or down.
func (o *healthOutput) lower(status string) {
	switch {
	case status == down:
		o.Status, o.Body.Status = http.StatusServiceUnavailable, down
	case o.Body.Status == up:
		o.Body.Status = status
	}
}

func (h *healthHandlers) readyz(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	answers := make(chan map[string]error, 3)
	ask := func(f func() map[string]error) { go func() { answers <- f() }() }
	ask(func() map[string]error { return map[string]error{"store": h.store.Ping(ctx)} })
	ask(func() map[string]error { return map[string]error{"stream": h.stream.Ping(ctx)} })
	ask(func() map[string]error {
		if h.ready == nil {
			return nil
		}
		return h.ready(ctx)
	})
	worker := make(chan *WorkerStatus, 1)
	go func() { worker <- h.workers.find(ctx) }()
	out := &healthOutput{Status: http.StatusOK, CacheControl: "no-store", Body: health{Status: up, Components: map[string]string{}}}
	_, unknown := h.access.principal(ctx, auth.RoleRead)
	for range cap(answers) {
		for name, err := range <-answers {
			out.Body.Components[name] = up
			h.noteComponent(name, err)
			switch {
			case err == nil:
			case name == "stream":
				out.lower(degraded)
				out.Body.Components[name] = tokenless
			default:
				out.lower(down)
				out.Body.Components[name] = down
				if reason := store.ReasonOf(err); reason != "" {
					out.Body.Components[name] = down + ": " + string(reason)
				}
			}
		}
	}
	if found := <-worker; found != nil {
		out.Body.Components["worker"] = found.String()
		if found.Problem != "" {
			out.Body.Components["taskQueue"] = found.Problem
		}
		if !found.Polled || found.Problem != "" {
			out.lower(degraded)
		}
	}
	if unknown != nil {
		out.Body.Components = nil
	}
	return out, nil
}
