//go:build !unix

package shell

import (
	"os"
	"os/exec"
	"time"
)

const supported = false

func ownGroup(*exec.Cmd) (stopped func() time.Time) { return func() time.Time { return time.Time{} } }

func endGroup(*exec.Cmd, time.Duration) {}

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
