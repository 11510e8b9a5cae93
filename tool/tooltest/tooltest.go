// Package tooltest runs tools in tests.
//
//	run := tooltest.Run(t, myTool, `{"city":"Oslo"}`)
//	if run.Err != nil || run.Result.IsError { … }
//
// [Conforms] checks what every tool must do.
package tooltest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tool"
)

// Outcome is the outcome of one run.
type Outcome struct {
	Result tool.Result
	Err    error

	// Progress contains everything that the tool showed, in order.
	Progress *Progress
}

// Run calls a tool and waits for its result.
func Run(t testing.TB, tl tool.Tool, arguments string) Outcome {
	t.Helper()
	call, progress := NewCall(t, arguments)
	result, err := tl.Call(t.Context(), call)
	return Outcome{Result: result, Err: err, Progress: progress}
}

// Start calls a tool in the background. The channel receives one outcome; cancel cancels the
// context of the run.
func Start(t testing.TB, tl tool.Tool, arguments string) (<-chan Outcome, *Progress, context.CancelFunc) {
	t.Helper()
	call, progress := NewCall(t, arguments)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	call.Exec = event.NewExecutionContext(ctx, call.Exec.TraceID())
	done := make(chan Outcome, 1)
	go func() {
		result, err := tl.Call(ctx, call)
		done <- Outcome{Result: result, Err: err, Progress: progress}
	}()
	return done, progress, cancel
}

// Wait receives from a channel of [Start], and fails the test if nothing arrives.
func Wait(t testing.TB, done <-chan Outcome) Outcome {
	t.Helper()
	select {
	case out := <-done:
		return out
	case <-time.After(testenv.Patience):
		t.Fatalf("the tool did not return within %s", testenv.Patience)
		return Outcome{}
	}
}

// NewCall returns a call with the given arguments and all other fields set, and the recorder of its
// progress.
func NewCall(t testing.TB, arguments string) (tool.Call, *Progress) {
	t.Helper()
	p := &Progress{t: t, changed: make(chan struct{})}
	return tool.Call{
		ID:         "call_1",
		Arguments:  arguments,
		Namespace:  "default",
		ThreadID:   "thread-1",
		Agent:      "assistant",
		Attempt:    1,
		Exec:       event.NewExecutionContext(t.Context(), "trace-1"),
		OnProgress: p.add,
	}, p
}

// Progress records the progress of one call. It is safe for concurrent use.
type Progress struct {
	t       testing.TB
	mu      sync.Mutex
	items   []any
	texts   []string
	changed chan struct{}
}

func (p *Progress) add(data any) {
	text, err := json.Marshal(data)
	if err != nil {
		p.t.Errorf("progress %T has no JSON form: %v", data, err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items = append(p.items, data)
	p.texts = append(p.texts, string(text))
	close(p.changed)
	p.changed = make(chan struct{})
}

// Items returns the progress so far, as passed by the tool.
func (p *Progress) Items() []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]any(nil), p.items...)
}

// JSON returns the progress so far as JSON.
func (p *Progress) JSON() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.texts...)
}

// Await waits for an item for which match returns true, and returns it. It fails the test if none
// arrives.
func (p *Progress) Await(match func(item any) bool) any {
	p.t.Helper()
	timeout := time.After(testenv.Patience)
	for {
		p.mu.Lock()
		items, changed := p.items, p.changed
		p.mu.Unlock()
		for _, item := range items {
			if match(item) {
				return item
			}
		}
		select {
		case <-changed:
		case <-timeout:
			p.t.Fatalf("no matching progress within %s; there was %v", testenv.Patience, p.JSON())
		}
	}
}

// Conforms checks requirements on every tool: its definition is valid and constant, and arguments
// that are not JSON are rejected. It runs nothing else.
func Conforms(t *testing.T, tl tool.Tool) {
	t.Helper()
	d := tl.Definition()
	if err := d.Validate(); err != nil {
		t.Errorf("definition: %v", err)
	}
	if d.Description == "" {
		t.Errorf("tool %q: the description is empty, a model would not know what it is for", d.Name)
	}
	first, errFirst := json.Marshal(d)
	second, errSecond := json.Marshal(tl.Definition())
	if errFirst != nil || errSecond != nil || string(first) != string(second) {
		t.Errorf("tool %q: the definition changed from %s to %s", d.Name, first, second)
	}
	if _, err := tool.NewSet(tl); err != nil {
		t.Error(err)
	}
	if err := d.ValidateArguments("{}"); err != nil {
		if _, refused := err.(*tool.ArgumentError); !refused { //nolint:errorlint // the type is the contract
			t.Errorf("tool %q: %v", d.Name, err)
		}
	}
	for _, arguments := range []string{`{"`, `not json`, `{} {}`} {
		if out := Run(t, tl, arguments); out.Err == nil && !out.Result.IsError {
			t.Errorf("tool %q: arguments %q were accepted", d.Name, arguments)
		}
	}
}
