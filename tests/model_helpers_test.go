package tests

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// shown is the input of one model call.
type shown struct {
	llm.Request
	raw string
}

// instructions are the first system message, without the rules for tools at its end.
func (s shown) instructions() string {
	text, _, _ := strings.Cut(s.Messages[0].Content, "\n\nRules for tools:\n")
	return text
}

// offered are the names of the tools in the call.
func (s shown) offered() (names []string) {
	for _, one := range s.Tools {
		names = append(names, one.Name)
	}
	return names
}

// modelCalls returns the input of each model call.
func modelCalls(w *harness.Harness) []shown {
	w.T.Helper()
	var out []shown
	for _, r := range w.Provider.Requests() {
		out = append(out, shown{r.Conversation, string(r.Body)})
	}
	return out
}

// requireAnswered checks a rule of every provider: the messages after one with calls are the
// results of these calls, one each.
func requireAnswered(t *testing.T, messages []llm.Message) {
	t.Helper()
	for i := 0; i < len(messages); i++ {
		var asked, answered []string
		for _, c := range messages[i].ToolCalls {
			asked = append(asked, c.ID)
		}
		for range asked {
			i++
			require.Less(t, i, len(messages), "calls %v are not answered", asked)
			require.Equal(t, event.RoleTool, messages[i].Role)
			answered = append(answered, messages[i].ToolCallID)
		}
		require.ElementsMatch(t, asked, answered)
		if i+1 < len(messages) {
			require.NotEqual(t, event.RoleTool, messages[i+1].Role, "a result without its call")
		}
	}
}

// ofType returns a thread's records of one type.
func ofType(w *harness.Harness, thread, typ string) []event.Record {
	w.T.Helper()
	out, err := w.Store.Records(w.Ctx(), w.Key(thread), store.Query{Types: []string{typ}})
	require.NoError(w.T, err)
	return out
}

// newest returns a thread's last record.
func newest(w *harness.Harness, thread string) event.Record {
	w.T.Helper()
	records := w.Records(thread)
	require.NotEmpty(w.T, records)
	return records[len(records)-1]
}

// toolLogs returns a thread's tool logs.
func toolLogs(w *harness.Harness, thread string) []store.ToolLog {
	w.T.Helper()
	out, err := w.Store.ToolLogs(w.Ctx(), w.Key(thread))
	require.NoError(w.T, err)
	return out
}

// results returns the results of tool calls, by the calls' ids; none may have two.
func results(w *harness.Harness, thread string) map[string]event.Message {
	w.T.Helper()
	out := map[string]event.Message{}
	for _, m := range w.Messages(thread) {
		if m.ToolCallID == "" {
			continue
		}
		require.NotContains(w.T, out, m.ToolCallID, "two results of one call")
		out[m.ToolCallID] = m
	}
	return out
}

// requireSettled checks that every stored call of a thread has its one result.
func requireSettled(t *testing.T, w *harness.Harness, thread string) {
	t.Helper()
	have := results(w, thread)
	asked := 0
	for _, m := range w.Messages(thread) {
		for _, c := range m.ToolCalls {
			asked++
			require.Contains(t, have, c.ID, "call %s of %s has no result", c.ID, c.Function.Name)
		}
	}
	require.Len(t, have, asked, "no result without a call")
}

// closed closes a thread and returns all events that a late viewer receives. The stream of a closed
// thread ends.
func closed(t *testing.T, w *harness.Harness, thread string) []string {
	t.Helper()
	require.NoError(t, w.Threads.Control(w.Ctx(), thread, signals.Control{Action: signals.ControlClose, By: "ann"}))
	require.Eventually(t, func() bool {
		row, err := w.Store.Thread(w.Ctx(), w.Key(thread))
		return err == nil && row.Status == store.ThreadClosed
	}, waitLong, waitTick)
	req, err := http.NewRequestWithContext(w.Ctx(), http.MethodGet, w.API.URL+"/v1/threads/"+thread+"/events", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(bufio.NewReader(res.Body))
	require.NoError(t, err)
	var out []string
	for line := range strings.Lines(string(body)) {
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			out = append(out, strings.TrimSpace(data))
		}
	}
	return out
}

// base returns the events of the base protocol, without repetitions of a type.
func base(frames []frame) []event.AgentEventType {
	var out []event.AgentEventType
	for _, f := range frames {
		if slices.Contains(event.BaseEventTypes, f.event.Type) {
			out = append(out, f.event.Type)
		}
	}
	return slices.Compact(out)
}

// streamed joins the streamed text of a message since its last reset.
func streamed(frames []frame, messageID string) string {
	var text strings.Builder
	for _, f := range frames {
		if f.event.MessageID != messageID {
			continue
		}
		switch f.event.Type {
		case event.EventReset:
			text.Reset()
		case event.EventStream:
			text.WriteString(f.event.Content)
		}
	}
	return text.String()
}

// gate is a tool that runs until it is released or cancelled.
type gate struct {
	tool.Tool
	reached, open, told chan struct{}
	once                sync.Once
}

func newGate(name string, opts ...tool.Option) *gate {
	g := &gate{reached: make(chan struct{}, 100), open: make(chan struct{}), told: make(chan struct{}, 100)}
	g.Tool = tool.MustFunc(name, "Waits.", func(ctx context.Context, call tool.Call, _ struct{}) (string, error) {
		g.reached <- struct{}{}
		select {
		case <-g.open:
			return "open", nil
		case <-call.Exec.Signal():
			<-ctx.Done()
			g.told <- struct{}{}
			return "", call.Exec.Context().Err()
		}
	}, opts...)
	return g
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// spy is a tool that records its calls, and the stored records while it runs.
type spy struct {
	tool.Tool
	mu    sync.Mutex
	calls []tool.Call
	look  func(tool.Call)
}

func newSpy(name string, opts ...tool.Option) *spy {
	s := &spy{}
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

func (s *spy) seen() []tool.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *spy) whenCalled(look func(tool.Call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look = look
}

// failing fails in every way that a tool can.
var failing = tool.MustFunc("failing", "Fails.", func(_ context.Context, _ tool.Call, in struct {
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

// only returns the only element of a list.
func only[T any](t *testing.T, list []T) T {
	t.Helper()
	require.Len(t, list, 1)
	return list[0]
}

func approve(t *testing.T, w *harness.Harness, thread, call string) signals.DecideOutcome {
	t.Helper()
	out, err := w.Threads.Decide(w.Ctx(), thread, signals.Decide{ToolCallID: call, Decision: event.DecisionApprove, By: "ann"})
	require.NoError(t, err)
	return out.Result
}
