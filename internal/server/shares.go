package server

import (
	"context"
	"sync"

	"github.com/threadmill/threadmill/auth"
)

// shareOf returns whose share of what the server has a request takes. It is "" if there is nobody to share with: without
// authentication, all requests are those of one principal.
func shareOf(ctx context.Context) string {
	p := auth.FromContext(ctx)
	if p.Kind == auth.KindLocal {
		return ""
	}
	return userID(p)
}

func userID(p auth.Principal) string { return string(p.Kind) + ":" + p.Name }

// shares counts what each principal holds of something that the server has for all, so that none takes all of it.
type shares struct {
	mu   sync.Mutex
	held map[string]int
}

// take takes one more, unless the principal holds the most that it may. Call give when it is over.
func (s *shares) take(of string, most int) (give func(), ok bool) {
	if of == "" {
		return func() {}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[of] >= most {
		return nil, false
	}
	if s.held == nil {
		s.held = map[string]int{}
	}
	s.held[of]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[of]--; s.held[of] == 0 {
			delete(s.held, of)
		}
	}), true
}
