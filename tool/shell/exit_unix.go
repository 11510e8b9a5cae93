//go:build unix

package shell

import "syscall"

// exitStatus returns the exit code, or 128 plus the number of the signal that ended the process.
func exitStatus(sys any) int {
	ws, ok := sys.(syscall.WaitStatus)
	switch {
	case !ok:
		return -1
	case ws.Signaled():
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
