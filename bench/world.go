package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/document/formats"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/stream/nats"
	"github.com/threadmill/threadmill/threadmilltest/embedded"
)

const millQueue = "bench-threadmill"

// world runs both sides on one Temporal server.
type world struct {
	log      *slog.Logger
	dir      string
	temporal client.Client
	server   *serverProcess // nil = in this process
	store    store.Store
	stream   stream.Stream
	provider *llmtest.Server
	model    *model
	mill     *mill
	// activities is Threadmill with all steps as activities.
	activities *mill
	bare       *bare

	// calls and storeCalls are the numbers of calls to Temporal and to the store.
	calls, storeCalls atomic.Int64

	// stops stop the parts that were started.
	stops []func() error
}

// side is one of the compared systems.
type side interface {
	name() string

	// thread returns a thread, and starts nothing.
	thread(s shape, by way) thread
}

// thread is a conversation with sequential turns.
type thread interface {
	// first opens the thread with a message and waits for the end of its turn.
	first(ctx context.Context) error
	// watch connects a viewer.
	watch(ctx context.Context) error
	// turn sends a message, waits for the end of its turn and checks its reply.
	turn(ctx context.Context) error
	// finish waits until the viewer has received everything.
	finish(ctx context.Context) error
}

func same(got, want string) error {
	if got != want {
		return fmt.Errorf("the reply is %q, want %q", got, want)
	}
	return nil
}

var ids atomic.Int64

func newID(prefix string) string { return fmt.Sprintf("%s%d", prefix, ids.Add(1)) }

// workerOptions are the options of [threadmill.Runtime.Run].
func workerOptions() worker.Options {
	return worker.Options{
		WorkflowTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		ActivityTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		WorkerStopTimeout:          time.Second,
	}
}

func newWorld(ctx context.Context, o Options, log *slog.Logger) (_ *world, err error) {
	w := &world{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "threadmill-bench-"); err != nil {
		return nil, err
	}
	w.onStop(func() error { return os.RemoveAll(w.dir) })
	if err := w.startTemporal(ctx, o); err != nil {
		return nil, err
	}
	if err := w.openStore(ctx, o); err != nil {
		return nil, err
	}
	if err := w.openStream(ctx, o); err != nil {
		return nil, err
	}
	m := &model{}
	bare, stop, err := newBare(w.temporal, m)
	if err != nil {
		return nil, err
	}
	w.onStop(func() error { stop(); return nil })
	w.bare = bare
	w.provider = llmtest.NewServer(llmtest.Config{})
	w.onStop(func() error { w.provider.Close(); return nil })
	w.model = m
	if w.mill, err = w.startThreadmill(ctx, o, millQueue, threadmill.Config{}); err != nil {
		return nil, err
	}
	w.activities, err = w.startThreadmill(ctx, o, millQueue+"-activities", threadmill.Config{StepsAsActivities: true})
	return w, err
}

func (w *world) onStop(f func() error) { w.stops = append(w.stops, f) }

// stop stops the started parts, in reverse order.
func (w *world) stop() error {
	var err error
	for i := len(w.stops) - 1; i >= 0; i-- {
		err = errors.Join(err, w.stops[i]())
	}
	w.stops = nil
	return err
}

func (w *world) startTemporal(ctx context.Context, o Options) error {
	dir := filepath.Join(w.dir, "temporal")
	if o.Memory {
		dir = serverMemory
	}
	addr := ""
	if o.apart {
		server, err := startServer(ctx, dir, os.Stderr)
		if err != nil {
			return err
		}
		w.onStop(server.stop)
		w.server, addr = server, server.addr
	} else {
		server, err := embedded.Start(ctx, temporalConfig(dir, w.log))
		if err != nil {
			return err
		}
		w.onStop(func() error { server.Stop(); return nil })
		addr = server.Addr()
	}
	var err error
	w.temporal, err = client.Dial(client.Options{
		HostPort: addr, Logger: sdklog.NewStructuredLogger(w.log),
		ConnectionOptions: client.ConnectionOptions{
			GrpcCompression: &client.GrpcCompressionNone{}, DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(countCalls(&w.calls))},
		},
	})
	if err != nil {
		return fmt.Errorf("connecting to Temporal: %w", err)
	}
	w.onStop(func() error { w.temporal.Close(); return nil })
	return nil
}

func (w *world) openStore(ctx context.Context, o Options) (err error) {
	if o.DatabaseURL != "" {
		var drop func() error
		w.store, drop, err = openPostgres(ctx, o.DatabaseURL)
		w.onStop(drop)
	} else {
		w.store, err = o.openSQLite(ctx, w.dir)
	}
	if err != nil {
		return err
	}
	w.onStop(w.store.Close)
	w.store = &countedStore{teststore.Of(w.store), &w.storeCalls}
	return nil
}

func (w *world) openStream(ctx context.Context, o Options) error {
	w.stream = memory.New(memory.Config{})
	if o.NATSURL != "" {
		s, err := openNATS(ctx, o.NATSURL, natsName())
		if err != nil {
			return err
		}
		w.stream = s
	}
	w.onStop(w.stream.Close)
	return nil
}

// natsName returns a new name of a stream in NATS.
func natsName() string { return fmt.Sprintf("bench%d", time.Now().UnixMilli()) }

func openNATS(ctx context.Context, url, name string) (stream.Stream, error) {
	return nats.Open(ctx, nats.Config{URL: url, Stream: name, Prefix: name})
}

// startThreadmill starts a runtime on a task queue, with its API.
func (w *world) startThreadmill(ctx context.Context, o Options, queue string, cfg threadmill.Config) (*mill, error) {
	runtime, err := w.runtime(queue, cfg)
	if err != nil {
		return nil, err
	}
	out, err := w.serve(o, runtime)
	if err != nil {
		return nil, err
	}
	w.run(ctx, runtime)
	return out, nil
}

// runtime returns a runtime on a task queue, with the configured telemetry, stream and steps.
func (w *world) runtime(queue string, cfg threadmill.Config) (*threadmill.Runtime, error) {
	temporal, err := client.NewClientFromExisting(w.temporal, cfg.Telemetry.ClientOptions(client.Options{Logger: sdklog.NewStructuredLogger(w.log)}))
	if err != nil {
		return nil, fmt.Errorf("connecting to Temporal: %w", err)
	}
	w.onStop(func() error { temporal.Close(); return nil })
	remote, err := openai.New(openai.Config{APIKey: "bench", BaseURL: w.provider.URL})
	if err != nil {
		return nil, err
	}
	if cfg.Stream == nil {
		cfg.Stream = w.stream
	}
	return threadmill.New(threadmill.Config{
		Temporal: temporal, Store: w.store, Stream: cfg.Stream, TaskQueue: queue, Namespace: cfg.Namespace, Telemetry: cfg.Telemetry, StepsAsActivities: cfg.StepsAsActivities, Tools: tools(),
		Agents: []agent.Agent{
			{Name: "assistant", Model: "bench/model", Instructions: "You help.", Tools: []string{plainTool, quickTool}},
			{Name: remoteAgent, Model: "remote/model", Instructions: "You help."},
			{
				Name: askingAgent, Model: "bench/model", Instructions: "You help.", Tools: []string{plainTool, quickTool},
				ApprovalRules: []approval.Rule{{Name: "every call", Effect: approval.EffectAsk}},
			},
			{
				Name: readerAgent, Model: "bench/model", Instructions: "You help.", Tools: []string{plainTool, quickTool},
				Knowledge: agent.Knowledge{Passages: readerPassages},
			},
		},
		Knowledge:   threadmill.Knowledge{Reader: formats.Reader()},
		Models:      map[string]llm.Provider{"bench": w.model, "remote": remote},
		Rules:       []rule.Rule{{Name: "ticks", Events: []string{tickType}, Priority: 20}},
		StopTimeout: time.Second, Logger: w.log,
	})
}

// serve serves the API of a runtime.
func (w *world) serve(o Options, runtime *threadmill.Runtime) (*mill, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	handler, err := httpapi.New(runtime, httpapi.Config{})
	if err != nil {
		return nil, err
	}
	api := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = api.Serve(listener) }() // ends with Close
	w.onStop(func() error { handler.CloseStreams(); return api.Close() })
	return &mill{runtime: runtime, threads: runtime.Client(), api: "http://" + listener.Addr().String(), viewer: o.Viewer}, nil
}

// run runs the worker of a runtime.
func (w *world) run(ctx context.Context, runtime *threadmill.Runtime) {
	// The worker outlives ctx: when a measurement is aborted, running steps still end.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- runtime.Run(running) }()
	w.onStop(func() error { stop(); return <-ended })
}
