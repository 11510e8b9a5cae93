package server

import (
	"fmt"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxSessions is the maximum number of MCP sessions, keySessions that of one principal, and sessionIdle the time without a
	// request after which one ends.
	maxSessions = 1000
	keySessions = maxSessions / 10
	sessionIdle = 30 * time.Minute
)

// mcpSessions knows whose the open sessions are.
type mcpSessions struct {
	open func() iter.Seq[*mcp.ServerSession]

	mu    sync.Mutex
	known map[string]*mcpSession

	// opening counts the sessions that are not known yet, by principal.
	opening map[string]int
}

// mcpSession is an open session: whose it is, how many requests of it are in progress, and when the last one ended.
type mcpSession struct {
	of       string
	requests int
	used     time.Time
}

// enter makes room for another session of a principal. One that has its share loses the session that it has not used for the
// longest time. Call opened with the id of the session, or with "" if there is none. The error is a problem document.
func (m *mcpSessions) enter(of string) (opened func(id string), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := map[string]*mcp.ServerSession{}
	for s := range m.open() {
		live[s.ID()] = s
	}
	own, oldest, most := m.opening[of], "", maxSessions
	for id, s := range m.known {
		switch {
		case live[id] == nil:
			delete(m.known, id)
		case s.of == of:
			own++
			if s.requests == 0 && (oldest == "" || s.used.Before(m.known[oldest].used)) {
				oldest = id
			}
		}
	}
	if of != "" {
		most = keySessions
	}
	switch {
	case own >= most && oldest == "":
		return nil, later(http.StatusTooManyRequests, "5", fmt.Sprintf("%d MCP sessions of this key are in use, which is the most that it may have; end one with DELETE", most))
	case own >= most:
		delete(m.known, oldest)
		go func() { _ = live[oldest].Close() }() // nobody uses it
	case len(live) >= maxSessions:
		return nil, later(http.StatusServiceUnavailable, "60", fmt.Sprintf("%d MCP sessions are open, which is the most that this server serves", maxSessions))
	}
	m.opening[of]++
	return func(id string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.opening[of]--; m.opening[of] == 0 {
			delete(m.opening, of)
		}
		if id != "" {
			m.known[id] = &mcpSession{of: of, used: time.Now()}
		}
	}, nil
}

// use notes a request of a session. Call done when it has ended.
func (m *mcpSessions) use(id, of string) (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.known[id]
	if s == nil || s.of != of {
		return func() {}
	}
	s.requests++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.requests--
		s.used = time.Now()
	}
}
