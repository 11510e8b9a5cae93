//go:build !linux

package document

import (
	"runtime/debug"
	"time"
)

// restrict makes this process collect its garbage early. On these systems, nothing but the time and the output of a process is
// limited from outside.
func restrict(memory int, _ time.Duration) error {
	debug.SetMemoryLimit(int64(memory) / 4 * 3)
	return nil
}
