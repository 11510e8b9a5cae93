//go:build unix

package recovery

import (
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPausedProcess: a process that is paused is alive.
func TestPausedProcess(t *testing.T) {
	folder, service := t.TempDir(), &fakeService{}
	p := startProcess(t, folder)
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())

	j := open(t, folder, io.Discard)
	j.look(t.Context(), service)
	require.Empty(t, service.received())

	p.kill()
	j.look(t.Context(), service)
	require.Equal(t, []string{"n activity of a process"}, service.received())
}
