package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/threadmilltest/embedded"
)

// serverEnv makes this program serve Temporal from the folder that it names, or from memory.
const serverEnv = "THREADMILL_BENCH_TEMPORAL"

// serverMemory is the value of serverEnv for a server in memory.
const serverMemory = ":memory:"

func temporalConfig(dir string, log *slog.Logger) embedded.Config {
	if dir == serverMemory {
		dir = ""
	}
	return embedded.Config{
		DataDir: dir, Addr: "127.0.0.1:0", SearchAttributes: searchattr.Types(), Logger: log, LogLevel: slog.LevelError,
	}
}

// serveIfAsked serves Temporal if this is the process of a server.
func serveIfAsked(ctx context.Context) (served bool, err error) {
	dir := os.Getenv(serverEnv)
	if dir == "" {
		return false, nil
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return true, serve(ctx, dir, os.Stdin, os.Stdout, log)
}

// serve serves Temporal until in ends. It writes the address, and the CPU time of the process in
// nanoseconds for each line of in.
func serve(ctx context.Context, dir string, in io.Reader, out io.Writer, log *slog.Logger) error {
	server, err := embedded.Start(ctx, temporalConfig(dir, log))
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Fprintln(out, server.Addr())
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		used, err := processCPU()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, used.Nanoseconds())
	}
	return lines.Err()
}

// serverProcess is a Temporal server in a process of its own.
type serverProcess struct {
	addr    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// startServer runs this program again, as a server.
func startServer(ctx context.Context, dir string, progress io.Writer) (*serverProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &serverProcess{command: exec.CommandContext(context.WithoutCancel(ctx), program)} //nolint:gosec // this program itself, until stop
	s.command.Env, s.command.Stderr = append(os.Environ(), serverEnv+"="+dir), progress
	if s.in, err = s.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("starting a process for Temporal: %w", err)
	}
	if s.addr, err = s.out.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the process of Temporal: %w", err), s.stop())
	}
	s.addr = strings.TrimSpace(s.addr)
	return s, nil
}

// cpu returns the CPU time of the server.
func (s *serverProcess) cpu() (time.Duration, error) {
	if _, err := fmt.Fprintln(s.in); err != nil {
		return 0, fmt.Errorf("asking the process of Temporal for its CPU time: %w", err)
	}
	var nanoseconds int64
	if _, err := fmt.Fscanln(s.out, &nanoseconds); err != nil {
		return 0, fmt.Errorf("the CPU time of the process of Temporal: %w", err)
	}
	return time.Duration(nanoseconds), nil
}

func (s *serverProcess) stop() error { return errors.Join(s.in.Close(), s.command.Wait()) }
