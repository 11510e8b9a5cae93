package chattest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Author makes the events of a turn at random, of one or two agents, as a thread does.
type Author struct {
	*rand.Rand

	// Resets means that model calls break off, and begin again.
	Resets bool

	agents  []*speaker
	calls   []*madeCall
	n       int
	foreign bool
}

// NewAuthor returns the author of a turn.
func NewAuthor(random *rand.Rand) *Author {
	a := &Author{Rand: random, agents: []*speaker{{name: "bot"}}, foreign: random.IntN(2) == 0}
	if random.IntN(3) == 0 {
		a.agents = append(a.agents, &speaker{name: "second"})
	}
	return a
}

// speaker is an agent that writes replies and then calls tools.
type speaker struct {
	name, reply, text string
	attempt           int
}

type madeCall struct {
	id, reply string
	foreign   bool
	round     int
	state     string
}

func (a *Author) id(kind string) string {
	a.n++
	return fmt.Sprintf("%s%d", kind, a.n)
}

// Next returns the next events: of one that speaks, or of a call that waits.
func (a *Author) Next() []event.AgentEvent {
	if len(a.calls) > 0 && a.IntN(3) > 0 {
		return a.settle(a.calls[a.IntN(len(a.calls))])
	}
	if a.IntN(12) == 0 {
		return []event.AgentEvent{{Type: event.EventEnvironment, Env: &event.EnvEvent{ID: a.id("w")}}}
	}
	if a.foreign && a.IntN(15) == 0 {
		c := &madeCall{id: a.id("s"), foreign: true, round: 1, state: "asked"}
		a.calls = append(a.calls, c)
		if a.IntN(2) == 0 {
			c.state = "question"
			return []event.AgentEvent{Question(c.id, 1)}
		}
		return []event.AgentEvent{Request(c.id, 1)}
	}
	s := a.agents[a.IntN(len(a.agents))]
	for _, c := range a.calls {
		if c.reply == s.reply && c.state != "over" {
			return nil // it waits for its calls
		}
	}
	return a.speak(s)
}

func (a *Author) speak(s *speaker) []event.AgentEvent {
	if s.reply == "" || s.text == "said" {
		s.reply, s.text, s.attempt = a.id("r"), "", 1
		return []event.AgentEvent{Piece(s.reply, s.name, "", 1)}
	}
	if a.Resets && a.IntN(8) == 0 {
		s.text = ""
		s.attempt++
		return []event.AgentEvent{Reset(s.reply, s.name, s.attempt)}
	}
	if a.Resets && s.text == "" && a.IntN(4) == 0 {
		return []event.AgentEvent{Thought(s.reply, s.name, a.id("thought "), s.attempt)}
	}
	if a.IntN(3) > 0 {
		word := a.id("word ")
		s.text += word
		return []event.AgentEvent{Piece(s.reply, s.name, word, s.attempt)}
	}
	rest := a.IntN(2)
	if a.Resets && s.text == "" {
		rest = 1 // what was said in vain is not all
	}
	out := []event.AgentEvent{Said(s.reply, s.name, s.text+strings.Repeat("rest", rest))}
	s.text = "said"
	for range a.IntN(3) {
		c := &madeCall{id: a.id("c"), reply: s.reply}
		a.calls = append(a.calls, c)
		call := Call(s.reply, c.id, []string{"known", "other"}[a.IntN(2)])
		call.Agent = s.name
		out = append(out, call)
	}
	return out
}

// End returns the events that end the turn.
func (a *Author) End() []event.AgentEvent {
	var out []event.AgentEvent
	for _, s := range a.agents {
		if s.reply != "" && s.text != "said" {
			out = append(out, Said(s.reply, s.name, s.text+"end"))
		}
	}
	return append(out, Ended("completed", ""))
}

// settle moves a call on.
func (a *Author) settle(c *madeCall) []event.AgentEvent {
	switch {
	case c.state == "over":
		return nil
	case c.state == "asked":
		return a.decide(c)
	case c.state == "" && a.IntN(2) == 0 && !c.foreign:
		c.round++
		c.state = "asked"
		return []event.AgentEvent{Request(c.id, c.round)}
	case c.state == "question":
		if c.state = ""; c.foreign && a.IntN(3) == 0 {
			c.state = "over"
			return []event.AgentEvent{Withdrawal(c.id, c.round)}
		}
		return []event.AgentEvent{Answer(c.id, c.round)}
	case a.IntN(5) == 0:
		c.round++
		c.state = "question"
		return []event.AgentEvent{Question(c.id, c.round)}
	case c.foreign:
		return nil // what follows is in its thread
	case a.IntN(3) == 0:
		return []event.AgentEvent{ForClient(c.id)}
	}
	c.state = "over"
	out := Result(c.id, a.id("out"))
	out.IsError = a.IntN(4) == 0
	return []event.AgentEvent{out}
}

func (a *Author) decide(c *madeCall) []event.AgentEvent {
	decision := event.DecisionApprove
	if c.state = ""; a.IntN(3) == 0 {
		decision = event.DecisionDeny
	}
	if decision == event.DecisionDeny {
		c.state = "over"
	}
	out := []event.AgentEvent{Decision(c.id, decision, c.round)}
	if decision == event.DecisionDeny && !c.foreign {
		out = append(out, Result(c.id, "denied"))
	}
	return out
}
