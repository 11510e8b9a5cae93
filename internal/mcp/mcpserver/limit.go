package mcpserver

import (
	"context"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxInFlight is the maximum number of calls of a session, or of a request without one, at once. Old
// versions of the protocol have requests with any number of calls.
const maxInFlight = 32

// inFlight counts the calls of sessions.
type inFlight struct {
	mu    sync.Mutex
	calls map[mcp.Session]int
}

// enter counts a call, unless there are too many.
func (f *inFlight) enter(s mcp.Session) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls[s] == maxInFlight {
		return false
	}
	f.calls[s]++
	return true
}

func (f *inFlight) leave(s mcp.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls[s]--; f.calls[s] == 0 {
		delete(f.calls, s)
	}
}

// limited rejects calls of tools and reads of resources beyond the limit.
func limited(next mcp.MethodHandler) mcp.MethodHandler {
	f := &inFlight{calls: map[mcp.Session]int{}}
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method != "tools/call" && method != "resources/read" {
			return next(ctx, method, req)
		}
		if !f.enter(req.GetSession()) {
			err := fmt.Errorf("%d calls are in progress, which is the most at once: call again when some have ended", maxInFlight)
			if method == "tools/call" {
				return failure(err), nil
			}
			return nil, err
		}
		defer f.leave(req.GetSession())
		return next(ctx, method, req)
	}
}
