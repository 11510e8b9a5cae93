package thread

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Roster are the agents of the thread.
type Roster struct {
	Agents []string `json:"agents,omitempty"`

	// Default is what the default agent was called when it last answered.
	Default string `json:"default,omitempty"`

	// TurnLimit is how many LLM calls an agent may make before a person or the world
	// speaks again, 0 the default; LLMCalls counts them, by the agent's name in lower case.
	TurnLimit int            `json:"turnLimit,omitempty"`
	LLMCalls  map[string]int `json:"llmCalls,omitempty"`
}

// addressed are the agents that answer a message.
func (ro *Roster) addressed(m event.Message) []string {
	return Answering(ro.Agents, m)
}

// address gives an agent that a message addresses its run, unless it has made as many LLM
// calls as it may: then people are asked to go on.
func (t *Turn) address(now time.Time, agent string, m event.Message) {
	s := t.thread
	t.addressRun(now, Run{Agent: agent, ReplyTo: m.ID, Answers: s.participant(m)})
}

func (t *Turn) addressRun(now time.Time, r Run) {
	s := t.thread
	if n := s.LLMCalls[key(r.Agent)]; n >= s.turnLimit() {
		t.notice(now, event.TurnLimitID(r.ReplyTo, key(r.Agent)), TurnLimitText(n))
		return
	}
	r.Phase = PhaseModel
	t.addRun(&r)
}

// steer has a message that joins the turn answered by the runs in progress, once by each
// agent. One that mentions some of the agents is for them only, and those that have no run
// get theirs.
func (t *Turn) steer(now time.Time, m event.Message) {
	s := t.thread
	everybody := len(s.Agents) == 0 || len(t.Agents) > 0 || !HasMentionAtStart(m.Content)
	to, joined := t.answering(m), []string(nil)
	for _, r := range t.Runs {
		if r.Phase == PhaseDone || hasName(joined, r.Agent) || !everybody && !hasName(to, r.Agent) {
			continue
		}
		r.Missed = &Missed{ID: m.ID, Answers: s.participant(m)}
		if !r.Calling && r.Phase != PhaseReply && r.Phase != PhaseCalls {
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

// Missed is a message that a run has not answered yet, and the agent that wrote it, if one
// did.
type Missed struct {
	ID      string `json:"id"`
	Answers string `json:"answers,omitempty"`
}

// takeMissed has the next reply answer what the run has missed.
func (r *Run) takeMissed() {
	if r.Missed != nil {
		r.ReplyTo, r.Answers, r.Missed = r.Missed.ID, r.Missed.Answers, nil
	}
}

// answerMissed gives the agent of a run that is done another one for what joined the turn
// when its last reply was on its way.
func (r *Run) answerMissed(now time.Time) {
	t := r.turn
	missed := r.Missed
	if r.Missed = nil; missed == nil || r.Interrupted || t.Interrupted != nil {
		return
	}
	t.addressRun(now, Run{Agent: r.Agent, ReplyTo: missed.ID, Answers: missed.Answers})
}

// routeReply gives the agents that a final reply addresses their runs.
func (r *Run) routeReply(now time.Time, m event.Message) {
	t, s := r.turn, r.turn.thread
	m.SenderID, m.SenderType, m.AgentID = r.Agent, event.Agent, r.Agent
	for _, agent := range s.addressed(m) {
		if t.Interrupted != nil || m.Interrupted {
			t.Cut = true
			return
		}
		t.address(now, agent, m)
	}
}

// participant is the agent that wrote a message, if it takes part in the thread.
func (ro *Roster) participant(m event.Message) string {
	if m.SenderType != event.Agent {
		return ""
	}
	for _, agent := range ro.Agents {
		if strings.EqualFold(agent, m.SenderID) {
			return agent
		}
	}
	return ""
}

// resetTurnLimit lets agents speak to each other again, once a person or the world has spoken.
func (ro *Roster) resetTurnLimit(by event.CreatedBy) {
	if by == event.User || by == event.Tool {
		ro.LLMCalls = nil
	}
}

// countCall counts an LLM call of a run's agent, before it is made.
func (r *Run) countCall() {
	s := r.turn.thread
	if s.LLMCalls == nil {
		s.LLMCalls = map[string]int{}
	}
	s.LLMCalls[key(r.agentOf())]++
}

// nameDefaultAgent counts for the default agent by its name what was counted before that was known.
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

// maxDirectory bounds the path of a working directory, in bytes.
const maxDirectory = 4 << 10

// workingDirectory is where the thread's tools work, if its metadata says so.
func (s *State) workingDirectory() string {
	var fields struct {
		WorkingDirectory string `json:"workingDirectory"`
	}
	if len(s.Metadata) == 0 || json.Unmarshal(s.Metadata, &fields) != nil || len(fields.WorkingDirectory) > maxDirectory {
		return ""
	}
	return fields.WorkingDirectory
}
