package manifests

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/tests/internal/process"
)

// flags returns the names of the flags of the program worker, by its help.
func flags(t *testing.T) map[string]bool {
	t.Helper()
	help, err := exec.Command(process.BuildProgram(t, "worker"), "--help").CombinedOutput()
	require.NoError(t, err, string(help))
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-z-]+)`).FindAllStringSubmatch(string(help), -1) {
		known[m[1]] = true
	}
	require.Contains(t, known, "drain", string(help))
	return known
}

// parsed returns the values of arguments, which the program must accept.
func parsed(t *testing.T, known map[string]bool, args []string) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, arg := range args {
		name, value, ok := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		require.True(t, ok && strings.HasPrefix(arg, "--"), "%s: write it as --name=value", arg)
		require.Contains(t, known, name, "worker has no flag --%s", name)
		require.NotContains(t, values, name, "--%s occurs twice", name)
		values[name] = value
	}
	// The program checks its flags before it looks for servers, of which it has none here.
	cmd := exec.Command(process.BuildProgram(t, "worker"), args...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "DATABASE_URL is not set", "%v", args)
	return values
}

// drain returns the time that running steps have to finish.
func drain(t *testing.T, values map[string]string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(values["drain"])
	require.NoError(t, err)
	return d
}
