package thread

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// addressed are the agents that answer a message.
func (s *State) addressed(m event.Message) []string {
	return Answering(s.Agents, m)
}

// address gives an agent that a message addresses its run, unless it has made as many LLM
// calls as it may: then people are asked to go on.
func (s *State) address(now time.Time, agent string, m event.Message) {
	s.addressRun(now, Run{Agent: agent, ReplyTo: m.ID, Answers: s.participant(m)})
}

func (s *State) addressRun(now time.Time, r Run) {
	if n := s.LLMCalls[key(r.Agent)]; n >= s.turnLimit() {
		s.notice(now, event.TurnLimitID(r.ReplyTo, key(r.Agent)), TurnLimitText(n))
		return
	}
	r.Slot, r.Phase = len(s.Turn.Runs), PhaseModel
	s.Turn.Runs = append(s.Turn.Runs, &r)
}

// steer has a message that joins the turn answered by the runs in progress, once by each
// agent. One that mentions some of the agents is for them only, and those that have no run
// get theirs.
func (s *State) steer(now time.Time, m event.Message) {
	everybody := len(s.Agents) == 0 || len(s.Turn.Agents) > 0 || !HasMentionAtStart(m.Content)
	to, joined := s.answering(m), []string(nil)
	for _, r := range s.Turn.Runs {
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
			s.address(now, agent, m)
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
func (s *State) answerMissed(now time.Time, r *Run) {
	missed := r.Missed
	if r.Missed = nil; missed == nil || r.Interrupted || s.Turn.Interrupted != nil {
		return
	}
	s.addressRun(now, Run{Agent: r.Agent, ReplyTo: missed.ID, Answers: missed.Answers})
}

// handOn gives the agents that a final reply addresses their runs.
func (s *State) handOn(now time.Time, r *Run, m event.Message) {
	m.SenderID, m.SenderType, m.AgentID = r.Agent, event.Agent, r.Agent
	for _, agent := range s.addressed(m) {
		if s.Turn.Interrupted != nil || m.Interrupted {
			s.Turn.Cut = true
			return
		}
		s.address(now, agent, m)
	}
}

// participant is the agent that wrote a message, if it takes part in the thread.
func (s *State) participant(m event.Message) string {
	if m.SenderType != event.Agent {
		return ""
	}
	for _, agent := range s.Agents {
		if strings.EqualFold(agent, m.SenderID) {
			return agent
		}
	}
	return ""
}

// heardFrom lets agents speak to each other again, once a person or the world has spoken.
func (s *State) heardFrom(by event.CreatedBy) {
	if by == event.User || by == event.Tool {
		s.LLMCalls = nil
	}
}

// countCall counts an LLM call of a run's agent, before it is made.
func (s *State) countCall(r *Run) {
	if s.LLMCalls == nil {
		s.LLMCalls = map[string]int{}
	}
	s.LLMCalls[key(s.agentOf(r))]++
}

// countAs counts for the default agent by its name what was counted before that was known.
func (s *State) countAs(name string) {
	if n := s.LLMCalls[""]; n > 0 {
		delete(s.LLMCalls, "")
		s.LLMCalls[key(name)] += n
	}
}

func key(agent string) string { return strings.ToLower(agent) }

func (s *State) turnLimit() int {
	if s.TurnLimit > 0 {
		return s.TurnLimit
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
