package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/starter/cli"
	"github.com/threadmill/threadmill/tests/internal/bare"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// driver is one way in which people use threads. All scenarios run over each.
type driver interface {
	open(t *testing.T, thread string)
	say(t *testing.T, thread, eventID, text string)
	decide(t *testing.T, thread, toolCallID string, d event.Decision, reason string)
	interrupt(t *testing.T, thread string)
}

func drivers(w *harness.Harness) map[string]driver {
	return map[string]driver{
		"bare client": bareDriver{w, bare.Client{Temporal: w.Temporal, Namespace: w.TaskQueue, TaskQueue: w.TaskQueue}},
		"http":        httpDriver{w},
		"cli":         cliDriver{w},
	}
}

type bareDriver struct {
	w *harness.Harness
	c bare.Client
}

func (d bareDriver) open(*testing.T, string) {}

func (d bareDriver) say(t *testing.T, thread, eventID, text string) {
	require.NoError(t, d.c.Say(d.w.Ctx(), thread, eventID, text))
}

func (d bareDriver) decide(t *testing.T, thread, call string, decision event.Decision, reason string) {
	require.NoError(t, d.c.Decide(d.w.Ctx(), thread, call, string(decision), reason))
}

func (d bareDriver) interrupt(t *testing.T, thread string) {
	require.NoError(t, d.c.Control(d.w.Ctx(), thread, "interrupt"))
}

type httpDriver struct{ w *harness.Harness }

func (d httpDriver) call(t *testing.T, method, path string, body any, want int) map[string]any {
	t.Helper()
	status, out := request(t, d.w, method, path, body)
	require.Equal(t, want, status, "%s %s: %v", method, path, out)
	return out
}

func request(t *testing.T, w *harness.Harness, method, path string, body any) (int, map[string]any) {
	t.Helper()
	var in bytes.Buffer
	if body != nil {
		require.NoError(t, json.NewEncoder(&in).Encode(body))
	}
	req, err := http.NewRequestWithContext(w.Ctx(), method, w.API.URL+path, &in)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	out := map[string]any{}
	_ = json.NewDecoder(res.Body).Decode(&out)
	return res.StatusCode, out
}

func (d httpDriver) open(t *testing.T, thread string) {
	d.call(t, http.MethodPost, "/v1/threads", map[string]any{"id": thread}, http.StatusCreated)
}

func (d httpDriver) say(t *testing.T, thread, eventID, text string) {
	out := d.call(t, http.MethodPost, "/v1/threads/"+thread+"/messages", map[string]any{"id": eventID, "content": text, "sender": "ann"}, http.StatusAccepted)
	require.Equal(t, eventID, out["eventId"])
}

func (d httpDriver) decide(t *testing.T, thread, call string, decision event.Decision, reason string) {
	out := d.call(t, http.MethodPost, "/v1/threads/"+thread+"/approvals/"+call,
		map[string]any{"decision": decision, "reason": reason, "by": "ann"}, http.StatusOK)
	require.Equal(t, "accepted", out["result"])
}

func (d httpDriver) interrupt(t *testing.T, thread string) {
	d.call(t, http.MethodPost, "/v1/threads/"+thread+"/interrupt", map[string]any{}, http.StatusAccepted)
}

type cliDriver struct{ w *harness.Harness }

func (d cliDriver) run(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	args = append(args, "--address", d.w.Server.Addr(), "--api", d.w.API.URL, "--namespace", d.w.TaskQueue, "--task-queue", d.w.TaskQueue)
	code := cli.Run(context.Background(), args, strings.NewReader(""), &out, &errs)
	require.Zero(t, code, "starter %v: %s", args, errs.String())
	return out.String()
}

func (d cliDriver) open(t *testing.T, thread string) { d.run(t, "open", thread) }

func (d cliDriver) say(t *testing.T, thread, eventID, text string) {
	d.run(t, "send", thread, text, "--id", eventID, "--as", "ann")
}

func (d cliDriver) decide(t *testing.T, thread, call string, decision event.Decision, reason string) {
	args := []string{string(decision), thread, call, "--by", "ann"}
	if reason != "" {
		args = append(args, "--reason", reason)
	}
	d.run(t, args...)
}

func (d cliDriver) interrupt(t *testing.T, thread string) { d.run(t, "interrupt", thread) }

// backends are the combinations of store and stream for all scenarios.
var backends = []struct {
	name    string
	options harness.Options
}{
	{"sqlite and memory", harness.Options{}},
	{"postgres and nats", harness.Options{Postgres: true, NATS: true}},
	{"sqlite and nats", harness.Options{NATS: true}},
	{"postgres and memory", harness.Options{Postgres: true}},
}

// await waits for the end of a posted event's turn.
func await(t *testing.T, w *harness.Harness, thread, eventID string) signals.TurnResult {
	t.Helper()
	// An update can overtake a signal: the thread has the event only when it is stored.
	require.Eventually(t, func() bool {
		stored, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), eventID)
		return err == nil && len(stored) == 1
	}, waitLong, waitTick)
	return w.Await(thread, eventID)
}
