package check

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/threadmill/threadmill/tool"
)

// Gate is a tool that runs until it is released or cancelled.
type Gate struct {
	tool.Tool
	Reached, open, Told chan struct{}
	once                sync.Once
}

// Spy is a tool that records its calls, and the stored records while it runs.
type Spy struct {
	tool.Tool
	mu    sync.Mutex
	calls []tool.Call
	look  func(tool.Call)
}

// Failing fails in every way that a tool can.
var Failing = tool.MustFunc("failing", "Fails.", func(_ context.Context, _ tool.Call, in struct {
	How string `json:"how"`
},
) (tool.Result, error) {
	switch in.How {
	case "error":
		return tool.Result{}, io.ErrUnexpectedEOF
	case "panic":
		panic("at the disco")
	}
	return tool.Result{Output: "no " + in.How, IsError: true}, nil
}, tool.Logger(slog.New(slog.DiscardHandler)))

// NewGate returns a tool that waits until it is released.
func NewGate(name string, opts ...tool.Option) *Gate {
	g := &Gate{Reached: make(chan struct{}, 100), open: make(chan struct{}), Told: make(chan struct{}, 100)}
	g.Tool = tool.MustFunc(name, "Waits.", func(ctx context.Context, call tool.Call, _ struct{}) (string, error) {
		g.Reached <- struct{}{}
		select {
		case <-g.open:
			return "open", nil
		case <-call.Exec.Signal():
			<-ctx.Done()
			g.Told <- struct{}{}
			return "", call.Exec.Context().Err()
		}
	}, opts...)
	return g
}

// Release lets all calls go on.
func (g *Gate) Release() { g.once.Do(func() { close(g.open) }) }

// NewSpy returns a tool that records its calls.
func NewSpy(name string, opts ...tool.Option) *Spy {
	s := &Spy{}
	s.Tool = tool.MustFunc(name, "Remembers.", func(_ context.Context, call tool.Call, in map[string]any) (string, error) {
		s.mu.Lock()
		s.calls = append(s.calls, call)
		look := s.look
		s.mu.Unlock()
		if look != nil {
			look(call)
		}
		return "seen", nil
	}, opts...)
	return s
}

// Seen are its calls so far.
func (s *Spy) Seen() []tool.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// WhenCalled makes it look at each call.
func (s *Spy) WhenCalled(look func(tool.Call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look = look
}

// ClientTools run in a connected client. The second has a short timeout, and calls of the third
// need approval.
func ClientTools() []tool.Tool {
	parameters := json.RawMessage(`{"type":"object","properties":{"of":{"type":"string"}},"additionalProperties":false}`)
	return []tool.Tool{
		tool.ClientSide(tool.Definition{Name: "photo", Description: "Takes a photo.", Parameters: parameters}),
		tool.ClientSide(tool.Definition{Name: "glance", Description: "Takes a look.", Deadline: time.Second}),
		tool.ClientSide(tool.Definition{Name: "record", Description: "Records a film.", Parameters: parameters, NeedsApproval: true, ApprovalReason: "people are seen"}),
	}
}
