package thread

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/signals"
)

// View is the answer to query "state".
func (s *State) View() signals.State {
	v := signals.State{
		Namespace: s.Namespace, ThreadID: s.ThreadID, Status: signals.Idle, Title: s.Title,
		Agents: append([]string{}, s.Agents...), Metadata: s.Metadata, QueueLength: len(s.Queue),
		Approvals: len(s.Approvals()), Failed: s.Failed, Usage: s.Usage,
	}
	switch {
	case s.Closing != nil:
		v.Status = signals.Closed
	case v.Approvals > 0:
		v.Status = signals.WaitingApproval
	case s.Turn != nil:
		v.Status = signals.Running
	}
	if s.Turn != nil {
		v.Turn = &signals.TurnState{EventID: s.Turn.Item.ID, TraceID: s.Turn.Item.TraceID, StartedAt: s.Turn.StartedAt, Runs: []signals.RunState{}}
		for _, r := range s.Turn.Runs {
			rs := signals.RunState{Agent: r.Agent, Step: r.Step, Doing: string(r.Phase)}
			for _, c := range r.Calls {
				if c.Stage != CallSettled {
					rs.Tools = append(rs.Tools, c.Plan.Name)
				}
			}
			v.Turn.Runs = append(v.Turn.Runs, rs)
		}
	}
	return v
}

// Details describes the thread for a person, as Markdown.
func (s *State) Details() string {
	v := s.View()
	var b strings.Builder
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
		}
	}
	for _, a := range s.Approvals() {
		fmt.Fprintf(&b, "\n- waits for approval: `%s` (%s) since %s", a.ToolName, a.ToolCallID, a.RequestedAt.UTC().Format("2006-01-02 15:04:05Z"))
	}
	for _, f := range s.Failed {
		fmt.Fprintf(&b, "\n- failed: event %s: %s", f.ID, f.Error)
	}
	return b.String()
}
