package mcpserver

import (
	"context"

	"github.com/threadmill/threadmill/auth"
)

// agentInfo is an agent in a list.
type agentInfo struct {
	Name        string `json:"name" jsonschema:"The name: for ask_agent"`
	Description string `json:"description,omitempty" jsonschema:"What the agent is for"`
	Model       string `json:"model,omitempty" jsonschema:"The model, as provider/name"`
	Default     bool   `json:"default,omitempty" jsonschema:"Whether it answers if none is named"`
	Problem     string `json:"problem,omitempty" jsonschema:"Why it cannot answer"`
}

type agentList struct {
	Agents []agentInfo `json:"agents" jsonschema:"The agents"`
	More   bool        `json:"more,omitempty" jsonschema:"Whether there are more agents than are listed"`
}

// maxAgents is the maximum number of agents in a list.
const maxAgents = 200

func (s *server) agentsTool() tool {
	return define("list_agents", "List agents", "Lists the agents that can be asked, and what each is for.",
		reads, true, []auth.Role{auth.RoleRead},
		func(ctx context.Context, _ *call, _ struct{}) (agentList, error) { return s.agents(ctx) })
}

func (s *server) agents(ctx context.Context) (agentList, error) {
	all, err := s.api.Agents(ctx, maxAgents+1) // one more shows whether there are more
	out := agentList{Agents: []agentInfo{}, More: len(all) > maxAgents}
	for _, a := range all[:min(len(all), maxAgents)] {
		out.Agents = append(out.Agents, agentInfo{
			Name: a.Name, Description: cut(a.Description, maxError/4), Model: a.Model, Default: a.Default, Problem: cut(a.Problem, maxError/4),
		})
	}
	return out, problem(err, "agent")
}

// tools returns all tools, in the order of their use.
func (s *server) tools() []tool {
	return []tool{
		s.askTool(), s.waitTool(), s.agentsTool(), s.listTool(), s.openTool(), s.postTool(), s.readTool(), s.approvalsTool(), s.decideTool(), s.answerTool(),
	}
}
