package store

import (
	"context"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// Memory returns an agent's memory of a thread: of the messages that q selects, in the order of q,
// the agent's own messages with tool calls and results, and the messages of others without theirs.
// Names are case-insensitive. The messages are in the form for models: see [Message.ForModels].
//
// The limits of q apply before this selection, so there may be fewer messages. Memory does not
// decide which messages are addressed to the agent.
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

// isOwn reports whether the agent wrote the message, or it is the result of the agent's call.
func isOwn(m Message, agent string) bool {
	return strings.EqualFold(m.AgentID, agent) && (m.SenderType == event.CreatedByAgent || m.SenderType == event.CreatedByTool)
}
