//go:build unix

package process

import "syscall"

// ExitStatus returns the exit code of [os.ProcessState].Sys, or 128 plus the number of the signal that ended the process.
func ExitStatus(sys any) int {
	ws, ok := sys.(syscall.WaitStatus)
	switch {
	case !ok:
		return -1
	case ws.Signaled():
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
