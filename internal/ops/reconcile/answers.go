package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/thread"
)

// answers are those that a workflow knows.
type answers struct {
	settled         map[string]bool
	votes           map[string]bool
	results, inputs map[string]bool
	calls           map[string]thread.CallStage
	subs            map[string]bool
	steps           map[string]int
}

func answersOf(state *thread.State) *answers {
	a := &answers{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]thread.CallStage{}, map[string]bool{}, map[string]int{}}
	if state == nil {
		return a
	}
	for _, sub := range state.Children.SubAgents {
		a.subs[sub.ThreadID] = true
	}
	for _, s := range state.Decisions.Settled {
		a.settled[s.Key] = true
	}
	for _, d := range slices.Concat(state.Decisions.Early, state.Decisions.ToCheck) {
		a.votes[vote(d.ToolCallID, d.Round, d.By)] = true
	}
	if r := state.Decisions.Restored; r != nil {
		for _, d := range r.Decisions {
			a.votes[vote(d.ToolCallID, d.Round, d.By)] = true
		}
		for _, res := range r.Results {
			a.results[res.ToolCallID] = true
		}
		for _, in := range r.Inputs {
			a.inputs[recordid.InputReceived(in.ToolCallID, max(in.Round, 1))] = true
		}
		for _, sub := range r.SubAgents {
			a.subs[sub.ToolCallID] = true
		}
	}
	for _, t := range turns(state) {
		for _, r := range t.Runs {
			a.steps[recordid.Reply(t.TurnID(), r.Slot, 0)] = r.Step
			for _, c := range r.Calls {
				a.calls[c.Plan.ID] = c.Stage
				if c.Stage != thread.CallWaiting && c.Stage != thread.CallReady {
					a.subs[c.Plan.ID] = true
				}
				for _, v := range c.Votes {
					a.votes[vote(c.Plan.ID, c.Round, v.By)] = true
				}
			}
		}
	}
	return a
}

func vote(toolCallID string, round int, by string) string {
	return fmt.Sprintf("%s/%d/%s", toolCallID, max(round, 1), by)
}

// decided reports whether the workflow knows a decision.
func (a *answers) decided(made event.Approval) bool {
	stage, known := a.calls[made.ToolCallID]
	by := made.By
	if made.Decision == event.DecisionExpired {
		by = cmp.Or(by, repairer)
	}
	if a.votes[vote(made.ToolCallID, made.Round, by)] {
		return true
	}
	return a.settled[made.ToolCallID] && stage != thread.CallWaiting || known && stage != thread.CallWaiting
}

// lacksResult reports whether the workflow waits for the result of a client, or has yet to make its call.
func (a *answers) lacksResult(m event.Message) bool {
	if stage, known := a.calls[m.ToolCallID]; known {
		return stage == thread.CallAtClient
	}
	return a.lacksStep(m.ReplyToMessageID)
}

// lacksSub reports whether the workflow has yet to start the sub-agent of a call.
func (a *answers) lacksSub(toolCallID, replyID string) bool {
	if _, known := a.calls[toolCallID]; known || a.subs[toolCallID] {
		return !a.subs[toolCallID]
	}
	return a.lacksStep(replyID)
}

// lacksStep reports whether the workflow has yet to receive a reply.
func (a *answers) lacksStep(replyID string) bool {
	run, step, ok := cutStep(replyID)
	made, known := a.steps[run]
	return !ok || !known || step > made
}

// cutStep splits the id of a reply into that of its run, with step 0, and the step.
func cutStep(replyID string) (run string, step int, ok bool) {
	i := strings.LastIndexByte(replyID, '.')
	if i < 0 {
		return "", 0, false
	}
	_, err := fmt.Sscanf(replyID[i+1:], "%d", &step)
	return replyID[:i] + ".0", step, err == nil
}
