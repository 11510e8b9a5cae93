package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/ops/gate"
	"github.com/threadmill/threadmill/internal/ops/recovery"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/program/httpserver"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/redact/redactlog"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/telemetry"
)

const (
	dialWithin = 15 * time.Second

	// answerWithin is the time for running requests when the process stops.
	answerWithin = 5 * time.Second
)

// run runs the roles until ctx ends or one of them fails.
func run(ctx context.Context, application Config, o options, log *slog.Logger) error {
	cfg, api, err := declare(application, o, log)
	if err != nil {
		return err
	}
	if err := o.checkServers(&cfg, &api, os.Getenv); err != nil {
		return err
	}
	settings, err := load(o, &cfg, &api)
	if err != nil {
		return err
	}
	log = cfg.Logger
	listener, err := program.Listen("http", o.http)
	if err != nil {
		return err
	}
	defer listener.Close()
	if !cfg.Telemetry.Enabled() {
		own := cfg.Telemetry
		var flush func()
		if cfg.Telemetry, flush, err = program.StartTelemetry(ctx, application.Name, os.Getenv, log); err != nil {
			return err
		}
		defer flush() // last, as all others may have spans
		cfg.Telemetry.Content, cfg.Telemetry.IgnoreCallers = cfg.Telemetry.Content || own.Content, cfg.Telemetry.IgnoreCallers || own.IgnoreCallers
		cfg.Telemetry.CountWaiting = cmp.Or(cfg.Telemetry.CountWaiting, own.CountWaiting)
	}
	closeAll, err := connect(ctx, application, o, &cfg, &api, settings, listener.Addr())
	defer closeAll()
	if err != nil {
		return err
	}
	var public net.Listener
	if o.servesAPI() {
		public = listener
	}
	if err := settings.ConnectMCP(&cfg, public); err != nil {
		return err
	}
	if which := settings.WhichHooks(); which != "" && o.has(roleWorker) {
		log.Info("hook workflows decide on events; each needs a worker on its task queue", "hooks", which)
	}
	runtime, err := threadmill.New(cfg)
	if err != nil {
		return err
	}
	handler, err := httpapi.New(runtime, api)
	if err != nil {
		return err
	}
	return serve(ctx, application, o, runtime, handler, listener, log)
}

// declare returns the configuration of the flags, with what the application declares.
func declare(application Config, o options, log *slog.Logger) (cfg threadmill.Config, api httpapi.Config, err error) {
	cfg = threadmill.Config{
		Logger: log, Namespace: o.namespace, TaskQueue: o.taskQueue, TakeTaskQueue: o.take, StopTimeout: o.drain, Models: map[string]llm.Provider{},
		ToolQueues: o.tools, OnlyToolQueues: o.has(roleTools) && !o.has(roleWorker), Deployment: o.deployment(os.Getenv),
	}
	if application.Configure != nil {
		if err := application.Configure(&cfg); err != nil {
			return cfg, api, err
		}
	}
	if application.API != nil {
		if err := application.API(&api); err != nil {
			return cfg, api, err
		}
	}
	cfg.Logger = cmp.Or(cfg.Logger, log)
	return cfg, api, nil
}

// load adds the settings of the file and the environment to the configuration.
func load(o options, cfg *threadmill.Config, api *httpapi.Config) (program.Settings, error) {
	settings, err := program.Load(program.SettingsConfig{
		File: o.config, AllowedHosts: o.hosts, AllowedOrigins: o.origins, TaskQueue: cfg.TaskQueue, Declared: *cfg, DeclaredAPI: *api, Logger: cfg.Logger,
	})
	if err != nil {
		return settings, err
	}
	settings.Apply(cfg, api)
	cfg.Logger = redactlog.New(cfg.Redact, cfg.Logger)
	return settings, nil
}

// connect opens the store, the live stream and the connection to Temporal, unless the application has its own, and
// sets the authenticator. closeAll closes what was opened, also after an error.
func connect(ctx context.Context, application Config, o options, cfg *threadmill.Config, api *httpapi.Config, settings program.Settings, addr net.Addr) (closeAll func(), err error) {
	var closers []func()
	closeAll = func() {
		for i := len(closers) - 1; i >= 0; i-- {
			closers[i]()
		}
	}
	log := cfg.Logger
	if cfg.Store == nil {
		if cfg.Store, err = openStore(ctx, o.sqlite, log); err != nil {
			return closeAll, err
		}
		closers = append(closers, func() { _ = cfg.Store.Close() })
	}
	if api.Authenticator == nil || !o.servesAPI() {
		if api.Authenticator, err = authenticator(ctx, o, addr, cfg.Store, settings); err != nil {
			return closeAll, err
		}
	}
	if r := cfg.Replay; r.DataConverter == nil && r.FailureConverter == nil && r.ContextPropagators == nil {
		if opts, err := clientOptions(application, o.profile); err == nil { // dial tells the error
			cfg.Replay = gate.Options(opts)
		}
	}
	if cfg.Temporal == nil {
		var journal *recovery.Journal
		if journal, err = openJournal(o, log); err != nil {
			return closeAll, err
		}
		closers = append(closers, func() { _ = journal.Close() })
		if cfg.Temporal, cfg.TemporalNamespace, err = dial(ctx, application, o.profile, cfg.Telemetry, journal, log); err != nil {
			return closeAll, err
		}
		closers = append(closers, cfg.Temporal.Close, journal.Watch(cfg.Temporal.WorkflowService()))
	}
	if cfg.Stream == nil {
		natsURL := os.Getenv(program.EnvNATSURL)
		if natsURL == "" {
			log.Warn(program.EnvNATSURL + " is not set: the live stream works within this process only, so run no other process")
		}
		if cfg.Stream, err = program.OpenStream(ctx, natsURL, log); err != nil {
			return closeAll, err
		}
		closers = append(closers, func() { _ = cfg.Stream.Close() })
	}
	return closeAll, nil
}

// authenticator returns the API's authenticator. Without the API, only health is served, which
// needs no authentication.
func authenticator(ctx context.Context, o options, addr net.Addr, records store.Store, settings program.Settings) (auth.Authenticator, error) {
	if !o.servesAPI() {
		return auth.Func(func(*http.Request) (auth.Principal, error) { return auth.Principal{}, auth.ErrUnauthenticated }), nil
	}
	return o.auth.Authenticator(ctx, addr, records, settings)
}

// serve runs the roles.
func serve(ctx context.Context, application Config, o options, runtime *threadmill.Runtime, api *httpapi.API, l net.Listener, log *slog.Logger) error {
	var handler http.Handler = api
	if !o.servesAPI() {
		handler = healthOnly(handler)
	}
	web := httpserver.Serve(l, handler, api.CloseStreams, log)
	var worker *program.Worker
	var workerFailed, backgroundFailed <-chan error
	if o.has(roleWorker) || o.has(roleTools) {
		worker = program.StartWorker(runtime)
		workerFailed = worker.Failed()
	}
	background := func() {}
	if application.Background != nil && o.has(roleWorker) {
		background, backgroundFailed = startBackground(func(ctx context.Context) error { return application.Background(ctx, runtime) })
	}
	log.Info("started", "roles", o.roles, "http", web.URL())

	var err error
	select {
	case <-ctx.Done():
	case err = <-web.Failed():
	case err = <-workerFailed:
	case err = <-backgroundFailed:
	}
	log.Info("stopping", "drain", o.drain)
	web.Drain()
	var stopping sync.WaitGroup
	stopping.Go(func() { within(o.drain, background, log) })
	if worker != nil {
		stopping.Go(worker.Stop)
	}
	stopping.Wait()
	web.Stop(answerWithin)
	log.Info("stopped")
	return err
}

// startBackground runs a function until stop is called, which waits for its end. failed receives its error.
func startBackground(f func(context.Context) error) (stop func(), failed <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	failure, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			failure <- err
		}
	}()
	return func() {
		cancel()
		<-done
	}, failure
}

// within waits for the end of stop, but no longer than d.
func within(d time.Duration, stop func(), log *slog.Logger) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		stop()
	}()
	select {
	case <-done:
	case <-time.After(d):
		log.Warn("Config.Background has not returned within --drain")
	}
}

// healthOnly serves only the health checks of the API.
func healthOnly(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", api)
	mux.Handle("GET /readyz", api)
	return mux
}

// clientOptions returns the options of the connection to Temporal.
func clientOptions(application Config, profile string) (client.Options, error) {
	opts, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{ConfigFileProfile: profile})
	if err != nil {
		return opts, program.Usagef("Temporal's configuration (TEMPORAL_*, --profile): %w", err)
	}
	opts.HostPort = cmp.Or(opts.HostPort, client.DefaultHostPort)
	opts.Namespace = cmp.Or(opts.Namespace, client.DefaultNamespace)
	if application.ClientOptions != nil {
		application.ClientOptions(&opts)
	}
	return opts, nil
}

// dial connects to Temporal, and returns the namespace of the connection.
func dial(ctx context.Context, application Config, profile string, observed telemetry.Config, journal *recovery.Journal, log *slog.Logger) (client.Client, string, error) {
	opts, err := clientOptions(application, profile)
	if err != nil {
		return nil, "", err
	}
	opts.Logger = program.TemporalLogger(log)
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	c, err := client.DialContext(ctx, journal.ClientOptions(observed.ClientOptions(opts)))
	if err != nil {
		return nil, "", fmt.Errorf("TEMPORAL_ADDRESS: Temporal does not answer at %s: %w; start it there, or set the variable or --profile", opts.HostPort, err)
	}
	return c, opts.Namespace, nil
}

// openJournal opens the journal of the running tasks, if this process has workers and a folder for it.
func openJournal(o options, log *slog.Logger) (*recovery.Journal, error) {
	folder := cmp.Or(o.recovery, os.Getenv(program.EnvRecoveryDir))
	if folder == "" || !o.has(roleWorker) && !o.has(roleTools) {
		return nil, nil //nolint:nilnil // none is one that does nothing
	}
	journal, err := recovery.Open(folder, log)
	if err != nil {
		return nil, fmt.Errorf("--recovery-dir: %w", err)
	}
	return journal, nil
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
