package testenv

import (
	"errors"
	"os/exec"
	"testing"
)

// Prometheus returns the paths of the server and of its tool promtool.
func Prometheus(t testing.TB) (server, tool string) {
	t.Helper()
	server, err := exec.LookPath("prometheus")
	if err == nil {
		tool, err = exec.LookPath("promtool")
	}
	if err != nil {
		err = errors.Join(errAbsent, err)
	}
	present(t, "prometheus", "Prometheus", "install it (Debian: prometheus)", err)
	return server, tool
}
