package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/outage"
)

type healthOutput struct {
	Status       int
	CacheControl string `header:"Cache-Control"`
	Body         health
}

// health says which components answer.
type health struct {
	Status     string            `json:"status" enum:"ok,unavailable"`
	Components map[string]string `json:"components,omitempty" doc:"ok, or what is wrong"`
}

const (
	up   = "ok"
	down = "unavailable"

	readyWithin = 2 * time.Second
)

func (s *server) registerHealth() {
	tags := []string{"health"}
	register(s, public, huma.Operation{
		OperationID: "healthz", Method: http.MethodGet, Path: "/healthz", Tags: tags,
		Summary: "The process is up",
	}, func(context.Context, *struct{}) (*healthOutput, error) {
		return &healthOutput{Status: http.StatusOK, CacheControl: "no-store", Body: health{Status: up}}, nil
	})
	register(s, public, huma.Operation{
		OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Tags: tags,
		Summary: "Store, stream and Temporal answer", Description: "503 with the same body when one does not. Components are for those who may read.",
	}, s.readyz)
}

// noteComponent logs that a component is unavailable once for each outage. That of the store
// is logged by whoever calls it.
func (s *server) noteComponent(name string, err error) {
	if name == "store" {
		return
	}
	log, _ := s.components.LoadOrStore(name, outage.New(s.Logger, name))
	if err != nil {
		log.(*outage.Log).Down(err)
	} else {
		log.(*outage.Log).Up()
	}
}

func (s *server) readyz(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	answers := make(chan map[string]error, 3)
	ask := func(f func() map[string]error) { go func() { answers <- f() }() }
	ask(func() map[string]error { return map[string]error{"store": s.Store.Ping(ctx)} })
	ask(func() map[string]error { return map[string]error{"stream": s.Stream.Ping(ctx)} })
	ask(func() map[string]error {
		if s.Ready == nil {
			return nil
		}
		return s.Ready(ctx)
	})
	out := &healthOutput{Status: http.StatusOK, CacheControl: "no-store", Body: health{Status: up, Components: map[string]string{}}}
	_, unknown := s.principal(ctx, auth.Read)
	for range cap(answers) {
		for name, err := range <-answers {
			out.Body.Components[name] = up
			s.noteComponent(name, err)
			if err != nil {
				out.Status, out.Body.Status, out.Body.Components[name] = http.StatusServiceUnavailable, down, down
			}
		}
	}
	if unknown != nil {
		out.Body.Components = nil
	}
	return out, nil
}
