// Command servers runs PostgreSQL, NATS and Temporal for a run of tests, which otherwise start them once for each package. It
// prints the environment that tells tests of them, as a shell reads it, and ends when its standard input does.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/process"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	database, err := testenv.FindPostgres()
	if err != nil {
		return err
	}
	nats, err := testenv.FindNATS()
	if err != nil {
		return err
	}
	temporal, err := process.StartTemporal(process.TemporalConfig{SearchAttributes: searchattr.Types()})
	if err != nil {
		return err
	}
	defer temporal.Stop()
	_, err = fmt.Fprintf(out, "export %s='%s' %s='%s' %s='%s'\n",
		testenv.EnvDatabaseURL, database, testenv.EnvNATSURL, nats, process.EnvTemporal, temporal.Addr())
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
