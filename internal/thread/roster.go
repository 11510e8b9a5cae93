package thread

import (
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/signals"
)

// Roster contains the agents of the thread.
type Roster struct {
	Agents []string `json:"agents,omitempty"`

	// Default is the name under which the default agent last replied.
	Default string `json:"default,omitempty"`

	// TurnLimit is the number of model calls that an agent may make between messages of users or
	// external events; 0 = the default. LLMCalls counts them by the agent's name in lower case.
	TurnLimit int            `json:"turnLimit,omitempty"`
	LLMCalls  map[string]int `json:"llmCalls,omitempty"`
}

// addressed returns the agents that answer a message.
func (ro *Roster) addressed(m event.Message) []string {
	return addressing.Answering(ro.Agents, m)
}

// address starts a run for an agent that a message addresses. If the agent has reached the turn
// limit, it asks people to continue instead.
func (t *Turn) address(now time.Time, agent string, m event.Message) {
	s := t.thread
	t.addressRun(now, AgentRun{Agent: agent, ReplyTo: m.ID, Answers: s.Roster.participant(m)})
}

func (t *Turn) addressRun(now time.Time, r AgentRun) {
	s := t.thread
	if n := s.Roster.LLMCalls[key(r.Agent)]; n >= s.Roster.turnLimit() {
		t.notice(now, recordid.TurnLimit(r.ReplyTo, key(r.Agent)), addressing.TurnLimitText(n))
		return
	}
	r.Phase = PhaseModel
	t.addRun(&r)
}

// routeReply starts runs for the agents that a final reply addresses.
func (r *AgentRun) routeReply(now time.Time, m event.Message) {
	t, s := r.turn, r.turn.thread
	m.SenderID, m.SenderType, m.AgentID = r.Agent, event.CreatedByAgent, r.Agent
	for _, agent := range s.Roster.addressed(m) {
		if t.Interrupted != nil || m.Interrupted {
			t.Cut = true
			return
		}
		t.address(now, agent, m)
	}
}

// participant returns the agent of the thread that wrote a message, or "".
func (ro *Roster) participant(m event.Message) string {
	if m.SenderType != event.CreatedByAgent {
		return ""
	}
	for _, agent := range ro.Agents {
		if strings.EqualFold(agent, m.SenderID) {
			return agent
		}
	}
	return ""
}

// resetTurnLimit resets the counters of the turn limit after a message of a user or a tool.
func (ro *Roster) resetTurnLimit(by event.CreatedBy) {
	if by == event.CreatedByUser || by == event.CreatedByTool {
		ro.LLMCalls = nil
	}
}

// countCall counts a model call of an agent, before the call.
func (ro *Roster) countCall(agent string) {
	if ro.LLMCalls == nil {
		ro.LLMCalls = map[string]int{}
	}
	ro.LLMCalls[key(agent)]++
}

// nameDefaultAgent keeps the name of the default agent, once that is known, and moves its count to the name.
func (ro *Roster) nameDefaultAgent(name string) {
	ro.Default = name
	if n := ro.LLMCalls[""]; n > 0 {
		delete(ro.LLMCalls, "")
		ro.LLMCalls[key(name)] += n
	}
}

func key(agent string) string { return strings.ToLower(agent) }

func (ro *Roster) turnLimit() int {
	if ro.TurnLimit > 0 {
		return ro.TurnLimit
	}
	return signals.DefaultTurnLimit
}

// changed returns the agents after a change.
func (ro *Roster) changed(c signals.ThreadChange) []string {
	if len(c.Agents) > 0 {
		return c.Agents
	}
	among := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(other, name) })
	}
	out := slices.DeleteFunc(slices.Clone(ro.Agents), func(name string) bool { return among(c.RemoveAgents, name) })
	for _, name := range c.AddAgents {
		if !among(out, name) {
			out = append(out, name)
		}
	}
	return out
}
