package tests

import (
	"io/fs"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestContributingPath follows the walks through the code in CONTRIBUTING.md: each hop names a file
// and a function in it.
func TestContributingPath(t *testing.T) {
	guide, err := os.ReadFile("../CONTRIBUTING.md")
	require.NoError(t, err)
	hops := regexp.MustCompile("`([a-z/_]+[.]go)` `([A-Za-z]+)`").FindAllStringSubmatch(string(guide), -1)
	require.GreaterOrEqual(t, len(hops), 25)
	for _, hop := range hops {
		code, err := fs.ReadFile(os.DirFS(".."), hop[1])
		require.NoError(t, err)
		require.Regexp(t, `(?m)^func (\([^)]+\) )?`+hop[2]+`\(`, string(code), "%s in %s", hop[2], hop[1])
	}
}
