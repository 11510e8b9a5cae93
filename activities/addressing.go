package activities

import (
	"context"

	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/llm"
)

// addressed is a reply as it is stored: a final one is settled as to whom it addresses.
// One that was cut off stays as it arrived, and so does one that asks for tools, since it
// does not end the agent's part.
func (c *modelCall) addressed(ctx context.Context, res llm.Response, interrupted bool) llm.Response {
	if interrupted || len(res.ToolCalls) > 0 {
		return res
	}
	said := res.Content
	res.Content = thread.Addressing(said, c.agent.Name, c.in.Answers, c.in.Answers != "", !c.agent.NoAutoMention)
	if said != "" && res.Content == "" && !c.in.Quiet {
		// No message will come that takes the place of the pieces that viewers have seen.
		c.reset(ctx)
	}
	return res
}
