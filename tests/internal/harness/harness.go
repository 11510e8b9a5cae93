package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/document/formats"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/cli"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/internal/transcript/modelcontext"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/anthropic"
	"github.com/threadmill/threadmill/llm/google"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/stream"
	"github.com/threadmill/threadmill/stream/memory"
	"github.com/threadmill/threadmill/stream/nats"
	"github.com/threadmill/threadmill/tests/internal/process"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/clock"
	"github.com/threadmill/threadmill/tool/shell"
)

// Options configure a world.
type Options struct {
	// Postgres and NATS replace SQLite and the stream in memory.
	Postgres, NATS bool

	// Stream replaces both streams. The test closes it.
	Stream stream.Stream

	// Dir, if set, has the files of SQLite, and of a separate Temporal server in its folder "temporal".
	Dir string

	// Dynamic starts a separate Temporal server with these settings.
	Dynamic map[string]any

	// Converter is the data converter of the client. Default: the SDK's.
	Converter converter.DataConverter

	// Agents default to one, "assistant", with all tools.
	Agents []agent.Agent

	// Tools are added to the built-in ones.
	Tools []tool.Tool

	// Provider configures the model's provider.
	Provider llmtest.Config

	// Name is the namespace and the task queue. A world with the Dir and the Name of an earlier one continues with its
	// threads.
	Name string

	// NoWorker leaves starting the worker to the test.
	NoWorker bool

	// MaxModelAttempts, default 3.
	MaxModelAttempts int

	// Logger of the runtime. Default: errors only, to standard error.
	Logger *slog.Logger

	// StepsAsActivities runs each step as an activity. [StepsAsActivities] does so for the whole suite.
	StepsAsActivities bool

	// Deaf keeps the server's cancellations from running steps, which normally arrive with a
	// heartbeat. Only the live stream then stops them.
	Deaf bool

	// Configure changes the configuration of the runtime, such as its hooks and callbacks, and Serve that of its API.
	Configure func(*threadmill.Config)
	Serve     func(threadmill.Config, *httpapi.Config)
}

// answerWithin is more than the default, since a machine that stalls does so for more than ten seconds.
const answerWithin = 40 * time.Second

// Harness is a running Threadmill.
type Harness struct {
	T         testing.TB
	Temporal  client.Client
	Server    *process.Temporal
	Store     teststore.Store
	Stream    stream.Stream
	Provider  *llmtest.Server
	Runtime   *threadmill.Runtime
	Threads   *threadclient.Client
	API       *httptest.Server
	Shell     string
	TaskQueue string
	config    threadmill.Config

	// Rewritten means that the test replaces records: what models saw cannot be told from them.
	Rewritten bool
}

// shared returns the Temporal server that packages of tests share, or starts one for the tests of this process, which [Main]
// stops.
var shared = sync.OnceValues(func() (s *process.Temporal, err error) {
	if s := process.SharedTemporal(); s != nil {
		return s, nil
	}
	s, err = process.StartTemporal(process.TemporalConfig{SearchAttributes: searchattr.Types()})
	sharing.Store(s)
	return s, err
})

var (
	sharing atomic.Pointer[process.Temporal]
	counter atomic.Int64

	// worlds is the beginning of the names of this process's worlds: others may have the same servers.
	worlds = testenv.Name("test-")
)

// note is a minimal tool: an activity that needs no approval.
var note = tool.MustFunc("note", "Notes a text.", func(_ context.Context, _ tool.Call, in struct {
	Text string `json:"text,omitempty"`
},
) (string, error) {
	return "noted: " + in.Text, nil
})

// Quiet is a logger for errors only.
var Quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))

// StepsAsActivities reports whether the suite runs each step as an activity, rather than the quick ones as local
// activities.
func StepsAsActivities() bool { return os.Getenv("THREADMILL_STEPS") == "activities" }

// StickyOff reports whether the suite runs without the sticky workflow cache, so
// that every workflow task replays its history.
func StickyOff() bool { return os.Getenv("THREADMILL_STICKY") == "off" }

func init() {
	if StickyOff() {
		worker.SetStickyWorkflowCacheSize(0)
	}
}

// Temporal returns the server that the tests of one process share.
func Temporal(t testing.TB) *process.Temporal {
	t.Helper()
	s, err := shared()
	require.NoError(t, err)
	return s
}

// Protocol returns the protocol that the provider "openai" speaks: openai, openai-responses, anthropic or
// google. CI runs the suite with each of them, since it makes no difference to a thread.
func Protocol() string { return cmp.Or(os.Getenv("THREADMILL_TEST_PROVIDER"), "openai") }

// newModels returns the providers of the suite: "openai" speaks [Protocol], the others what they are
// named after.
func newModels(s *llmtest.Server) (map[string]llm.Provider, error) {
	o, err := openai.New(openai.Config{APIKey: "test", BaseURL: s.URL, Dialect: openai.DialectOpenAI})
	r, err4 := openai.NewResponses(openai.Config{APIKey: "test", BaseURL: s.URL})
	a, err2 := anthropic.New(anthropic.Config{APIKey: "test", BaseURL: s.Root})
	g, err3 := google.New(google.Config{APIKey: "test", BaseURL: s.Root})
	models := map[string]llm.Provider{"openai": o, "openai-responses": r, "anthropic": a, "google": g}
	if models["openai"] = models[Protocol()]; models["openai"] == nil {
		return nil, fmt.Errorf("THREADMILL_TEST_PROVIDER: %q is none", Protocol())
	}
	return models, errors.Join(err, err2, err3, err4)
}

// New builds a world that ends with the test.
func New(t testing.TB, o Options) *Harness {
	t.Helper()
	w := &Harness{T: t, Server: server(t, o), TaskQueue: fmt.Sprintf("%s-%d", worlds, counter.Add(1))}
	options := client.Options{
		HostPort: w.Server.Addr(), Identity: "threadmill-tests", Logger: sdklog.NewStructuredLogger(Quiet),
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: testenv.Patience, GrpcCompression: &client.GrpcCompressionNone{}},
	}
	options.DataConverter = o.Converter
	if o.Deaf {
		options.Interceptors = []interceptor.ClientInterceptor{&noCancel{}}
	}
	if o.Name != "" {
		w.TaskQueue = o.Name
	}
	var err error
	w.Temporal, err = client.Dial(options)
	require.NoError(t, err)
	t.Cleanup(w.Temporal.Close)
	o.Provider.T = t            // checks that every transcript is valid for all providers
	if Protocol() != "openai" { // which has a field for names
		o.Provider.People = []string{"ann", "carol", "user", "api", "desk", "laptop"}
	}
	w.Provider = llmtest.NewServer(o.Provider)
	t.Cleanup(w.Provider.Close)
	w.Store, w.Stream = teststore.Of(newStore(t, o)), newStream(t, o)
	t.Cleanup(w.reproduceModelCalls)
	if w.Shell = filepath.Join(o.Dir, "files"); o.Dir == "" {
		w.Shell = t.TempDir()
	}
	require.NoError(t, os.MkdirAll(w.Shell, 0o700))

	models, err := newModels(w.Provider)
	require.NoError(t, err)
	sh, err := shell.New(shell.Config{Root: w.Shell})
	require.NoError(t, err)
	tools := append([]tool.Tool{sh, clock.New(clock.Config{}), note}, o.Tools...)
	if o.Agents == nil {
		a := agent.Agent{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in"}
		for _, tl := range tools {
			a.Tools = append(a.Tools, tl.Definition().Name)
		}
		o.Agents = []agent.Agent{a}
	}
	if o.MaxModelAttempts == 0 {
		o.MaxModelAttempts = 3
	}
	if o.Logger == nil {
		o.Logger = Quiet
	}
	w.config = threadmill.Config{
		Temporal: w.Temporal, Store: w.Store, Stream: w.Stream, Agents: o.Agents, Tools: tools,
		Models: models, Namespace: w.TaskQueue, TaskQueue: w.TaskQueue,
		ModelRetries: map[string]llm.Retry{"openai": {MaxAttempts: o.MaxModelAttempts}}, StopTimeout: time.Second, AnswerWithin: answerWithin, Logger: o.Logger, Replay: worker.WorkflowReplayerOptions{DataConverter: o.Converter},
		StepsAsActivities: o.StepsAsActivities || StepsAsActivities(),
	}
	if o.Configure != nil {
		o.Configure(&w.config)
	}
	if w.config.Knowledge.Reader == nil {
		w.config.Knowledge.Reader = formats.Reader()
	}
	w.Runtime, err = threadmill.New(w.config)
	require.NoError(t, err)
	w.Threads = w.Runtime.Client()
	var served httpapi.Config
	if o.Serve != nil {
		o.Serve(w.config, &served)
	}
	api, err := httpapi.New(w.Runtime, served)
	require.NoError(t, err)
	w.API = httptest.NewServer(api)
	t.Cleanup(w.API.Close)
	if !o.NoWorker {
		w.StartWorker()
	}
	return w
}

// StepsAsActivities reports whether the runtime runs each step as an activity.
func (w *Harness) StepsAsActivities() bool { return w.config.StepsAsActivities }

// Beside returns another runtime of the same threads, as another process would have it.
func (w *Harness) Beside(configure func(*threadmill.Config)) *threadmill.Runtime {
	cfg := w.config
	configure(&cfg)
	r, err := threadmill.New(cfg)
	require.NoError(w.T, err)
	return r
}

// API returns the API of a runtime, with its defaults.
func API(t testing.TB, r *threadmill.Runtime) http.Handler {
	t.Helper()
	api, err := httpapi.New(r, httpapi.Config{})
	require.NoError(t, err)
	return api
}

// Refused returns the error of a runtime whose configuration is wrong.
func (w *Harness) Refused(configure func(*threadmill.Config)) error {
	cfg := w.config
	configure(&cfg)
	_, err := threadmill.New(cfg)
	return err
}

// StartWorker runs a worker until the test ends or stop is called.
func (w *Harness) StartWorker() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Runtime.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				w.T.Errorf("worker: %v", err)
			}
		})
	}
	w.T.Cleanup(stop)
	return stop
}

func server(t testing.TB, o Options) *process.Temporal {
	if o.Dynamic == nil && o.Dir == "" {
		return Temporal(t)
	}
	folder := ""
	if o.Dir != "" {
		folder = filepath.Join(o.Dir, "temporal")
	}
	return process.NewTemporal(t, process.TemporalConfig{DataDir: folder, SearchAttributes: searchattr.Types(), Dynamic: o.Dynamic})
}

func newStore(t testing.TB, o Options) store.Store {
	var s store.Store
	var err error
	if o.Postgres {
		s, err = postgres.Open(context.Background(), postgres.Config{
			URL: testenv.Postgres(t), Schema: testenv.Name("e2e"),
		})
	} else {
		folder := filepath.Join(o.Dir, "store")
		if o.Dir == "" {
			folder = t.TempDir()
		}
		require.NoError(t, os.MkdirAll(folder, 0o700))
		path := filepath.Join(folder, "threadmill.db")
		if _, missing := os.Stat(path); missing != nil {
			empty, err := migrated()
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, empty, 0o600))
		}
		s, err = sqlite.Open(context.Background(), sqlite.Config{Path: path})
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// migrated returns an empty database with its tables. Tests begin with copies, since migrations took a twentieth of their CPU.
var migrated = sync.OnceValues(func() (_ []byte, err error) {
	folder, err := os.MkdirTemp("", "threadmill-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "empty.db")
	s, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func newStream(t testing.TB, o Options) stream.Stream {
	if o.Stream != nil {
		return o.Stream
	}
	var s stream.Stream = memory.New(memory.Config{})
	if o.NATS {
		var err error
		s, err = nats.Open(context.Background(), nats.Config{
			URL: testenv.NATS(t), Stream: testenv.Name("E2E"), Prefix: testenv.Name("e2e"),
		})
		require.NoError(t, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Ctx ends with the test, or after [testenv.Patience].
func (w *Harness) Ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	w.T.Cleanup(cancel)
	return ctx
}

// Key is the key of a thread in the store.
func (w *Harness) Key(thread string) store.Key {
	return store.Key{Namespace: w.TaskQueue, ThreadID: thread}
}

// Open starts a thread.
func (w *Harness) Open(agents ...string) string {
	w.T.Helper()
	id := fmt.Sprintf("t%d", counter.Add(1))
	require.NoError(w.T, w.Threads.Open(w.Ctx(), id, signals.Start{Agents: agents}, nil))
	return id
}

// Say posts a person's message and waits for the end of its turn.
func (w *Harness) Say(thread, content string) signals.TurnResult {
	w.T.Helper()
	out, err := w.Threads.Turn(w.Ctx(), thread, signals.UserMessage(thread, "ann", content))
	require.NoError(w.T, err)
	if out.LastRecord != "" {
		w.awaitRecord(thread, out.LastRecord)
	}
	return out
}

// SayBySignal is Say by signal, whose steps may all be local activities.
func (w *Harness) SayBySignal(thread, content string) {
	w.T.Helper()
	w.awaitRecord(thread, recordid.TurnEnded(w.Post(thread, content)))
}

// awaitRecord waits until the store has a record.
func (w *Harness) awaitRecord(thread, id string) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		found, err := w.Store.RecordsByID(w.Ctx(), w.Key(thread), id)
		return err == nil && len(found) > 0
	}, testenv.Patience, testenv.Tick)
}

// Post signals a person's message, which costs the least history. The thread sends no response.
func (w *Harness) Post(thread, content string) string {
	w.T.Helper()
	id, err := w.Threads.PostSignal(w.Ctx(), thread, signals.UserMessage(thread, "ann", content))
	require.NoError(w.T, err)
	return id
}

// Await waits for the end of a posted turn.
func (w *Harness) Await(thread, eventID string) signals.TurnResult {
	w.T.Helper()
	out, err := w.Threads.Turn(w.Ctx(), thread, signals.Post{ID: eventID})
	require.NoError(w.T, err)
	if out.LastRecord != "" {
		w.awaitRecord(thread, out.LastRecord)
	}
	return out
}

// AwaitApproval waits until n calls wait for approval, and returns them.
func (w *Harness) AwaitApproval(thread string, n int) []event.ApprovalRequest {
	w.T.Helper()
	var out signals.Approvals
	require.Eventually(w.T, func() bool {
		var err error
		out, err = w.Threads.Approvals(w.Ctx(), thread)
		return err == nil && len(out.Approvals) == n
	}, testenv.Patience, testenv.Tick)
	return out.Approvals
}

// Starter runs the command line client.
func (w *Harness) Starter(args ...string) (printed string, code int, problem string) {
	var out, errs strings.Builder
	args = append(args, "--address", w.Server.Addr(), "--api", w.API.URL, "--namespace", w.TaskQueue, "--task-queue", w.TaskQueue)
	code = cli.Run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return out.String(), code, errs.String()
}

// reproduceModelCalls checks of the newest model calls of every thread that their records tell what
// the model saw, when everything has happened that could confuse them.
func (w *Harness) reproduceModelCalls() {
	if w.Rewritten {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	threads, err := w.Store.Threads(ctx, w.TaskQueue, store.ThreadPage{Limit: 50})
	for _, thread := range threads {
		var records []event.Record
		records, err = w.Store.Records(ctx, w.Key(thread.ID), store.Query{Types: []string{event.TypeLLMCall}, Newest: true, Limit: 20})
		for _, r := range records {
			var call event.LLMCall
			if json.Unmarshal(r.Payload, &call) != nil || call.Context == nil {
				continue // the test has broken it, or a repair has rebuilt it
			}
			_, exact, err := modelcontext.Reproduce(ctx, w.Store, w.Key(thread.ID), call)
			if !errors.Is(err, store.ErrUnavailable) {
				require.NoError(w.T, err)
				require.True(w.T, exact, "what the model saw for %s of thread %s", call.MessageID, thread.ID)
			}
		}
	}
	if !errors.Is(err, store.ErrUnavailable) {
		require.NoError(w.T, err)
	}
}

// Records returns all records of a thread.
func (w *Harness) Records(thread string) []event.Record {
	w.T.Helper()
	out, err := w.Store.Records(w.Ctx(), w.Key(thread), store.Query{})
	require.NoError(w.T, err)
	return out
}

// Transcript returns a thread's messages, one line each.
func (w *Harness) Transcript(thread string) string {
	w.T.Helper()
	var b strings.Builder
	for _, m := range w.Messages(thread) {
		fmt.Fprintf(&b, "%s %s: %s", m.Role, m.SenderID, m.Content)
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " [%s %s]", c.Function.Name, c.Function.Arguments)
		}
		b.WriteString("\n")
	}
	return b.String()
}
