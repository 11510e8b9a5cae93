package activities

import (
	"context"

	"github.com/threadmill/threadmill/internal/names/addressing"
	"github.com/threadmill/threadmill/llm"
)

// addressed rewrites a final reply to show whom it addresses. Interrupted replies and replies with
// tool calls are unchanged.
func (c *modelCall) addressed(ctx context.Context, res llm.Response, interrupted bool) llm.Response {
	if interrupted || len(res.ToolCalls) > 0 {
		return res
	}
	content := res.Content
	res.Content = addressing.Rewrite(content, c.agent.Name, c.in.Answers, c.in.Answers != "", !c.agent.NoAutoMention)
	if content != "" && res.Content == "" && !c.in.Quiet {
		// No stored message will supersede the fragments that viewers have received.
		c.reset(ctx)
	}
	return res
}
