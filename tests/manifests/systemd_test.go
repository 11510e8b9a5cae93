package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unit has the settings of a unit, by section and name. Each name occurs once.
type unit map[string]map[string]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	u, section := unit{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch name, value, ok := strings.Cut(line, "="); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
			u[section] = map[string]string{}
		default:
			require.True(t, ok && section != "", "%s: %q is no setting", path, line)
			require.NotContains(t, u[section], name, "%s: twice", path)
			u[section][name] = value
		}
	}
	return u
}

func units(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../deploy/systemd/*.service")
	require.NoError(t, err)
	require.Len(t, files, 2)
	return files
}

func TestSystemd(t *testing.T) {
	t.Parallel()
	known, ports := flags(t), map[string]bool{}
	for _, file := range units(t) {
		u := readUnit(t, file)
		service := u["Service"]
		role := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "threadmill-"), ".service")

		command := strings.Fields(service["ExecStart"])
		require.Equal(t, "/usr/local/bin/worker", command[0])
		values := parsed(t, known, command[1:])
		require.Equal(t, role, values["roles"])
		require.False(t, ports[values["http"]], "both units can run on one machine")
		ports[values["http"]] = true
		stop, err := strconv.Atoi(service["TimeoutStopSec"])
		require.NoError(t, err)
		require.Greater(t, time.Duration(stop)*time.Second, drain(t, values)+5*time.Second, "%s: docs/operations.md, Stopping and replacing", file)

		require.Equal(t, "/etc/threadmill/"+role+".env", service["EnvironmentFile"])
		require.NotContains(t, service, "Environment", "secrets are in files")
		require.Equal(t, []string{"threadmill", "threadmill"}, []string{service["StateDirectory"], service["User"]}, "both units share the folder for commands")
		require.Equal(t, "always", service["Restart"])
		require.Equal(t, "2", service["RestartPreventExitStatus"])
		require.Equal(t, "strict", service["ProtectSystem"])
		for _, hardened := range []string{"DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictNamespaces"} {
			require.Equal(t, "yes", service[hardened], "%s: %s", file, hardened)
		}
		require.Contains(t, service, "CapabilityBoundingSet")
		require.Empty(t, service["CapabilityBoundingSet"])
		require.Equal(t, "multi-user.target", u["Install"]["WantedBy"])
	}
}

// TestSystemdVerify: systemd knows every setting.
func TestSystemdVerify(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze: install systemd")
	}
	dir := t.TempDir()
	for _, file := range units(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		// The program need not be installed here.
		text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/worker", "/bin/sh"))
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600))
		out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", filepath.Join(dir, filepath.Base(file))).CombinedOutput()
		require.NoError(t, err, string(out))
		require.NotContains(t, string(out), filepath.Base(file), "a warning")
	}
}
