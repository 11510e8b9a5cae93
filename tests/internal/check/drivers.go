package check

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/cli"
	"github.com/threadmill/threadmill/tests/internal/bare"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Driver is one way in which people use threads. All scenarios run over each.
type Driver interface {
	Open(t *testing.T, thread string)
	Say(t *testing.T, thread, eventID, text string)
	Decide(t *testing.T, thread, toolCallID string, d event.Decision, reason string)
	Interrupt(t *testing.T, thread string)
}

type bareDriver struct {
	w *harness.Harness
	c bare.Client
}

type httpDriver struct{ w *harness.Harness }

// CLI is the driver that runs starter.
type CLI struct{ World *harness.Harness }

// Drivers are all ways, by name.
func Drivers(w *harness.Harness) map[string]Driver {
	return map[string]Driver{
		"bare client": bareDriver{w, bare.Client{Temporal: w.Temporal, Namespace: w.TaskQueue, TaskQueue: w.TaskQueue}},
		"http":        httpDriver{w},
		"cli":         CLI{w},
	}
}

func (d bareDriver) Open(*testing.T, string) {}

func (d bareDriver) Say(t *testing.T, thread, eventID, text string) {
	require.NoError(t, d.c.Say(d.w.Ctx(), thread, eventID, text))
}

func (d bareDriver) Decide(t *testing.T, thread, call string, decision event.Decision, reason string) {
	require.NoError(t, d.c.Decide(d.w.Ctx(), thread, call, string(decision), reason))
}

func (d bareDriver) Interrupt(t *testing.T, thread string) {
	require.NoError(t, d.c.Control(d.w.Ctx(), thread, "interrupt"))
}

func (d httpDriver) call(t *testing.T, method, path string, body any, want int) map[string]any {
	t.Helper()
	status, out := Request(t, d.w, method, path, body)
	require.Equal(t, want, status, "%s %s: %v", method, path, out)
	return out
}

func (d httpDriver) Open(t *testing.T, thread string) {
	d.call(t, http.MethodPost, "/v1/threads", map[string]any{"id": thread}, http.StatusCreated)
}

func (d httpDriver) Say(t *testing.T, thread, eventID, text string) {
	out := d.call(t, http.MethodPost, "/v1/threads/"+thread+"/messages", map[string]any{"id": eventID, "content": text, "sender": "ann"}, http.StatusAccepted)
	require.Equal(t, eventID, out["eventId"])
}

func (d httpDriver) Decide(t *testing.T, thread, call string, decision event.Decision, reason string) {
	out := d.call(t, http.MethodPost, "/v1/threads/"+thread+"/approvals/"+call,
		map[string]any{"decision": decision, "reason": reason, "by": "ann"}, http.StatusOK)
	require.Equal(t, "accepted", out["result"])
}

func (d httpDriver) Interrupt(t *testing.T, thread string) {
	d.call(t, http.MethodPost, "/v1/threads/"+thread+"/interrupt", map[string]any{}, http.StatusAccepted)
}

// Run runs a command, which must succeed, and returns its output.
func (d CLI) Run(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	args = append(args, "--address", d.World.Server.Addr(), "--api", d.World.API.URL, "--namespace", d.World.TaskQueue, "--task-queue", d.World.TaskQueue)
	code := cli.Run(context.Background(), args, strings.NewReader(""), &out, &errs)
	require.Zero(t, code, "starter %v: %s", args, errs.String())
	return out.String()
}

// Open implements [Driver].
func (d CLI) Open(t *testing.T, thread string) { d.Run(t, "open", thread) }

// Say implements [Driver].
func (d CLI) Say(t *testing.T, thread, eventID, text string) {
	d.Run(t, "send", thread, text, "--id", eventID, "--as", "ann")
}

// Decide implements [Driver].
func (d CLI) Decide(t *testing.T, thread, call string, decision event.Decision, reason string) {
	args := []string{string(decision), thread, call, "--by", "ann"}
	if reason != "" {
		args = append(args, "--reason", reason)
	}
	d.Run(t, args...)
}

// Interrupt implements [Driver].
func (d CLI) Interrupt(t *testing.T, thread string) { d.Run(t, "interrupt", thread) }
