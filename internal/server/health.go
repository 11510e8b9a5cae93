package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
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
			if err != nil {
				s.Logger.Warn("not ready", "component", name, "error", err)
				out.Status, out.Body.Status, out.Body.Components[name] = http.StatusServiceUnavailable, down, down
			}
		}
	}
	if unknown != nil {
		out.Body.Components = nil
	}
	return out, nil
}
