package thread

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Answering says which of a thread's agents answer a message, each once and in the
// thread's order. A thread without named agents has the default agent, whose name is "".
func Answering(agents []string, m event.Message) []string {
	if len(agents) == 0 {
		agents = []string{""}
	}
	var out []string
	for _, agent := range agents {
		if !hasName(out, agent) && Responds(agent, agents, m) {
			out = append(out, agent)
		}
	}
	return out
}

// Responds reports whether an agent answers a message in a thread with these agents. It is
// the one rule of routing, for what is said now and for what an agent is shown of what was
// said before.
//
//   - Nobody answers the system, a tool's result, or that the turn limit is reached.
//   - No agent answers what it has said itself, or what is said in its name.
//   - An agent is answered only by those whom it mentions at the start of a line.
//   - People and the world around are answered by those whom they mention at the start of
//     a line: by no agent, if they mention people only. Without such a mention every agent
//     answers, unless an agent of the thread is mentioned in the middle of a text: then it
//     is spoken of, and nobody is addressed.
//
// In a thread without named agents there is nobody to choose from: the default agent
// answers all that people and the world say.
func Responds(agent string, agents []string, m event.Message) bool {
	if m.ToolCallID != "" || wrote(agent, m) || IsTurnLimit(m.Content) {
		return false
	}
	switch m.SenderType {
	case event.Agent:
		return hasName(Mentions(m.Content), agent)
	case event.User, event.Tool:
		if len(others(agents, "")) == 0 {
			return true
		}
		if to := Mentions(m.Content); len(to) > 0 {
			return hasName(to, agent)
		}
		return !mentionsInText(m.Content, agents)
	case event.System:
	}
	return false
}

// wrote reports whether a message is the agent's own.
func wrote(agent string, m event.Message) bool {
	return agent != "" && (strings.EqualFold(m.SenderID, agent) || strings.EqualFold(m.AgentID, agent))
}

const turnLimitReached = "Turn limit reached"

// TurnLimitText hands the conversation over to people, after an agent's n LLM calls
// without a word of theirs.
func TurnLimitText(n int) string {
	return fmt.Sprintf("@human %s (%d LLM calls). Please take control of the conversation.", turnLimitReached, n)
}

// IsTurnLimit reports whether a message says that the turn limit is reached, as
// [TurnLimitText] does, with or without somebody whom it addresses.
func IsTurnLimit(content string) bool {
	text := strings.TrimSpace(content)
	if _, rest, ok := cutMention(text); ok {
		text = strings.TrimSpace(strings.TrimLeft(rest, ",:"))
	}
	return len(text) >= len(turnLimitReached) && strings.EqualFold(text[:len(turnLimitReached)], turnLimitReached)
}
