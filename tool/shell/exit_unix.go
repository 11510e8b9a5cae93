//go:build unix

package shell

import "syscall"

// exitStatus is the exit code, or 128 plus the number of the signal that ended a process.
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
