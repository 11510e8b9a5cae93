package conversation

import (
	"context"
	"encoding/json"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/tool"
)

// provider is the name under which the stand-in is known. Its models are the agents.
const provider = "openai/"

// Publish publishes a text for a call. It may be asked twice for one call, when nobody
// knows whether the first time was the end of it.
type Publish func(ctx context.Context, call tool.Call) error

// Configure puts the agents of the conversation, their tools and its namer into the
// configuration of a runtime.
func (t *Transcript) Configure(c *threadmill.Config, publish Publish) {
	c.Agents, c.TitleModel = nil, provider+Namer
	for _, a := range t.Agents {
		c.Agents = append(c.Agents, agent.Agent{Name: a.Name, Instructions: a.Instructions, Model: provider + a.Name, Tools: a.Tools})
	}
	c.Tools = []tool.Tool{publishing(publish), screen}
}

// publishing is a tool that has an effect, of which people are asked.
func publishing(publish Publish) tool.Tool {
	// However often its worker is killed.
	const attempts = 100
	return tool.MustFunc("publish", "Publishes a text.", func(ctx context.Context, c tool.Call, in struct {
		Text string `json:"text"`
		To   string `json:"to,omitempty"`
	},
	) (string, error) {
		return "published: " + in.Text, publish(ctx, c)
	}, tool.NeedsApproval("it cannot be taken back"), tool.Idempotent(attempts))
}

// screen is a tool that runs where a person is.
var screen = tool.Client(tool.Definition{
	Name: "look_at_screen", Description: "Says what a person has on the screen.",
	Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`), Deadline: time.Hour,
})
