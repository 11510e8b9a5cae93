// Command temporalserver runs a Temporal server for a test in another process, so that the binaries of tests do not link
// Temporal. It reads a [process.TemporalConfig] from its standard input, prints its address, and ends when the input does:
// however its parent ends.
package main

import (
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/threadmill/threadmill/tests/internal/process"
	"github.com/threadmill/threadmill/threadmilltest/embedded"
)

// silent is above the level of errors: the server reports a cancelled wait as an error.
const silent = slog.LevelError + 4

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var c process.TemporalConfig
	if err := gob.NewDecoder(in).Decode(&c); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	s, err := embedded.Start(context.Background(), embedded.Config{
		DataDir: c.DataDir, Addr: "127.0.0.1:0", Retention: c.Retention, SearchAttributes: c.SearchAttributes,
		DynamicConfig: c.Dynamic, LogLevel: silent,
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, s.Addr()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	if c.DataDir != "" { // what is in memory only needs no care
		s.Stop()
	}
	return nil
}
