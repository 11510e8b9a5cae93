// Package agents tests agents who ask others, and work in the background.
package agents

import (
	"context"
	"slices"
	"testing"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/killing"
	"github.com/threadmill/threadmill/tool"
)

// TestMain turns the test binary into a worker, for tests that kill it.
func TestMain(m *testing.M) {
	killing.Main(m, map[string]killing.Kind{"chores": withChores, "team": asTeam})
}

// asTeam is a kind of worker: it has agents who can ask one another, and a tool that needs approval.
func asTeam(w killing.Worker, c *threadmill.Config) error {
	c.Agents, c.Tools = check.Team("act", "risk"), append(c.Tools, risk(w))
	for i := range c.Agents {
		c.Agents[i].Tools = slices.DeleteFunc(c.Agents[i].Tools, func(name string) bool { return name == "note" || name == "shell_cmd" })
	}
	return nil
}

// risk is the tool "act", after approval.
func risk(w killing.Worker) tool.Tool {
	return tool.MustFunc("risk", "Acts, if it may.", func(ctx context.Context, c tool.Call, in struct {
		How string `json:"how"`
	},
	) (string, error) {
		return "acted: " + in.How, w.Tell(ctx, "act", in.How)
	}, tool.NeedsApproval("it has an effect"))
}
