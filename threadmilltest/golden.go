package threadmilltest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// updateEnv is the environment variable with which golden files are written.
const updateEnv = "THREADMILL_UPDATE"

// Golden compares the transcript of a thread with a file, such as "testdata/refund.txt". The file is
// written instead if the environment has THREADMILL_UPDATE=1, or the test runs with -update, a flag that
// the test package has to define:
//
//	var _ = flag.Bool("update", false, "write the golden files")
func (r *Runtime) Golden(threadID, file string) {
	r.t.Helper()
	compare(r.t, file, r.Transcript(threadID))
}

// compare compares a text with a file, or writes the file.
func compare(t testing.TB, file, got string) {
	t.Helper()
	if updating() {
		err := os.MkdirAll(filepath.Dir(file), 0o750)
		if err == nil {
			err = os.WriteFile(file, []byte(got), 0o600)
		}
		if err != nil {
			t.Fatalf("writing the golden file: %v", err)
		}
		return
	}
	want, err := os.ReadFile(file) //nolint:gosec // a file of the test
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("there is no golden file %s: write it with %s=1. The transcript is\n\n%s", file, updateEnv, got)
	}
	if err != nil {
		t.Fatalf("reading the golden file: %v", err)
	}
	if difference := differ(string(want), got); difference != "" {
		t.Errorf("the transcript differs from %s in %s\n\nThe transcript is\n\n%s", file, difference, got)
	}
}

func updating() bool {
	if os.Getenv(updateEnv) == "1" {
		return true
	}
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// differ describes the first line in which texts differ, or returns "".
func differ(want, got string) string {
	if want == got {
		return ""
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	line := func(of []string) string {
		if i < len(of) {
			return fmt.Sprintf("%q", of[i])
		}
		return "nothing more"
	}
	return fmt.Sprintf("line %d: want %s, got %s", i+1, line(a), line(b))
}

// lines returns a list, one line each.
func lines(list []string) string { return "  " + strings.Join(list, "\n  ") }
