package clients

import (
	"context"
	"net/http"
	"testing"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
	"github.com/threadmill/threadmill/tool"
)

// chats starts a harness for the scenarios of a client, with two agents.
func chats(t *testing.T, scenario string) *harness.Harness {
	ask := tool.MustFunc("ask", "Asks.", func(_ context.Context, _ tool.Call, in struct {
		Text string `json:"text"`
	},
	) (string, error) {
		return "asked: " + in.Text, nil
	})
	locate := tool.Client(tool.Definition{Name: "locate", Description: "Where the person is."})
	assistant := func(name string) agent.Agent {
		return agent.Agent{
			Name: name, Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"note", "ask", "locate", "call_agent", "book"},
			Approvals: map[string]agent.Policy{"ask": agent.PolicyAlways},
		}
	}
	attempts := 1
	if scenario == "retried call" {
		attempts = 2
	}
	w := harness.New(t, harness.Options{
		Tools: []tool.Tool{ask, locate, &harness.Booking{}}, Agents: []agent.Agent{assistant("assistant"), assistant("second")}, MaxModelAttempts: attempts,
	})
	switch scenario {
	case "error":
		w.Provider.Fail(llmtest.Status(http.StatusBadRequest, ""))
	case "retried call":
		w.Provider.Fail(llmtest.Drop(10))
	}
	return w
}

// TestAISDK talks to threads with the AI SDK's own clients: tests/npm/aisdk.mjs has the scenarios.
func TestAISDK(t *testing.T) {
	for _, version := range []string{"ai6", "ai7"} {
		for _, scenario := range []string{
			"reply", "tools", "approval", "approval elsewhere", "forged history", "client tool", "agents", "error", "regenerate", "stop", "resume", "cuts", "steer",
			"workflow", "retried call", "input",
		} {
			t.Run(version+" "+scenario, func(t *testing.T) {
				t.Parallel()
				w := chats(t, scenario)
				proc.Output(t, testenv.Node(t, "aisdk.mjs", version, w.API.URL, scenario))
			})
		}
	}
}

// TestAGUI talks to threads with AG-UI's own client: tests/npm/agui.mjs has the scenarios.
func TestAGUI(t *testing.T) {
	for _, scenario := range []string{
		"reply", "tools", "interrupt", "interrupt elsewhere", "client tool", "agents", "error", "cancelled", "resume", "cuts", "sub-agent", "input",
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			w := chats(t, scenario)
			proc.Output(t, testenv.Node(t, "agui.mjs", w.API.URL, scenario))
		})
	}
}

// TestPageClient cuts the connection of the page's client at 100 random points: it shows the same as
// one without cuts.
func TestPageClient(t *testing.T) {
	t.Parallel()
	w := chats(t, "cuts")
	proc.Output(t, testenv.Node(t, "client.mjs", w.API.URL))
}
