package document

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// restrict limits this process: the kernel refuses more memory, and ends it when its CPU time is up.
func restrict(memory int, cpu time.Duration) error {
	debug.SetMemoryLimit(int64(memory) / 4 * 3) // garbage is collected before that
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 10)
	var pages struct{ size, resident, shared, text, lib, data uint64 }
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(string(raw), &pages.size, &pages.resident, &pages.shared, &pages.text, &pages.lib, &pages.data); err != nil {
		return err
	}
	// What the runtime has mapped so far is far more than what it uses, above all with the detector of races.
	limit := pages.data*uint64(os.Getpagesize()) + uint64(memory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	seconds := uint64(math.Ceil(cpu.Seconds()))
	return unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds})
}
