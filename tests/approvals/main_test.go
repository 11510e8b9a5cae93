// Package approvals tests calls that wait for people, and the servers of MCP that agents call.
package approvals

import (
	"fmt"
	"os"
	"testing"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/tests/internal/killing"
)

// TestMain turns the test binary into a worker or an MCP server, for tests that kill it.
func TestMain(m *testing.M) {
	if dir := os.Getenv(shelfEnv); dir != "" {
		if err := serveShelf(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	killing.Main(m, map[string]killing.Kind{
		"shelf": func(w killing.Worker, c *threadmill.Config) error {
			return connectShelf(c, w.Data["config"], w.Data["dir"])
		},
	})
}
