package thread

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
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
	return Answering(ro.Agents, m)
}

// address starts a run for an agent that a message addresses. If the agent has reached the turn
// limit, it asks people to continue instead.
func (t *Turn) address(now time.Time, agent string, m event.Message) {
	s := t.thread
	t.addressRun(now, AgentRun{Agent: agent, ReplyTo: m.ID, Answers: s.participant(m)})
}

func (t *Turn) addressRun(now time.Time, r AgentRun) {
	s := t.thread
	if n := s.LLMCalls[key(r.Agent)]; n >= s.turnLimit() {
		t.notice(now, event.TurnLimitID(r.ReplyTo, key(r.Agent)), TurnLimitText(n))
		return
	}
	r.Phase = PhaseModel
	t.addRun(&r)
}

// steer adds a message to the turn's runs, once per agent. A message that mentions agents is only
// for them; those without a run get one.
func (t *Turn) steer(now time.Time, m event.Message) {
	s := t.thread
	everybody := len(s.Agents) == 0 || len(t.Agents) > 0 || !HasMentionAtStart(m.Content)
	to, joined := t.answering(m), []string(nil)
	for _, r := range t.Runs {
		if r.Phase == PhaseDone || hasName(joined, r.Agent) || !everybody && !hasName(to, r.Agent) {
			continue
		}
		r.Late = &LateMessage{ID: m.ID, Answers: s.participant(m)}
		if !r.InFlight && r.Phase != PhaseReply && r.Phase != PhaseCalls {
			r.takeMissed()
		}
		joined = append(joined, r.Agent)
	}
	for _, agent := range to {
		if !everybody && !hasName(joined, agent) {
			t.address(now, agent, m)
		}
	}
}

// LateMessage is a message that a run has not answered yet, and the agent that wrote it, if any.
type LateMessage struct {
	ID      string `json:"id"`
	Answers string `json:"answers,omitempty"`
}

// takeMissed makes the next reply answer the missed message.
func (r *AgentRun) takeMissed() {
	if r.Late != nil {
		r.ReplyTo, r.Answers, r.Late = r.Late.ID, r.Late.Answers, nil
	}
}

// answerMissed starts another run for the agent of a finished run, if a message joined the turn
// during its last model call.
func (r *AgentRun) answerMissed(now time.Time) {
	t := r.turn
	missed := r.Late
	if r.Late = nil; missed == nil || r.Interrupted || t.Interrupted != nil {
		return
	}
	t.addressRun(now, AgentRun{Agent: r.Agent, ReplyTo: missed.ID, Answers: missed.Answers})
}

// routeReply starts runs for the agents that a final reply addresses.
func (r *AgentRun) routeReply(now time.Time, m event.Message) {
	t, s := r.turn, r.turn.thread
	m.SenderID, m.SenderType, m.AgentID = r.Agent, event.CreatedByAgent, r.Agent
	for _, agent := range s.addressed(m) {
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

// countCall counts a model call of a run's agent, before the call.
func (r *AgentRun) countCall() {
	s := r.turn.thread
	if s.LLMCalls == nil {
		s.LLMCalls = map[string]int{}
	}
	s.LLMCalls[key(r.agentOf())]++
}

// nameDefaultAgent moves the default agent's count to its name, once that is known.
func (ro *Roster) nameDefaultAgent(name string) {
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

// maxDirectory is the maximum length of a working directory's path, in bytes.
const maxDirectory = 4 << 10

// workingDirectory returns the working directory in the thread's metadata, or "".
func (s *State) workingDirectory() string {
	var fields struct {
		WorkingDirectory string `json:"workingDirectory"`
	}
	if len(s.Metadata) == 0 || json.Unmarshal(s.Metadata, &fields) != nil || len(fields.WorkingDirectory) > maxDirectory {
		return ""
	}
	return fields.WorkingDirectory
}
