package check

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Contents returns what all files of a folder have, those of databases included.
func Contents(t testing.TB, folder string) string {
	t.Helper()
	var out strings.Builder
	files := os.DirFS(folder)
	require.NoError(t, fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		out.Write(content)
		return err
	}))
	return out.String()
}
