package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/world"
)

// TestExamples runs every program in examples/ and compares what it prints with the
// output.txt beside it; -update writes that anew.
func TestExamples(t *testing.T) {
	folders, err := filepath.Glob("../examples/*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	listed, err := os.ReadFile("../examples/README.md")
	require.NoError(t, err)
	for _, file := range folders {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			require.Contains(t, string(listed), "`go run ./examples/"+name+"`", "examples/README.md lists it")
			golden := "../examples/" + name + "/output.txt"
			got := runExample(t, name)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// runExample runs an example as its README says, and returns its standard output.
func runExample(t *testing.T, name string) string {
	t.Helper()
	taskQueue := "example-" + signals.NewID()
	if name == "plain-temporal" {
		// It has no worker of its own.
		taskQueue = world.New(t, world.Options{}).TaskQueue
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitLong)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", "./examples/"+name, "-task-queue", taskQueue)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+world.Temporal(t).Addr(), "TEMPORAL_NAMESPACE=default",
		"TEMPORAL_CONFIG_FILE="+filepath.Join(t.TempDir(), "none.toml"))
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	require.NoError(t, cmd.Run(), "%s", &problems)
	return out.String()
}

// TestReadmeProgram keeps the Go code in the README the code of an example.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("../examples/tool/main.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		require.Contains(t, string(program), block[1])
	}
}
