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

func newTestLog(t testing.TB) *testLog {
	w := &testLog{t: t}
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.t = nil
	})
	return w
}

// logger returns a logger for warnings and errors.
func (w *testLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// errorf fails the test, if it has not ended.
func (w *testLog) errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Errorf(format, args...)
	}
}

func (w *testLog) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Logf("%s", p)
	}
	return len(p), nil
}
