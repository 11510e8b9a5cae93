package thread

import (
	"regexp"
	"strings"

	"github.com/threadmill/threadmill/event"
)

var mention = regexp.MustCompile(`(?m)^\s*@([A-Za-z0-9_-]+)`)

// Route says which of a thread's agents answer a message. A thread without named
// agents has the default agent, whose name is "".
//
//   - System messages are answered by nobody.
//   - People, and tools that report from outside, are answered by the agents that a
//     line of the message begins with (@name), or by all if there are none.
//   - Agents are answered only by other agents that a line begins with.
func Route(agents []string, by event.CreatedBy, sender, content string) []string {
	if by == event.System {
		return nil
	}
	var named []string
	for _, agent := range agents {
		if mentions(content, agent) && (by != event.Agent || !strings.EqualFold(agent, sender)) {
			named = append(named, agent)
		}
	}
	switch {
	case by == event.Agent || len(named) > 0:
		return named
	case len(agents) == 0:
		return []string{""}
	}
	return agents
}

func mentions(content, agent string) bool {
	for _, m := range mention.FindAllStringSubmatch(content, -1) {
		if strings.EqualFold(m[1], agent) {
			return true
		}
	}
	return false
}
