package conversation

import (
	"context"
	"encoding/json"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/tool"
)

// provider is the name of the model's provider. Its models are the agents.
const provider = "openai/"

// Publish publishes a text for a call. It may be called twice for one call, if the result of the
// first attempt is unknown.
type Publish func(ctx context.Context, call tool.Call) error

// Configure adds the agents of the conversation, their tools and the title model to the
// configuration of a runtime.
func (t *Transcript) Configure(c *threadmill.Config, publish Publish) {
	c.Agents, c.TitleModel = nil, provider+Namer
	for _, a := range t.Agents {
		c.Agents = append(c.Agents, agent.Agent{Name: a.Name, Instructions: a.Instructions, Model: provider + a.Name, Tools: a.Tools})
	}
	c.Tools = []tool.Tool{publishing(publish), screen}
}

// publishing is a tool with an effect, which needs approval.
func publishing(publish Publish) tool.Tool {
	// However often its worker is killed.
	const attempts = 100
	return tool.MustFunc("publish", "Publishes a text.", func(ctx context.Context, c tool.Call, in struct {
		Text string `json:"text"`
		To   string `json:"to,omitempty"`
	},
	) (string, error) {
		return "published: " + in.Text, publish(ctx, c)
	}, tool.NeedsApproval("it cannot be taken back"), tool.Idempotent(), tool.MaxAttempts(attempts))
}

// screen is a client-side tool.
var screen = tool.ClientSide(tool.Definition{
	Name: "look_at_screen", Description: "Says what a person has on the screen.",
	Parameters: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`), Deadline: time.Hour,
})
