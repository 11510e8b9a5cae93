package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/tests/internal/process"
)

var mainOf = regexp.MustCompile(`(?m)^(package|func) main\b`)

// buildExamples returns the folder of the programs of examples. They are one, which is what its name says: to link each of
// them takes longer than to run it. The compiler sees another package name and another name of main in their files.
func buildExamples(t *testing.T, names []string) string {
	t.Helper()
	dir, root := t.TempDir(), absolute(t, "../..")
	replace := map[string]string{}
	replaced := func(path string, code []byte) {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		require.NoError(t, os.WriteFile(replace[path], code, 0o600))
	}
	var imports, cases strings.Builder
	for i, name := range names {
		own := fmt.Sprintf("example%d", i)
		files, err := filepath.Glob(filepath.Join(root, "examples", name, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				replace[file] = "" // of package main
				continue
			}
			code, err := os.ReadFile(file)
			require.NoError(t, err)
			replaced(file, mainOf.ReplaceAllFunc(code, func(found []byte) []byte {
				if found[0] == 'p' {
					return []byte("package " + own)
				}
				return []byte("func Main")
			}))
		}
		fmt.Fprintf(&imports, "\t%s %q\n", own, "github.com/threadmill/threadmill/examples/"+name)
		fmt.Fprintf(&cases, "\tcase %q:\n\t\t%s.Main()\n", name, own)
	}
	replaced(filepath.Join(root, "examples", "all", "main.go"), []byte("package main\n\nimport (\n\t\"os\"\n\t\"path/filepath\"\n\n"+imports.String()+
		")\n\nfunc main() {\n\tswitch filepath.Base(os.Args[0]) {\n"+cases.String()+"\t}\n}\n"))

	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file, all := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "all")
	require.NoError(t, os.WriteFile(file, overlay, 0o600))
	cmd := exec.Command("go", "build", "-overlay", file, "-ldflags=-s", "-o", all, "./examples/all")
	cmd.Dir = root
	process.Output(t, cmd)
	for _, name := range names {
		require.NoError(t, os.Link(all, filepath.Join(dir, name))) // os.Executable would return what a symbolic link leads to
	}
	return dir
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}
