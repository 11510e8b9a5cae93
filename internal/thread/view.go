package thread

import (
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/signals"
)

// View returns the result of query "state".
func (s *State) View() signals.State {
	v := signals.State{
		Namespace: s.Namespace, ThreadID: s.ThreadID, Status: signals.ThreadIdle, Title: s.Title,
		Agents: append([]string{}, s.Roster.Agents...), Metadata: s.Metadata, QueueLength: len(s.Inbox.Queue),
		Approvals: len(s.Approvals()), Failed: s.Inbox.failed(), Usage: s.Usage,
		Tasks: len(s.Tasks.Running), Held: s.Inbox.viewDebounced(), TurnLimit: s.Roster.turnLimit(), LLMCalls: s.Roster.LLMCalls,
	}
	switch {
	case s.Closing != nil:
		v.Status = signals.ThreadClosed
	case v.Approvals+len(s.InputRequests()) > 0:
		v.Status = signals.ThreadWaitingApproval
	case len(s.Turns.all()) > 0:
		v.Status = signals.ThreadRunning
	}
	if turns := s.Turns.all(); len(turns) > 0 {
		v.Turn = turns[0].viewTurn()
		for _, t := range s.Turns.Deciding {
			v.Turn.Deciding = append(v.Turn.Deciding, t.viewDeciding()...)
		}
	}
	if s.ParentLink.Parent != nil {
		v.Parent = s.ParentLink.Parent.ThreadID
	}
	return v
}

func (t *Turn) viewTurn() *signals.TurnState {
	v := &signals.TurnState{EventID: t.Item.ID, TraceID: t.Item.TraceID, StartedAt: t.StartedAt, Runs: []signals.RunState{}}
	if root := t.root(); root != t.Item.ID {
		v.Root = root
	}
	for _, r := range t.Runs {
		v.Runs = append(v.Runs, signals.RunState{Agent: r.Agent, Step: r.Step, Doing: r.doing(), Tools: r.unsettled(), Threads: r.subs(), Retrying: r.Outage})
	}
	v.Deciding = t.viewDeciding()
	return v
}

func (t *Turn) viewDeciding() (out []signals.Deciding) {
	s := t.thread
	for _, in := range t.Intercepting {
		out = append(out, signals.Deciding{
			EventID: in.Record, EventType: in.Type, Hooks: append([]string{}, in.Hooks...),
			WorkflowID: signals.HookWorkflowID(s.Namespace, s.ThreadID, in.EventID),
		})
	}
	return out
}

func (r *AgentRun) doing() string {
	switch r.Phase {
	case PhaseModel:
		if r.turn.find(r.ModelCallEvent().Key) == nil {
			return signals.DoingModel
		}
	case PhasePlan:
		return signals.DoingTools
	case PhaseTools:
		if slices.ContainsFunc(r.Calls, func(c *Call) bool {
			return c.waitsForPeople() || c.Stage == CallReady || c.Stage == CallDelegated
		}) {
			return signals.DoingTools
		}
	case PhaseReplied, PhaseAnswered, PhaseFailed, PhaseInterrupted:
		return signals.DoingDone
	case PhaseReply, PhaseCalls:
	}
	return signals.DoingHooks
}

// subs returns the threads of the sub-agents that the run waits for.
func (r *AgentRun) subs() []string {
	var ids []string
	for _, c := range r.Calls {
		if c.Stage == CallDelegated {
			ids = append(ids, c.SubAgent)
		}
	}
	return ids
}

// unsettled returns the tools of the run's calls that have no result yet, or whose result waits for
// hooks.
func (r *AgentRun) unsettled() []string {
	var names []string
	if r.Reply != nil && !r.Done() {
		for _, c := range r.open() {
			names = append(names, c.Name)
		}
	}
	for _, c := range r.Calls {
		if c.Stage != CallSettled {
			names = append(names, c.Plan.Name)
		}
	}
	return names
}

// Details returns a description of the thread for people, in Markdown.
func (s *State) Details() string {
	v := s.View()
	var b strings.Builder
	b.Grow(256 + len(s.endedTable))
	fmt.Fprintf(&b, "**%s**", strings.ReplaceAll(string(v.Status), "_", " "))
	if len(v.Agents) > 0 {
		fmt.Fprintf(&b, " · agents: %s", strings.Join(v.Agents, ", "))
	}
	fmt.Fprintf(&b, " · %d in queue · tokens: %d in, %d out\n", v.QueueLength, v.Usage.InputTokens, v.Usage.OutputTokens)
	if v.Turn != nil {
		for _, r := range v.Turn.Runs {
			name := r.Agent
			if name == "" {
				name = "default agent"
			}
			fmt.Fprintf(&b, "\n- %s: step %d, %s %s", name, r.Step, r.Doing, strings.Join(r.Tools, ", "))
			if o := r.Retrying; o != nil {
				fmt.Fprintf(&b, "\n- its model has not answered since %s (%d attempts, the next at %s): %s",
					o.Since.UTC().Format("15:04:05Z"), o.Attempts, o.NextAttemptAt.UTC().Format("15:04:05Z"), o.Error)
			}
		}
		for _, d := range v.Turn.Deciding {
			fmt.Fprintf(&b, "\n- waits for hooks: %s on %s `%s`", strings.Join(d.Hooks, ", "), d.EventType, d.EventID)
		}
	}
	for _, a := range s.Approvals() {
		fmt.Fprintf(&b, "\n- waits for approval: `%s` (%s) since %s", a.ToolName, a.ToolCallID, a.RequestedAt.UTC().Format("2006-01-02 15:04:05Z"))
	}
	for _, c := range s.Turns.ClientCalls() {
		fmt.Fprintf(&b, "\n- waits for a client: `%s` (%s) until %s", c.ToolName, c.ToolCallID, c.ExpiresAt.UTC().Format("2006-01-02 15:04:05Z"))
	}
	for _, q := range s.InputRequests() {
		fmt.Fprintf(&b, "\n- waits for input: `%s` (%s) since %s", q.ToolName, q.ToolCallID, q.RequestedAt.UTC().Format("2006-01-02 15:04:05Z"))
	}
	for _, task := range s.Tasks.Running {
		fmt.Fprintf(&b, "\n- task `%s` runs since %s: %s", task.ID, task.StartedAt.UTC().Format("2006-01-02 15:04:05Z"), task.Title)
	}
	for _, h := range v.Held {
		fmt.Fprintf(&b, "\n- rule %s holds %d events back until %s", h.Rule, h.Count, h.Until.UTC().Format("15:04:05Z"))
	}
	for _, f := range s.Inbox.Failed {
		fmt.Fprintf(&b, "\n- failed: event %s: %s", f.Item.ID, f.Item.Error)
	}
	b.WriteString(s.tableOfEnded())
	return b.String()
}
