package frontends

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/chats"
	proc "github.com/threadmill/threadmill/tests/internal/process"
)

// clientPackage is the package @threadmill/client as npm packs it.
type clientPackage struct{ tarball string }

// packClient packs the client in a copy of its folder, since the build writes beside its sources.
func packClient(t *testing.T) clientPackage {
	root := t.TempDir()
	dir := filepath.Join(root, "clients", "typescript")
	for _, name := range []string{"LICENSE", filepath.Join("docs", "openapi.json")} {
		data, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), data, 0o600))
	}
	require.NoError(t, os.MkdirAll(dir, 0o750))
	sources, err := os.ReadDir("../../clients/typescript")
	require.NoError(t, err)
	for _, one := range sources {
		if !one.Type().IsRegular() || filepath.Ext(one.Name()) == ".ts" || one.Name() == "LICENSE" {
			continue // generated
		}
		data, err := os.ReadFile(filepath.Join("../../clients/typescript", one.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, one.Name()), data, 0o600))
	}
	require.NoError(t, os.Symlink(testenv.NPM(t, "."), filepath.Join(dir, "node_modules")))
	pack := exec.Command("npm", "pack", "--offline", "--silent", "--pack-destination", root)
	pack.Dir = dir
	proc.Output(t, pack)
	found, err := filepath.Glob(filepath.Join(root, "threadmill-client-*.tgz"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return clientPackage{found[0]}
}

// install makes a project that has the package, a version of ai, and the scripts of tests/npm that use them.
func (c clientPackage) install(t *testing.T, ai string) (dir string) {
	dir = t.TempDir()
	modules := filepath.Join(dir, "node_modules")
	client := filepath.Join(modules, "@threadmill", "client")
	require.NoError(t, os.MkdirAll(client, 0o750))
	proc.Output(t, exec.Command("tar", "-xzf", c.tarball, "-C", client, "--strip-components=1"))
	for name, from := range map[string]string{"ai": ai, "react": "react", "react-dom": "react-dom", "@ai-sdk": "@ai-sdk", "@ag-ui": "@ag-ui", "@types": "@types"} {
		require.NoError(t, os.Symlink(testenv.NPM(t, from), filepath.Join(modules, name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
	for _, script := range []string{"agent.mjs", "transport.mjs", "until.mjs"} {
		data, err := os.ReadFile(filepath.Join("../npm", script))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, script), data, 0o600))
	}
	return dir
}

// node returns a command that runs a script of a project.
func node(t *testing.T, project, script string, args ...string) *exec.Cmd {
	t.Helper()
	return testenv.Node(t, filepath.Join(project, script), args...)
}

// TestClientPackage uses the client as it is packed for a registry.
func TestClientPackage(t *testing.T) {
	t.Parallel()
	packed := packClient(t)

	t.Run("hook", func(t *testing.T) {
		t.Parallel()
		useThread(t, packed.install(t, "ai7"))
	})
	t.Run("types", func(t *testing.T) {
		t.Parallel()
		project := packed.install(t, "ai7")
		use, err := os.ReadFile("testdata/use.tsx")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(project, "use.tsx"), use, 0o600))
		for _, name := range []string{"README.md", "LICENSE", "package.json", "api.d.ts"} {
			require.FileExists(t, filepath.Join(project, "node_modules", "@threadmill", "client", name))
		}
		options := `{"compilerOptions":{"noEmit":true,"strict":true,"noUncheckedIndexedAccess":true,"skipLibCheck":true,"types":[],` +
			`"target":"es2024","lib":["es2024","dom","dom.iterable"],"module":"nodenext","moduleResolution":"nodenext","jsx":"react-jsx"},"files":["use.tsx"]}`
		require.NoError(t, os.WriteFile(filepath.Join(project, "tsconfig.json"), []byte(options), 0o600))
		proc.Output(t, testenv.Node(t, "node_modules/typescript/bin/tsc", "--project", project))
		// The declarations of ai need those of Node.js, and have mistakes. Those of the package have none.
		all, _ := testenv.Node(t, "node_modules/typescript/bin/tsc", "--project", project, "--skipLibCheck", "false").Output()
		require.NotContains(t, string(all), "@threadmill/client")
		require.NotContains(t, string(all), "use.tsx")
	})
	t.Run("agent", func(t *testing.T) {
		t.Parallel()
		w := chats.New(t, "agent")
		proc.Output(t, node(t, packed.install(t, "ai7"), "agent.mjs", w.API.URL))
	})
	for _, version := range []string{"6", "7"} {
		project := packed.install(t, "ai"+version)
		for _, scenario := range []string{"requests", "reply", "approvals", "older message", "client tool with approval", "input", "cuts"} {
			t.Run("transport "+version+" "+scenario, func(t *testing.T) {
				t.Parallel()
				w := chats.New(t, scenario)
				proc.Output(t, node(t, project, "transport.mjs", w.API.URL, scenario, version))
			})
		}
	}
}
