package addressing

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Answering returns the agents of a thread that answer a message, each once, in the thread's order.
// A thread without named agents has the default agent, whose name is "".
func Answering(agents []string, m event.Message) []string {
	if len(agents) == 0 {
		agents = []string{""}
	}
	var out []string
	for _, agent := range agents {
		if !HasName(out, agent) && Responds(agent, agents, m) {
			out = append(out, agent)
		}
	}
	return out
}

// Responds reports whether an agent answers a message in a thread with these agents. Routing of new
// messages and the visibility of old ones both follow this function.
//
//   - Nobody answers system messages, tool results and the notice of the turn limit.
//   - No agent answers its own messages, or messages sent under its name.
//   - An agent's message is answered only by the agents that it mentions at the start of a line.
//   - A message of a user or an external event is answered by the agents that it mentions at the start
//     of a line, and by no agent if it mentions only people. Without such a mention every agent
//     answers, unless the text mentions an agent of the thread elsewhere: then it talks about the
//     agent and addresses nobody.
//
// In a thread without named agents, the default agent answers all messages of users and external
// events.
func Responds(agent string, agents []string, m event.Message) bool {
	if m.ToolCallID != "" || wrote(agent, m) || IsTurnLimit(m.Content) {
		return false
	}
	switch m.SenderType {
	case event.CreatedByAgent:
		return HasName(Mentions(m.Content), agent)
	case event.CreatedByUser, event.CreatedByTool:
		if len(others(agents, "")) == 0 {
			return true
		}
		if to := Mentions(m.Content); len(to) > 0 {
			return HasName(to, agent)
		}
		return !mentionsInText(m.Content, agents)
	case event.CreatedBySystem:
	}
	return false
}

// wrote reports whether the agent wrote a message.
func wrote(agent string, m event.Message) bool {
	return agent != "" && (strings.EqualFold(m.SenderID, agent) || strings.EqualFold(m.AgentID, agent))
}

const turnLimitReached = "Turn limit reached"

// TurnLimitText returns the notice that hands the conversation over to people after n model calls
// of an agent.
func TurnLimitText(n int) string {
	return fmt.Sprintf("@human %s (%d LLM calls). Please take control of the conversation.", turnLimitReached, n)
}

// IsTurnLimit reports whether a message is the notice of [TurnLimitText], with or without its
// mention.
func IsTurnLimit(content string) bool {
	text := strings.TrimSpace(content)
	if _, rest, ok := cutMention(text); ok {
		text = strings.TrimSpace(strings.TrimLeft(rest, ",:"))
	}
	return len(text) >= len(turnLimitReached) && strings.EqualFold(text[:len(turnLimitReached)], turnLimitReached)
}

// SamePerson reports whether two names identify the same person, ignoring case and surrounding
// spaces.
func SamePerson(a, b string) bool {
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}
