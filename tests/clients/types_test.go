package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/clients/typescript"
	"github.com/threadmill/threadmill/internal/testenv"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// TestPageTypes checks the types of the page and of the client, which are written in JSDoc, against
// the API's description.
func TestPageTypes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../internal/page/web")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "client"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "client", "threadmill.js"), typescript.Client, 0o600))
	api, err := filepath.Abs("../../docs/openapi.json")
	require.NoError(t, err)
	proc.Output(t, testenv.Node(t, "node_modules/openapi-typescript/bin/cli.js", api, "--output", filepath.Join(dir, "client", "api.d.ts")))
	wrong := filepath.Join(dir, "wrong.js")
	require.NoError(t, os.WriteFile(wrong, []byte(`import { client } from "./session.js"; client.post("t", { text: "no such field" });`), 0o600))
	out, err := testenv.Node(t, "node_modules/typescript/bin/tsc", "--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2024",
		"--lib", "es2024,dom,dom.iterable,esnext.collection", "--module", "es2022", "--moduleResolution", "bundler", "--pretty", "false",
		"--noUnusedLocals", "--noUnusedParameters", filepath.Join(dir, "app.js"), wrong).Output()
	require.Error(t, err)
	require.NotEmpty(t, out)
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, " ") {
			require.Contains(t, line, "wrong.js", "the only mistake, which is found")
		}
	}
}
