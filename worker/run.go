package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/telemetry"
)

const (
	dialWithin = 15 * time.Second

	// answerWithin is the time for running requests when the process stops.
	answerWithin = 5 * time.Second
)

// run runs the roles until ctx ends or one of them fails.
func run(ctx context.Context, o options, log *slog.Logger) error {
	if err := o.checkServers(os.Getenv); err != nil {
		return err
	}
	settings, err := program.Load(program.SettingsConfig{File: o.config, AllowedHosts: o.hosts, AllowedOrigins: o.origins, TaskQueue: o.taskQueue, Logger: log})
	if err != nil {
		return err
	}
	listener, err := program.Listen("http", o.http)
	if err != nil {
		return err
	}
	defer listener.Close()
	records, err := openStore(ctx, o.sqlite, log)
	if err != nil {
		return err
	}
	defer records.Close()
	authenticate, err := authenticator(ctx, o, listener.Addr(), records, settings)
	if err != nil {
		return err
	}
	observed, flush, err := program.StartTelemetry(ctx, "threadmill-worker", os.Getenv, log)
	if err != nil {
		return err
	}
	defer flush()
	temporal, namespace, err := dial(ctx, o.profile, observed, log)
	if err != nil {
		return err
	}
	defer temporal.Close()
	natsURL := os.Getenv(program.EnvNATSURL)
	if natsURL == "" {
		log.Warn(program.EnvNATSURL + " is not set: the live stream works within this process only, so run no other process")
	}
	live, err := program.OpenStream(ctx, natsURL, log)
	if err != nil {
		return err
	}
	defer live.Close()

	cfg := threadmill.Config{
		Temporal: temporal, TemporalNamespace: namespace, Store: records, Stream: live,
		Namespace: o.namespace, TaskQueue: o.taskQueue, StopTimeout: o.drain, Telemetry: observed, Logger: log,
		ToolQueues: o.tools, OnlyToolQueues: o.has(roleTools) && !o.has(roleWorker),
	}
	settings.Apply(&cfg)
	var api net.Listener
	if o.has(roleAPI) {
		api = listener
	}
	if err := settings.ConnectMCP(&cfg, api); err != nil {
		return err
	}
	cfg.Authenticator = authenticate
	if len(settings.Hooks) > 0 && o.has(roleWorker) {
		log.Info("hook workflows decide on events; each needs a worker on its task queue", "hooks", settings.WhichHooks())
	}
	runtime, err := threadmill.New(cfg)
	if err != nil {
		return err
	}
	return serve(ctx, o, runtime, listener, log)
}

// authenticator returns the API's authenticator. Without the API, only health is served, which
// needs no authentication.
func authenticator(ctx context.Context, o options, addr net.Addr, records store.Store, settings program.Settings) (auth.Authenticator, error) {
	if !o.has(roleAPI) {
		return auth.Func(func(*http.Request) (auth.Principal, error) { return auth.Principal{}, auth.ErrUnauthenticated }), nil
	}
	return o.auth.Authenticator(ctx, addr, records, settings)
}

// serve runs the roles.
func serve(ctx context.Context, o options, runtime *threadmill.Runtime, l net.Listener, log *slog.Logger) error {
	handler := runtime.Handler()
	if !o.has(roleAPI) {
		handler = healthOnly(handler)
	}
	web := program.Serve(l, handler, runtime.CloseStreams, log)
	var worker *program.Worker
	var workerFailed <-chan error
	if o.has(roleWorker) || o.has(roleTools) {
		worker = program.StartWorker(runtime)
		workerFailed = worker.Failed()
	}
	log.Info("started", "roles", o.roles, "http", web.URL())

	var err error
	select {
	case <-ctx.Done():
	case err = <-web.Failed():
	case err = <-workerFailed:
	}
	log.Info("stopping", "drain", o.drain)
	web.Drain()
	if worker != nil {
		worker.Stop()
	}
	web.Stop(answerWithin)
	log.Info("stopped")
	return err
}

// healthOnly serves only the health checks of the API.
func healthOnly(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", api)
	mux.Handle("GET /readyz", api)
	return mux
}

// dial connects to Temporal, and returns the namespace of the connection.
func dial(ctx context.Context, profile string, observed telemetry.Config, log *slog.Logger) (client.Client, string, error) {
	opts, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{ConfigFileProfile: profile})
	if err != nil {
		return nil, "", program.Usagef("Temporal's configuration (TEMPORAL_*, --profile): %w", err)
	}
	if opts.HostPort == "" {
		opts.HostPort = client.DefaultHostPort
	}
	if opts.Namespace == "" {
		opts.Namespace = client.DefaultNamespace
	}
	opts.Logger = program.TemporalLogger(log)
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	c, err := client.DialContext(ctx, observed.ClientOptions(opts))
	if err != nil {
		return nil, "", fmt.Errorf("TEMPORAL_ADDRESS: Temporal does not answer at %s: %w; start it there, or set the variable or --profile", opts.HostPort, err)
	}
	return c, opts.Namespace, nil
}

func openStore(ctx context.Context, path string, log *slog.Logger) (store.Store, error) {
	if path == "" {
		return program.OpenPostgres(ctx, os.Getenv(program.EnvDatabaseURL), log)
	}
	s, err := program.OpenSQLite(ctx, path, log)
	if err != nil {
		return nil, fmt.Errorf("--sqlite: %w", err)
	}
	return s, nil
}
