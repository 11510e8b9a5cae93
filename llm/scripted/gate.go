package scripted

import (
	"context"
	"sync"
)

// Gate holds replies back until the test opens it, so that a delay takes as long as the test wants
// and no longer.
type Gate struct {
	reached, open         chan struct{}
	reachedOnce, openOnce sync.Once
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{reached: make(chan struct{}), open: make(chan struct{})} }

// Reached is closed when the first reply has arrived at the gate.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets the replies at the gate continue, and all later ones. It can be called again.
func (g *Gate) Open() { g.openOnce.Do(func() { close(g.open) }) }

// pass waits at the gate until it opens or ctx ends. There is nothing to wait for at a gate that is nil.
func (g *Gate) pass(ctx context.Context) error {
	if g == nil {
		return ctx.Err()
	}
	g.reachedOnce.Do(func() { close(g.reached) })
	select {
	case <-g.open:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
