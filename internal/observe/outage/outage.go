// Package outage logs once for each outage that a component is unavailable, however many requests
// notice it.
package outage

import (
	"log/slog"
	"sync/atomic"
)

// Log logs the outages of a component. It is safe for concurrent use.
type Log struct {
	logger    *slog.Logger
	component string
	down      atomic.Bool
}

// New returns the log of a component, which counts as available.
func New(logger *slog.Logger, component string) *Log {
	return &Log{logger: logger, component: component}
}

// Down reports that the component is unavailable, and why.
func (l *Log) Down(err error) {
	if l.down.CompareAndSwap(false, true) {
		l.logger.Warn(l.component+" unavailable", "component", l.component, "error", err)
	}
}

// Up reports that the component is available.
func (l *Log) Up() {
	if l.down.CompareAndSwap(true, false) {
		l.logger.Warn(l.component+" available again", "component", l.component)
	}
}
