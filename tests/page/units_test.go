package page

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestPageUnits runs the tests of the page's parts that need no browser: tests/npm/units.
func TestPageUnits(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../npm/units/*.mjs")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i := range files {
		files[i] = "units/" + filepath.Base(files[i])
	}
	proc.Output(t, testenv.Node(t, "--test", files...))
}

// TestPageStyle holds the page and the client to a formatter and a linter, as biome.json says.
func TestPageStyle(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	out, err := testenv.Node(t, "node_modules/@biomejs/biome/bin/biome", "ci", "--error-on-warnings", root).CombinedOutput()
	require.NoError(t, err, "write them with the command check --write of biome: %s", out)
}
