package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/signals"
)

// shown is the result of show.
type shown struct {
	State   signals.State           `json:"state"`
	Pending []event.ApprovalRequest `json:"approvals"`
	Calls   []event.ClientCall      `json:"clientCalls"`
	Inputs  []event.InputRequest    `json:"inputs"`

	// Messages are the messages as changed by hooks; Decisions are those of hooks, and that no agent
	// answers a message.
	Messages  []event.StoredMessage `json:"messages"`
	Decisions []api.Decision        `json:"decisions"`
}

func (a threadCommands) showCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "show <thread>",
		Short: "Show a thread's state, its messages, and what hooks decided",
		RunE: func(cmd *cobra.Command, args []string) error {
			stored, err := a.api()
			if err != nil {
				return err
			}
			return a.onThread(cmd, args[0], func(ctx context.Context, t threads) error {
				return a.showThread(ctx, t, stored, args[0])
			})
		},
	})
}

// showThread prints the state even if the messages are not available.
func (a threadCommands) showThread(ctx context.Context, t threads, stored *api.Client, thread string) error {
	out := shown{Pending: []event.ApprovalRequest{}, Calls: []event.ClientCall{}, Inputs: []event.InputRequest{}, Messages: []event.StoredMessage{}, Decisions: []api.Decision{}}
	var err error
	if out.State, err = t.State(ctx, thread); err != nil {
		return err
	}
	if out.State.Approvals > 0 || out.State.Turn != nil {
		waiting, err := t.Approvals(ctx, thread)
		if err != nil {
			return err
		}
		out.Pending, out.Calls = append(out.Pending, waiting.Approvals...), append(out.Calls, waiting.ClientCalls...)
		out.Inputs = append(out.Inputs, waiting.Inputs...)
	}
	problem := out.read(ctx, stored, thread)
	if a.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
		return problem
	}
	a.printShown(out)
	return problem
}

// read adds the data of the API, as far as it is available.
func (out *shown) read(ctx context.Context, stored *api.Client, thread string) error {
	messages, err := stored.Messages(ctx, thread)
	if api.IsNotFound(err) { // the thread has no records yet
		return nil
	}
	if err != nil {
		return err
	}
	out.Messages = append(out.Messages, messages...)
	decisions, err := stored.Decisions(ctx, thread)
	if err != nil {
		return err
	}
	out.Decisions = append(out.Decisions, decisions...)
	return nil
}

func (a threadCommands) printShown(out shown) {
	for _, line := range stateLines(out.State) {
		a.say("%s", line)
	}
	r := render.New(render.Options{Hints: true, ThreadID: out.State.ThreadID, ResultLines: 1000})
	if len(out.Messages)+len(out.Decisions) > 0 {
		a.say("")
	}
	decided := out.Decisions
	showDecisions := func(before int64) {
		for ; len(decided) > 0 && decided[0].Seq < before; decided = decided[1:] {
			status := &event.StatusChange{Status: decided[0].Status, Detail: decided[0].Detail}
			a.print(r.Event(event.AgentEvent{Type: event.EventStatus, Status: status}))
		}
	}
	for _, m := range out.Messages {
		showDecisions(m.Seq)
		a.print(r.Event(event.AgentEvent{Type: event.EventMessage, Message: &m.Message}))
	}
	showDecisions(math.MaxInt64)
	for _, p := range out.Pending {
		a.print(r.Event(event.AgentEvent{Type: event.EventApprovalRequest, Request: &p}))
	}
	for _, q := range out.Inputs {
		a.print(r.Event(event.AgentEvent{Type: event.EventInputRequest, Input: &q}))
	}
	for _, c := range out.Calls {
		a.print(r.Event(event.AgentEvent{Type: event.EventClientCall, ClientCall: &c}))
	}
}

// stateLines describes a thread's state for people.
func stateLines(s signals.State) []string {
	agents := "the default agent"
	if len(s.Agents) > 0 {
		agents = strings.Join(s.Agents, ", ")
	}
	lines := []string{fmt.Sprintf("thread %s · %s · %s", s.ThreadID, s.Status, agents)}
	if s.Title != "" {
		lines[0] += " · " + strings.Join(strings.Fields(s.Title), " ")
	}
	if s.Parent != "" {
		lines = append(lines, "  works for thread "+s.Parent)
	}
	if s.Turn != nil {
		for _, run := range s.Turn.Runs {
			doing := run.Doing
			if len(run.Tools) > 0 {
				doing += " (" + strings.Join(run.Tools, ", ") + ")"
			}
			if len(run.Threads) > 0 {
				doing += " in " + strings.Join(run.Threads, ", ")
			}
			agent := run.Agent
			if agent == "" {
				agent = "default agent"
			}
			lines = append(lines, fmt.Sprintf("  %s: step %d, %s", agent, run.Step, doing))
			if r := run.Retrying; r != nil {
				lines = append(lines, fmt.Sprintf("    the model has not answered since %s (%d attempts, the next at %s): %s",
					r.Since.Local().Format(time.TimeOnly), r.Attempts, r.NextAttemptAt.Local().Format(time.TimeOnly), strings.Join(strings.Fields(r.Error), " ")))
			}
		}
		for _, d := range s.Turn.Deciding {
			lines = append(lines, fmt.Sprintf("  waits for hooks: %s on %s %s (workflow %s)", strings.Join(d.Hooks, ", "), d.EventType, d.EventID, d.WorkflowID))
		}
	}
	lines = append(lines, fmt.Sprintf("  waiting: %d events, %d approvals · tokens: %d in (%d cached, %d written to the cache), %d out, %d model calls · history: %d events",
		s.QueueLength, s.Approvals, s.Usage.InputTokens, s.Usage.CachedTokens, s.Usage.CacheWriteTokens, s.Usage.OutputTokens, s.Usage.ModelCalls, s.HistoryEvents))
	if len(s.LLMCalls) > 0 {
		lines = append(lines, "  model calls since the last user message: "+modelCalls(s)+" (turn limit)")
	}
	for _, item := range s.Failed {
		lines = append(lines, fmt.Sprintf("  failed: %s: %s", item.ID, strings.Join(strings.Fields(item.Error), " ")))
	}
	return lines
}

// modelCalls returns the number of model calls of each agent, and its limit.
func modelCalls(s signals.State) string {
	var out []string
	for _, agent := range slices.Sorted(maps.Keys(s.LLMCalls)) {
		out = append(out, fmt.Sprintf("%s %d/%d", cmp.Or(agent, "default agent"), s.LLMCalls[agent], s.TurnLimit))
	}
	return strings.Join(out, ", ")
}
