package store

import (
	"context"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Memory is what an agent knows of a thread: of the messages that q selects, in the order
// of q, what the agent has said, with its tool calls and their results; and what everybody
// else has said, without calls and results of theirs. Names are compared without regard to
// case. Messages are as models are shown them, see [Message.ForModels].
//
// The bounds of q are of what is read; what is returned may be less. Whether the agent is
// meant by a message, and so is to be shown it, is decided elsewhere.
func Memory(ctx context.Context, s Reader, key Key, agent string, q Query) ([]Message, error) {
	all, err := Messages(ctx, s, key, q)
	if err != nil {
		return nil, err
	}
	known := all[:0]
	for _, m := range all {
		shown, ok := m.ForModels()
		if !ok {
			continue
		}
		m.Message, m.Hidden = shown, false
		if !isOwn(m, agent) {
			if m.ToolCallID != "" || m.Content == "" {
				continue
			}
			m.ToolCalls = nil
		}
		known = append(known, m)
	}
	return known, nil
}

// isOwn reports whether the agent has said the message, or it is the result of its call.
func isOwn(m Message, agent string) bool {
	return strings.EqualFold(m.AgentID, agent) && (m.SenderType == event.Agent || m.SenderType == event.Tool)
}
