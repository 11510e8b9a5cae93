package providers

import (
	"fmt"
	"os"
	"testing"

	"github.com/threadmill/threadmill/tests/internal/harness"
)

// TestMain turns the test binary into the client program that the conformance suite of MCP tests.
func TestMain(m *testing.M) {
	if os.Getenv(mcpClientEnv) != "" {
		if err := runMCPClient(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	harness.Main(m)
}
