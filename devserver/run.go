package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/ops/recovery"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/program/httpserver"
	"github.com/threadmill/threadmill/redact/redactlog"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/telemetry"
	"github.com/threadmill/threadmill/threadmilltest/embedded"
)

const (
	databaseFile    = "threadmill.db"
	workspaceFolder = "workspace"
	secretsFile     = "secrets.key"
	recoveryFolder  = "recovery"

	// The time limits for parts of a clean stop; Temporal itself needs a second or two.
	answerWithin = 2 * time.Second
	drainWithin  = 3 * time.Second
)

// run starts all parts, announces them on out when they are ready, and stops them when ctx ends.
func run(ctx context.Context, o options, log *slog.Logger, out io.Writer) error {
	s := &server{options: o, log: log}
	defer s.stop()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	s.announce(out)
	select {
	case <-ctx.Done():
		fmt.Fprintln(out, "Stopping …")
		return nil
	case err := <-s.web.Failed():
		return err
	case err := <-s.worker.Failed():
		return err
	}
}

// server has the running parts.
type server struct {
	options
	log *slog.Logger

	listener net.Listener
	settings program.Settings

	telemetry telemetry.Config
	temporal  *embedded.Server
	journal   *recovery.Journal
	client    client.Client
	store     store.Store

	authenticator auth.Authenticator

	stream  stream.Stream
	runtime *threadmill.Runtime
	api     *httpapi.API
	worker  *program.Worker
	web     *httpserver.Server

	// stops stop the parts that were started.
	stops []func()
}

func (s *server) onStop(f func()) { s.stops = append(s.stops, f) }

// stop stops the started parts, in reverse order.
func (s *server) stop() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}

func (s *server) start(ctx context.Context) error {
	listener, err := program.Listen("http", s.httpAddr)
	if err != nil {
		return err
	}
	s.listener = listener
	s.onStop(func() { _ = listener.Close() })
	for _, part := range []func(context.Context) error{
		s.openFolder, s.load, s.startTelemetry, s.openStore, s.openAuthenticator, s.startTemporal, s.openStream, s.newRuntime, s.recover,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	s.serve(listener)
	return nil
}

// openFolder creates the data folder or, with --memory, a temporary one for commands.
func (s *server) openFolder(context.Context) error {
	if s.memory {
		dir, err := os.MkdirTemp("", "threadmill-")
		if err != nil {
			return fmt.Errorf("--memory: a folder for commands: %w", err)
		}
		s.data = dir
		s.onStop(func() { _ = os.RemoveAll(dir) })
		return nil
	}
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return fmt.Errorf("--data: %w; choose another folder with --data", err)
	}
	return nil
}

func (s *server) load(context.Context) (err error) {
	s.settings, err = program.Load(program.SettingsConfig{
		File: s.config, AllowedHosts: s.hosts, AllowedOrigins: s.origins, Workspace: filepath.Join(s.data, workspaceFolder), SecretsFile: filepath.Join(s.data, secretsFile), Logger: s.log,
	})
	if err == nil {
		s.log = redactlog.New(s.settings.File.Redact, s.log) // of all parts, not of the runtime alone
	}
	return err
}

func (s *server) startTelemetry(ctx context.Context) (err error) {
	var flush func()
	if s.telemetry, flush, err = program.StartTelemetry(ctx, "devserver", os.Getenv, s.log); err != nil {
		return err
	}
	// It is the only process.
	s.telemetry.CountWaiting = cmp.Or(s.telemetry.CountWaiting, time.Minute)
	s.onStop(flush)
	return nil
}

func (s *server) startTemporal(ctx context.Context) error {
	cfg := embedded.Config{
		DataDir: s.data, Addr: s.temporalAddr, UIAddr: s.uiAddr, AllowedHosts: s.settings.AllowedHosts, SearchAttributes: searchattr.Types(), Logger: s.log,
		// Temporal's info messages are for its own developers.
		LogLevel: max(s.logLevel, slog.LevelWarn),
	}
	if s.memory {
		cfg.DataDir = ""
	}
	var err error
	if s.temporal, err = embedded.Start(ctx, cfg); err != nil {
		return s.explain(err)
	}
	s.onStop(s.temporal.Stop)
	if !s.memory {
		if s.journal, err = recovery.Open(filepath.Join(s.data, recoveryFolder), s.log); err != nil {
			return fmt.Errorf("--data %s: %w", s.data, err)
		}
		s.onStop(func() { s.closed("journal", s.journal.Close()) })
	}
	s.client, err = client.DialContext(ctx, s.journal.ClientOptions(s.telemetry.ClientOptions(client.Options{
		HostPort: s.temporal.Addr(), Namespace: s.temporal.Namespace(), Logger: program.TemporalLogger(s.log),
		// On a busy machine, the new server may be slow.
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: readyWithin, GrpcCompression: &client.GrpcCompressionNone{}},
	})))
	if err != nil {
		return fmt.Errorf("connecting to Temporal at %s: %w", s.temporal.Addr(), err)
	}
	s.onStop(s.client.Close)
	return nil
}

// explain names the flag of an address or folder that the embedded server could not use.
func (s *server) explain(err error) error {
	var port *embedded.PortError
	switch {
	case errors.As(err, &port) && port.Field == "UIAddr":
		return program.Taken("ui", port.Addr, port.Err)
	case errors.As(err, &port):
		return program.Taken("temporal", port.Addr, port.Err)
	case errors.Is(err, embedded.ErrDataDirInUse):
		return fmt.Errorf("--data: folder %s is in use by another devserver; stop that one, or choose another folder with --data", s.data)
	}
	return fmt.Errorf("--data %s: starting Temporal: %w", s.data, err)
}

func (s *server) openStore(ctx context.Context) (err error) {
	if url := os.Getenv(program.EnvDatabaseURL); url != "" {
		s.store, err = program.OpenPostgres(ctx, url, s.log)
	} else {
		path := filepath.Join(s.data, databaseFile)
		if s.memory {
			path = ""
		}
		if s.store, err = program.OpenSQLite(ctx, path, s.log); err != nil {
			err = fmt.Errorf("--data %s: %w", s.data, err)
		}
	}
	if err != nil {
		return err
	}
	s.onStop(func() { s.closed("store", s.store.Close()) })
	return nil
}

func (s *server) openAuthenticator(ctx context.Context) (err error) {
	s.authenticator, err = s.auth.Authenticator(ctx, s.listener.Addr(), s.store, s.settings)
	return err
}

func (s *server) openStream(ctx context.Context) (err error) {
	if s.stream, err = program.OpenStream(ctx, os.Getenv(program.EnvNATSURL), s.log); err != nil {
		return err
	}
	s.onStop(func() { s.closed("stream", s.stream.Close()) })
	return nil
}

func (s *server) closed(what string, err error) {
	if err != nil {
		s.log.Warn("closing failed", "component", what, "error", err)
	}
}

func (s *server) newRuntime(context.Context) (err error) {
	cfg := threadmill.Config{
		Temporal: s.client, TemporalNamespace: s.temporal.Namespace(), Store: s.store, Stream: s.stream,
		Program: program.Threadmill, TaskQueue: signals.DefaultTaskQueue,
		StopTimeout: drainWithin, Telemetry: s.telemetry, Logger: s.log,
	}
	var api httpapi.Config
	s.settings.Apply(&cfg, &api)
	if err := s.settings.ConnectMCP(&cfg, s.listener); err != nil {
		return err
	}
	if s.runtime, err = threadmill.New(cfg); err != nil {
		return err
	}
	api.TemporalUI, api.Authenticator = s.temporal.UIURL(), s.authenticator
	s.api, err = httpapi.New(s.runtime, api)
	return err
}

// recover continues what a process before this one left. Neither Temporal nor SQLite waits for the disk at each commit: a killed process loses
// nothing by that, a machine without power does.
func (s *server) recover(ctx context.Context) error {
	if s.journal.Crashed() {
		s.log.Warn("the system stopped while the devserver ran: comparing the store with Temporal")
		differed, err := s.runtime.Repair(ctx)
		if err != nil {
			return fmt.Errorf("--data %s: comparing the store with Temporal after a crash of the system: %w; start again, or remove the folder %s to start without comparing",
				s.data, err, filepath.Join(s.data, recoveryFolder))
		}
		s.log.Warn("the store was compared with Temporal", "threadsThatDiffered", differed)
	}
	s.onStop(s.journal.Watch(s.client.WorkflowService()))
	return nil
}

// serve starts the worker and the API. The API stops first.
func (s *server) serve(l net.Listener) {
	s.worker = program.StartWorker(s.runtime)
	s.onStop(s.worker.Stop)
	s.web = httpserver.Serve(l, s.api, s.api.CloseStreams, s.log)
	s.onStop(func() { s.web.Stop(answerWithin) })
}
