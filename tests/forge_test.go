package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestForge: the workflows of the forge call scripts that exist, with commands that those know, and its forms are YAML.
func TestForge(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/*/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	called := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, yaml.Unmarshal(text, new(map[string]any)), file)
		for _, call := range regexp.MustCompile(`bash (\.ci/\w+)(?: (\w+))?`).FindAllStringSubmatch(string(text), -1) {
			script, err := os.ReadFile(filepath.Join("..", call[1]))
			require.NoError(t, err, file)
			if call[2] != "" {
				require.Regexp(t, `(?m)^\s*`+call[2]+`(\)|\(\) \{)`, string(script), "%s: %s", file, call[0])
			}
			called++
		}
	}
	require.GreaterOrEqual(t, called, 2)
}
