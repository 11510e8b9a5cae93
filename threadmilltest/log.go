package threadmilltest

import (
	"log/slog"
	"sync"
	"testing"
)

// testLog writes to the log of a test until the test ends: goroutines of Temporal's client outlive it
// for a moment.
type testLog struct {
	mu sync.Mutex
	t  testing.TB // nil once the test has ended
}

func newLogger(t testing.TB) *slog.Logger {
	w := &testLog{t: t}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.t = nil
	})
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (w *testLog) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Logf("%s", p)
	}
	return len(p), nil
}
