package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/config"
)

// TestDeepFilesAreNotParsed: the error is that of the check before the parser, which would
// take gigabytes for 50,000 levels.
func TestDeepFilesAreNotParsed(t *testing.T) {
	for _, text := range []string{
		"agents: " + strings.Repeat("[", 50_000),
		"agents: " + strings.Repeat("{a: ", 50_000),
		"agents:\n" + strings.Repeat("- ", 50_000) + "a",
	} {
		_, err := config.Parse("threadmill.yaml", []byte(text), t.TempDir())
		require.ErrorContains(t, err, "threadmill.yaml:")
		require.ErrorContains(t, err, "there are more than 64 levels of lists and mappings")
	}
}
