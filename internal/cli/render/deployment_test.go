package render

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/ops/deployment"
)

// TestDeploymentAdvice: threads that wait are advised to move only if the command moves them.
func TestDeploymentAdvice(t *testing.T) {
	const start, move = "which has no workers: start one", "or move its threads: worker replay --from 1 --move --build 2"
	for name, c := range map[string]struct {
		current string
		builds  []deployment.Build
		moves   bool
	}{
		"draining":           {"2", []deployment.Build{{ID: "2", Status: deployment.Current, Workers: true}, {ID: "1", Status: deployment.Draining, Waiting: 3}}, true},
		"nothing is current": {"", []deployment.Build{{ID: "1", Status: deployment.Draining, Waiting: 3}}, false},
		"current":            {"1", []deployment.Build{{ID: "1", Status: deployment.Current, Waiting: 3}}, false},
		"ramping":            {"2", []deployment.Build{{ID: "2", Status: deployment.Current, Workers: true}, {ID: "1", Status: deployment.Ramping, Waiting: 3}}, false},
	} {
		got := Deployment{Status: deployment.Status{Current: c.current, Builds: c.builds}}.String()
		require.Contains(t, got, start, name)
		if c.moves {
			require.Contains(t, got, move, name)
		} else {
			require.NotContains(t, got, "--move", name)
		}
	}
}
