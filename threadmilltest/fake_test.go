package threadmilltest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// failing is a test that is to fail. It runs on its own goroutine, and ends with its cleanups, as a test does.
type failing struct {
	testing.TB

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failed   bool
	said     strings.Builder
	cleanups []func()
}

// fails runs a test that must fail, and returns what it has printed.
func fails(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	f := run(t, test)
	if !f.failed {
		t.Fatal("the test has not failed")
	}
	return f.said.String()
}

// run runs a test to its end, with its cleanups.
func run(t *testing.T, test func(t testing.TB)) *failing {
	t.Helper()
	f := &failing{TB: t}
	f.ctx, f.cancel = context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.end()
		test(f)
	}()
	<-done
	return f
}

func (f *failing) end() {
	f.cancel()
	for len(f.cleanups) > 0 {
		last := f.cleanups[len(f.cleanups)-1]
		f.cleanups = f.cleanups[:len(f.cleanups)-1]
		last()
	}
}

func (f *failing) Helper() {}

func (f *failing) Name() string { return "fails" }

func (f *failing) Context() context.Context { return f.ctx }

func (f *failing) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *failing) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *failing) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(&f.said, format+"\n", args...)
}

func (f *failing) Errorf(format string, args ...any) {
	f.Logf(format, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
}

func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}
