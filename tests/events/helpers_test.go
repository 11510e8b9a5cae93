package events

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// ledger is the function of rules. It records its calls.
type ledger struct {
	mu   sync.Mutex
	book []handling
	acts map[string]rule.Func

	// running is the number of current calls in a thread, most the maximum.
	running, most map[string]int
}

// handling is one call of the function.
type handling struct {
	rule.Context
	event event.EnvEvent
	at    time.Time
}

func newLedger() *ledger {
	return &ledger{acts: map[string]rule.Func{}, running: map[string]int{}, most: map[string]int{}}
}

// handle is the function.
func (l *ledger) handle(ctx context.Context, c rule.Context, e event.EnvEvent) error {
	l.mu.Lock()
	l.book = append(l.book, handling{c, e, time.Now()})
	l.running[c.ThreadID]++
	l.most[c.ThreadID] = max(l.most[c.ThreadID], l.running[c.ThreadID])
	act := l.acts[e.ID]
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running[c.ThreadID]--
	}()
	if act == nil {
		return nil
	}
	return act(ctx, c, e)
}

// on sets the function's action on an event.
func (l *ledger) on(eventID string, act rule.Func) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acts[eventID] = act
}

// halts makes the function wait, for one event, until it is released.
func (l *ledger) halts(eventID string) *check.Halt {
	h := check.NewHalt()
	l.on(eventID, func(ctx context.Context, _ rule.Context, _ event.EnvEvent) error {
		h.Reached <- struct{}{}
		select {
		case <-h.Open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return h
}

// calls are the calls for a thread, in order.
func (l *ledger) calls(thread string) []handling {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.book), func(h handling) bool { return h.ThreadID != thread })
}

// handled are the ids of the events of a thread's calls.
func (l *ledger) handled(thread string) []string {
	out := []string{}
	for _, h := range l.calls(thread) {
		out = append(out, h.event.ID)
	}
	return out
}

// by are the rules whose function was called for an event.
func (l *ledger) by(eventID string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for _, h := range l.book {
		if h.event.ID == eventID {
			out = append(out, h.Rule)
		}
	}
	return out
}

// together is the maximum number of concurrent calls in a thread.
func (l *ledger) together(thread string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most[thread]
}

// rule is a rule above the default ones with the ledger's function.
func (l *ledger) rule(name string, events ...string) rule.Rule {
	return rule.Rule{Name: name, Events: events, Priority: 30, Function: l.handle}
}

// ruled builds a world with rules, and with a model that acts on events.
func ruled(t *testing.T, o harness.Options, rules ...rule.Rule) *harness.Harness {
	t.Helper()
	o.Provider.Script = actOnEvents
	configure := o.Configure
	o.Configure = func(c *threadmill.Config) {
		c.Rules, c.StaleAfter = rules, check.Calm
		if configure != nil {
			configure(c)
		}
	}
	return harness.New(t, o)
}

// actOnEvents is a model that follows the instruction in the payload of an event, such as {"do":
// "use note {}"}, or else in the last message.
func actOnEvents(req llm.Request) string {
	for i := len(req.Messages) - 1; i > 0; i-- {
		if req.Messages[i].Role != event.RoleUser {
			continue
		}
		if !strings.HasPrefix(req.Messages[i].Content, "Process event: ") {
			return ""
		}
		var shown struct {
			Payload struct {
				Do string `json:"do"`
			} `json:"payload"`
		}
		// A payload that is not an object has no instruction.
		_ = json.Unmarshal([]byte(req.Messages[i-1].Content), &shown)
		return shown.Payload.Do
	}
	return ""
}

// asking returns an event with an instruction for the model.
func asking(typ, do string) event.EnvEvent { return check.Happened(typ, map[string]string{"do": do}) }

// signalled sends an event unchanged, like any Temporal client.
func signalled(w *harness.Harness, thread string, e any) {
	w.T.Helper()
	require.NoError(w.T, w.Temporal.SignalWorkflow(w.Ctx(), signals.WorkflowID(w.TaskQueue, thread), "", signals.SignalPost, e))
}

// fence waits until a thread has handled everything that was published before. It is a signal,
// because an update can overtake signals.
func fence(w *harness.Harness, thread string) {
	w.T.Helper()
	e := check.Happened("fence", nil)
	signalled(w, thread, e)
	require.Eventually(w.T, func() bool {
		stored, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), e.ID)
		return err == nil && len(stored) == 1
	}, testenv.Patience, testenv.Tick)
	check.Wholly(w, thread, w.Await(thread, e.ID))
}

// published are a thread's stored environment events.
func published(w *harness.Harness, thread string) []event.EnvEvent {
	w.T.Helper()
	var out []event.EnvEvent
	for _, r := range check.OfType(w, thread, event.TypeEnv) {
		out = append(out, harness.Payload[event.EnvEvent](w, r))
	}
	return out
}

// requireSameJSON compares JSON with all digits of its numbers.
func requireSameJSON(t *testing.T, want, got []byte) {
	t.Helper()
	read := func(raw []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		require.NoError(t, d.Decode(&v), string(raw))
		return v
	}
	require.Equal(t, read(want), read(got))
}

// envView is an open stream of environment events.
type envView struct{ *check.View }

// watchEnv opens the stream of a thread's environment events.
func watchEnv(t *testing.T, w *harness.Harness, thread string) envView {
	t.Helper()
	return envView{check.WatchAt(t, w, "/v1/threads/"+thread+"/events?view=env", "")}
}

// until reads up to and including an event of a type, and returns the types of all.
func (v envView) until(t *testing.T, typ string) []string {
	t.Helper()
	var out []string
	for len(out) == 0 || out[len(out)-1] != typ {
		out = append(out, v.next(t, 1)...)
	}
	return out
}

// next reads n events, and returns their types.
func (v envView) next(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for len(out) < n {
		line, err := v.Lines.ReadString('\n')
		require.NoError(t, err)
		data, ok := strings.CutPrefix(line, "data:")
		if !ok {
			continue
		}
		var e event.EnvEvent
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		out = append(out, e.Type)
	}
	return out
}
