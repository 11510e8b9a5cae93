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
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/starter/internal/render"
	"github.com/threadmill/threadmill/store"
)

func (a threadCommands) listCommand() *cobra.Command {
	var q threadclient.ListQuery
	var failed, unanswered bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List the open threads, the newest first",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 1 || q.Limit > threadclient.MaxListLimit {
				return usagef("--limit is %d, must be 1 to %d", q.Limit, threadclient.MaxListLimit)
			}
			switch {
			case failed && unanswered || (failed || unanswered) && (q.All || q.Waiting || q.Agent != ""):
				return usagef("--failed and --unanswered exclude each other, and --all, --waiting and --agent")
			case failed:
				return a.listByActivity(cmd.Context(), store.ActivityFailing, q.Limit, "no thread has failed")
			case unanswered:
				return a.listByActivity(cmd.Context(), store.ActivityUnanswered, q.Limit, "no thread has an unanswered message")
			}
			if err := a.knowAgent(cmd.Context(), &q); err != nil {
				return err
			}
			return a.withThreads(cmd.Context(), false, func(ctx context.Context, t threads) error {
				found, err := t.List(ctx, q)
				if err != nil {
					return err
				}
				return a.showThreads(a.withActivity(ctx, found), none(q))
			})
		},
	})
	cmd.Flags().BoolVar(&q.All, "all", false, "closed threads too")
	cmd.Flags().BoolVar(&q.Waiting, "waiting", false, "only threads that wait for approval")
	cmd.Flags().BoolVar(&failed, "failed", false, "only threads whose last turn failed")
	cmd.Flags().BoolVar(&unanswered, "unanswered", false, "only threads whose last message mentions no agent")
	cmd.Flags().StringVar(&q.Agent, "agent", "", "only threads of this agent")
	cmd.Flags().IntVar(&q.Limit, "limit", threadclient.DefaultListLimit, "how many at most")
	return cmd
}

func (a threadCommands) showThreads(found []render.Thread, none string) error {
	return a.show(map[string]any{"threads": found}, nil, render.Threads(found, render.TableOptions{}), "%s in namespace %q", none, a.flags.namespace)
}

// withActivity adds what only the API knows, and Temporal's visibility does not: the threads that failed
// or were not answered. The API may be down.
func (a threadCommands) withActivity(ctx context.Context, found []threadclient.Summary) []render.Thread {
	out := make([]render.Thread, len(found))
	at := map[string]int{}
	for i, one := range found {
		out[i].Summary, at[one.ThreadID] = one, i
	}
	if len(found) == 0 {
		return out
	}
	for _, activity := range []store.Activity{store.ActivityUnanswered, store.ActivityFailing} {
		all, err := a.threadsBy(ctx, activity, threadclient.MaxListLimit)
		if err != nil {
			a.warn("the list does not tell which threads failed: %s", a.explain(err))
			return out
		}
		for _, one := range all {
			if i, listed := at[one.ID]; listed {
				out[i].Activity = activity
			}
		}
	}
	return out
}

// threadsBy returns the open threads of the namespace with an activity.
func (a threadCommands) threadsBy(ctx context.Context, activity store.Activity, limit int) ([]api.Thread, error) {
	stored, err := a.api()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	all, err := stored.Threads(ctx, activity, limit)
	return slices.DeleteFunc(all, func(t api.Thread) bool { return t.Namespace != a.flags.namespace }), err
}

func (a threadCommands) listByActivity(ctx context.Context, activity store.Activity, limit int, none string) error {
	all, err := a.threadsBy(ctx, activity, limit)
	if err != nil {
		return err
	}
	out := []render.Thread{}
	for _, t := range all {
		out = append(out, render.Thread{Activity: activity, Summary: threadclient.Summary{
			ThreadID: t.ID, Status: t.Status, Title: t.Title, Agents: t.Agents, Parent: t.Parent, StartTime: t.CreatedAt,
		}})
	}
	return a.showThreads(out, none)
}

// knowAgent looks up the exact name of a query's agent, and whether it is the default agent, which
// Temporal does not know. The API may be down.
func (a threadCommands) knowAgent(ctx context.Context, q *threadclient.ListQuery) error {
	if q.Agent == "" {
		return nil
	}
	stored, err := a.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	all, err := stored.Agents(ctx)
	if err != nil {
		a.warn("the list lacks threads of the default agent: %s", a.explain(err))
	}
	for _, one := range all {
		if strings.EqualFold(one.Name, q.Agent) {
			q.Agent, q.Default = one.Name, one.Default
		}
	}
	return nil
}

// none describes an empty list.
func none(q threadclient.ListQuery) string {
	of := "threads"
	if q.Agent != "" {
		of += fmt.Sprintf(" of agent %q", q.Agent)
	}
	switch {
	case q.Waiting:
		return "no " + of + " wait for approval"
	case q.All:
		return "no " + of
	}
	return "no open " + of + " (--all has closed ones too)"
}

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
	lines = append(lines, fmt.Sprintf("  waiting: %d events, %d approvals · tokens: %d in (%d cached), %d out, %d model calls · history: %d events",
		s.QueueLength, s.Approvals, s.Usage.InputTokens, s.Usage.CachedTokens, s.Usage.OutputTokens, s.Usage.ModelCalls, s.HistoryEvents))
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
