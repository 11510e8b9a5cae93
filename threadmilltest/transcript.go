package threadmilltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/feed"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// Transcript returns a thread as people read it: what was said, called, decided and returned, as viewers
// see it. It contains neither times of the run nor generated ids, so that it is the same in every run: ids in texts
// become call-1, id-1 and so on, in the order of their appearance, and times that Threadmill has written become "time". What belongs to a call follows the
// call, whenever it happened.
//
//	ann: Please pay back order A-1.
//	clerk calls refund {"id":"A-1","euros":20}
//	  needs approval: moves money
//	  approved by ann
//	  returned: paid back 20 euros
//	clerk: You get 20 euros back.
//	-- turn completed
//
// The last line says what the thread waits for, unless it is idle. Agents that reply at the same time do
// so in any order.
func (r *Runtime) Transcript(threadID string) string {
	r.t.Helper()
	r.threads.add(threadID)
	text, err := r.transcript(threadID)
	if err != nil {
		r.t.Fatalf("thread %q: reading the transcript: %v", threadID, err)
	}
	return text
}

func (r *Runtime) transcriptOrError(threadID string) string {
	text, err := r.transcript(threadID)
	if err != nil {
		text = fmt.Sprintf("(its transcript cannot be read: %v)\n", err)
	}
	return text
}

func (r *Runtime) transcript(threadID string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.settle(ctx, threadID)
	reader, err := r.world.feed.Open(ctx, r.key(threadID), feed.From{Whole: true, Finite: true})
	if err != nil {
		return "", err
	}
	defer reader.Close()
	w := &writer{threadID: threadID, calls: map[string]int{}, said: map[string]int{}, ended: map[string]bool{}}
	for {
		item, err := reader.Next(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return "", err
			}
			break
		}
		w.write(item.Event)
	}
	if status := r.status(ctx, threadID, w.ended); status != signals.ThreadIdle {
		w.line("-- the thread is %s", status)
	}
	return w.String(), nil
}

// status returns what a thread does, after the turns that have ended: the thread knows of the end of a turn a moment after
// viewers, who see its last record before the step that stores it returns.
func (r *Runtime) status(ctx context.Context, threadID string, ended map[string]bool) signals.ThreadStatus {
	for {
		state, err := r.Client().State(ctx, threadID)
		if err != nil {
			return signals.ThreadIdle
		}
		if state.Turn == nil || !ended[state.Turn.RecordsOf()] || sleep(ctx) != nil {
			return state.Status
		}
	}
}

// settledWithin bounds the wait for the last records of a thread that never rests.
const settledWithin = 10 * time.Second

// settle waits until the thread has handled what it has received and has stored what there was to
// store. It does not wait for models, tools and people.
func (r *Runtime) settle(ctx context.Context, threadID string) {
	ctx, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	for {
		d, err := r.world.temporal.DescribeWorkflowExecution(ctx, signals.WorkflowID(r.Client().Namespace(), threadID), "")
		storing := slices.ContainsFunc(d.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
			return a.GetActivityType().GetName() == step.ActivityRecord
		})
		if err != nil || d.GetPendingWorkflowTask() == nil && !storing {
			return // without such a thread, there is nothing to read
		}
		if sleep(ctx) != nil {
			return
		}
	}
}

// writer writes the events of a thread as text.
type writer struct {
	threadID string
	blocks   []*block
	calls    map[string]int // the blocks of calls, by their ids
	said     map[string]int // the blocks of messages, by their ids
	ended    map[string]bool
}

// block is a line, and what belongs to it.
type block struct {
	text  string
	lines []string
}

func (w *writer) line(format string, args ...any) int {
	w.blocks = append(w.blocks, &block{text: fmt.Sprintf(format, args...)})
	return len(w.blocks) - 1
}

// under writes what belongs to a call.
func (w *writer) under(callID, format string, args ...any) {
	i, known := w.calls[callID]
	if !known {
		i = w.line("a call that this thread does not show")
		w.calls[callID] = i
	}
	w.blocks[i].lines = append(w.blocks[i].lines, fmt.Sprintf(format, args...))
}

func (w *writer) write(e event.AgentEvent) {
	switch e.Type {
	case event.EventMessage:
		w.message(*e.Message)
	case event.EventToolCall:
		text := fmt.Sprintf("%s calls %s %s", e.Agent, e.ToolName, e.ToolArgs)
		if i, known := w.calls[e.ToolCallID]; known {
			w.blocks[i].text = text // a hook has changed it
			return
		}
		w.calls[e.ToolCallID] = w.line("%s", text)
	case event.EventToolResult:
		if e.IsError {
			w.under(e.ToolCallID, "failed: %s", e.Output)
			return
		}
		w.under(e.ToolCallID, "returned: %s", e.Output)
	case event.EventApprovalRequest:
		w.request(*e.Request)
	case event.EventApproval:
		w.approval(*e.Approval)
	case event.EventClientCall:
		w.under(e.ClientCall.ToolCallID, "waits for a client")
	case event.EventInputRequest:
		for _, q := range e.Input.Questions {
			w.under(e.Input.ToolCallID, "asks: %s", q.Message)
		}
	case event.EventInputReceived:
		w.under(e.Received.ToolCallID, "answered by %s", e.Received.By)
	case event.EventEnvironment:
		w.line("[%s %s]", e.Env.Type, compact(e.Env.Payload))
	case event.EventError:
		if e.Agent != "" { // otherwise the end of the turn says it
			w.line("%s fails: %s", e.Agent, e.Error)
		}
	case event.EventStatus:
		w.ended[e.EventID] = e.EndsTurn() && e.Status.Turn != string(signals.TurnHeld)
		w.status(*e.Status)
	case event.EventThought, event.EventToolProgress, event.EventStream, event.EventFinal, event.EventRetrieval, event.EventReset, event.EventGap:
	}
}

func (w *writer) message(m event.Message) {
	if m.Role == event.RoleTool || m.Content == "" && len(m.ToolCalls) > 0 {
		return // its result, or its calls, are events of their own
	}
	text := m.SenderID + ": " + m.Content
	if m.Interrupted {
		text += " (interrupted)"
	}
	if i, known := w.said[m.ID]; known {
		w.blocks[i].text = text // a hook has changed it
		return
	}
	w.said[m.ID] = w.line("%s", text)
}

func (w *writer) request(q event.ApprovalRequest) {
	text := "needs approval"
	if q.Quorum > 1 {
		text = fmt.Sprintf("needs %d approvals", q.Quorum)
	}
	if who := q.Deciders(); who != "" {
		text += " of " + who
	}
	if q.ExpiresAt != nil {
		text += " within " + q.ExpiresAt.Sub(q.RequestedAt).String()
	}
	if q.Round > event.FirstRound {
		text += " again"
	}
	if q.Reminder > 0 {
		text = "reminder: " + text
	}
	if q.Reason != "" {
		text += ": " + q.Reason
	}
	w.under(q.ToolCallID, "%s", text)
}

// decided are the decisions in words.
var decided = map[event.Decision]string{
	event.DecisionApprove: "approved", event.DecisionDeny: "denied", event.DecisionExpired: "expired", event.DecisionRevoked: "revoked",
	event.DecisionWithdrawn: "withdrawn",
}

func (w *writer) approval(a event.Approval) {
	text := decided[a.Decision]
	if a.By != "" && a.Decision != event.DecisionExpired && a.Decision != event.DecisionWithdrawn {
		text += " by " + a.By
	}
	if a.Scope != "" && a.Scope != event.ScopeOnce {
		text += " for the " + string(a.Scope)
	}
	if a.Arguments != "" {
		text += " with " + a.Arguments
	}
	if a.Missing > 0 {
		text += fmt.Sprintf(", %d more needed", a.Missing)
	}
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	w.under(a.ToolCallID, "%s", text)
}

func (w *writer) status(s event.StatusChange) {
	switch {
	case s.Status == event.StatusTurnEnded:
		text := "-- turn " + s.Turn
		if s.Detail != "" {
			text += ": " + s.Detail
		}
		w.line("%s", text)
	case s.Retry != nil:
		// Once for each error: how often depends on the machine. Detail has times.
		text := "-- the model call is retried: " + s.Retry.Error
		if n := len(w.blocks); n == 0 || w.blocks[n-1].text != text {
			w.line("%s", text)
		}
	case s.Status == event.StatusIntercepted:
		w.line("-- %s", s.Detail)
	case slices.Contains([]string{event.StatusOpened, event.StatusClosed}, s.Status):
	default:
		w.line("-- %s", s.Status)
	}
}

// compact returns JSON without the space between its parts.
func compact(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

// String returns the text, with further lines of a text indented like its first one.
func (w *writer) String() string {
	var b strings.Builder
	for _, k := range w.blocks {
		b.WriteString(strings.ReplaceAll(k.text, "\n", "\n    ") + "\n")
		for _, l := range k.lines {
			b.WriteString("  " + strings.ReplaceAll(l, "\n", "\n    ") + "\n")
		}
	}
	return w.stable(b.String())
}

// generated are the ids that differ from run to run, but those of tasks.
var generated = regexp.MustCompile(`\bcall_\w+|\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)

// times are those of the run: with parts of a second, in milliseconds, or the deadline that a task is told. Times in what people and programs say
// are rarely so exact.
var times = regexp.MustCompile(`(by )\d{4}-\d\d-\d\dT[\d:]+Z( at the latest)|()\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:\d\d)()|("timestamp":)\d{13}\b()`)

// stable replaces generated ids by names.
func (w *writer) stable(text string) string {
	names, counts := map[string]string{w.threadID: "thread"}, map[string]int{}
	text = times.ReplaceAllString(text, "${1}${3}${5}time${2}")
	tasks := regexp.MustCompile(regexp.QuoteMeta(w.threadID+"~t") + `[0-9a-z]+\b`)
	text = tasks.ReplaceAllStringFunc(text, func(id string) string {
		if names[id] == "" {
			counts["task"]++
			names[id] = fmt.Sprintf("%s~task-%d", w.threadID, counts["task"])
		}
		return names[id]
	})
	return generated.ReplaceAllStringFunc(text, func(id string) string {
		if names[id] == "" {
			kind := "id"
			if strings.HasPrefix(id, "call_") {
				kind = "call"
			}
			counts[kind]++
			names[id] = fmt.Sprintf("%s-%d", kind, counts[kind])
		}
		return names[id]
	})
}
