package process

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Self is the test binary as another process, across restarts: its environment makes it do
// something other than run tests.
type Self struct {
	t    testing.TB
	sign string
	env  []string
	life *life
}

// NewSelf prepares the process, which must be started and is ready when it prints a line with sign.
// It ends with the test. Its environment is PATH, HOME and env.
func NewSelf(t testing.TB, sign string, env ...string) *Self {
	s := &Self{t: t, sign: sign, env: env}
	t.Cleanup(func() {
		if s.life == nil {
			return
		}
		s.Kill()
		if t.Failed() {
			t.Logf("last words of the process: %s", s.life.output.String())
		}
	})
	return s
}

// Start starts the process, with additional environment, and waits until it is ready.
func (s *Self) Start(env ...string) {
	s.t.Helper()
	path, err := os.Executable()
	require.NoError(s.t, err)
	cmd := exec.Command(path)
	cmd.Dir = s.t.TempDir()
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, s.env...), env...)
	s.life = launch(s.t, cmd, s.sign)
	s.life.awaitReady(s.t)
}

// Signal sends a signal.
func (s *Self) Signal(sig os.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.life.cmd.Process.Signal(sig))
}

// Kill sends SIGKILL and waits for the end.
func (s *Self) Kill() { s.life.kill() }
