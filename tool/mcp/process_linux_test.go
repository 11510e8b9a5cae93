package mcp_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tool/mcp"
)

// pids returns the processes of the server "forks": itself, and a child in its own session that ignores
// signals.
func pids(t *testing.T, dir string) []int {
	t.Helper()
	var out []int
	for _, name := range []string{"server", "child"} {
		require.Eventually(t, func() bool {
			var pid int
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return false
			}
			if _, err := fmt.Sscan(string(raw), &pid); err != nil {
				return false
			}
			out = append(out, pid)
			return true
		}, testenv.Patience, time.Millisecond, name)
	}
	return out
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func requireDead(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !alive(pid) }, testenv.Patience, time.Millisecond)
	}
}

func TestNoProcessRemains(t *testing.T) {
	t.Run("when the manager ends", func(t *testing.T) {
		s := program("raw", "forks")
		s.Dir = t.TempDir()
		m, err := mcp.New(mcp.Config{Servers: []mcp.Server{s}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		found := pids(t, s.Dir)
		ready(t, m, "raw")
		cancel()
		require.NoError(t, <-done)
		for _, pid := range found {
			require.False(t, alive(pid))
		}
	})
	t.Run("when the server is restarted", func(t *testing.T) {
		m, dir := hostile(t, "forks")
		ready(t, m, "raw")
		found := pids(t, dir)
		require.NoError(t, m.Restart(t.Context(), "default", "raw"))
		requireDead(t, found)
		reaches(t, m, "raw", func(s mcp.State) bool { return s.Restarts == 1 && s.Status == "ready" })
	})
	t.Run("when the server dies", func(t *testing.T) {
		m, dir := hostile(t, "forks")
		ready(t, m, "raw")
		found := pids(t, dir)
		require.NoError(t, syscall.Kill(found[0], syscall.SIGKILL))
		requireDead(t, found)
		s := reaches(t, m, "raw", func(s mcp.State) bool { return s.Restarts == 1 && s.Status == "ready" })
		require.Empty(t, s.Error)
	})
	t.Run("when the worker is killed", func(t *testing.T) {
		dir := t.TempDir()
		worker := exec.Command("/proc/self/exe", "serve", "worker")
		worker.Dir, worker.Stderr = dir, os.Stderr
		require.NoError(t, worker.Start())
		found := pids(t, dir)
		require.NoError(t, worker.Process.Kill())
		require.Error(t, worker.Wait())
		requireDead(t, found)
	})
}
