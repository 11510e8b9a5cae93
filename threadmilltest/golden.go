package threadmilltest

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	text := r.Transcript(threadID)
	if problem := compare(file, text); problem != "" {
		r.threads.take() // the message has it
		r.t.Fatalf("thread %q: %s The transcript is\n\n%s", threadID, problem, text)
	}
}

// compare compares a text with a file, or writes the file. It returns what is wrong.
func compare(file, got string) string {
	if updating() {
		err := os.MkdirAll(filepath.Dir(file), 0o750)
		if err == nil {
			err = os.WriteFile(file, []byte(got), 0o600)
		}
		if err != nil {
			return fmt.Sprintf("writing the golden file: %v.", err)
		}
		return ""
	}
	want, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("there is no golden file %s: write it with %s=1.", file, updateEnv)
	case err != nil:
		return fmt.Sprintf("reading the golden file: %v.", err)
	case string(want) != got:
		return fmt.Sprintf("the transcript differs from %s in %s.", file, differ(string(want), got))
	}
	return ""
}

func updating() bool {
	if os.Getenv(updateEnv) == "1" {
		return true
	}
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// differ describes the first line in which texts differ.
func differ(want, got string) string {
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
