package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReplayedTests: the comment by which .ci/run finds the tests that replay every history stands before
// tests only, and such tests exist.
func TestReplayedTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	below, err := filepath.Glob("*/*_test.go")
	require.NoError(t, err)
	marked := 0
	for _, file := range append(files, below...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		comments := regexp.MustCompile(`(?m)^//\s*ci:.*$`).FindAllString(string(text), -1)
		tests := regexp.MustCompile(`(?m)^//ci:replayed( only)?\nfunc Test\w+\(`).FindAllString(string(text), -1)
		require.Len(t, tests, len(comments), "%s: %v", file, comments)
		marked += len(tests)
	}
	require.NotZero(t, marked)
}
