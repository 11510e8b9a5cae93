package harness

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// atOnce is the minimum number of concurrent tests: most of them wait most of the time, for timers
// and for processes.
const atOnce = 8

// EnvProved is a pattern of names of tests that another step of the same run of CI has proved. They are skipped.
const EnvProved = "THREADMILL_PROVED"

// Main runs the tests of a package, with more of them at once than the machine has processors. It is called by
// TestMain.
func Main(m *testing.M) {
	flag.Parse()
	byDefault("test.parallel", strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0))))
	byDefault("test.skip", os.Getenv(EnvProved))
	status := m.Run()
	if s := sharing.Load(); s != nil {
		s.Stop()
	}
	os.Exit(status)
}

// byDefault sets a flag that was not given.
func byDefault(name, value string) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	if err := flag.Set(name, value); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
