package killing

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/ops/recovery"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
	proc "github.com/threadmill/threadmill/tests/internal/process"
	"github.com/threadmill/threadmill/tool"
)

// workerEnv makes the test binary a worker, and configures it. runs is its output once it is ready.
const (
	workerEnv = "THREADMILL_TESTS_WORKER"
	runs      = "worker runs"
)

// StaleAfter is the time after which a step of a hasty worker counts as lost.
const StaleAfter = 10 * time.Second

// Kind configures workers of a kind.
type Kind func(w Worker, c *threadmill.Config) error

// Main runs the tests of a package, or the worker that one of them has started. It is called by TestMain.
func Main(m *testing.M, kinds map[string]Kind) {
	if raw := os.Getenv(workerEnv); raw != "" {
		fmt.Fprintln(os.Stderr, work(raw, kinds))
		os.Exit(1)
	}
	harness.Main(m)
}

// Worker is a worker in a process of its own, as that process sees it.
type Worker struct {
	// Store is a file or, if there is a Schema, the URL of a PostgreSQL server.
	Temporal, Queue, Store, Schema, Provider string

	// Reports is the address to which its hooks, processors and tools report their calls. They wait
	// for the response.
	Reports string

	// Idle runs no activities.
	Idle bool

	// Hasty shortens the times after which its tasks and steps count as lost.
	Hasty bool

	// Recovery is the folder of the journals of running tasks. Such workers have the same identity, and without recovery their
	// steps count as lost after an hour.
	Recovery string

	// Kinds are the names of what configures it beyond that, and Data is for them.
	Kinds []string
	Data  map[string]string
}

// Start starts the test binary as this worker, and waits until it runs.
func (w Worker) Start(t testing.TB) *proc.Run {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	raw, err := json.Marshal(w)
	require.NoError(t, err)
	cmd := exec.Command(path)
	cmd.Env = []string{workerEnv + "=" + string(raw)}
	r := proc.Launch(t, cmd, runs)
	r.AwaitReady()
	return r
}

// work works until the process is killed.
func work(raw string, kinds map[string]Kind) error {
	var w Worker
	if err := json.Unmarshal([]byte(raw), &w); err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	options := client.Options{
		HostPort: w.Temporal, Logger: sdklog.NewStructuredLogger(harness.Quiet),
		// A proxy can read uncompressed data.
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: testenv.Patience, GrpcCompression: &client.GrpcCompressionNone{}},
	}
	var journal *recovery.Journal
	if w.Recovery != "" {
		var err error
		if journal, err = recovery.Open(w.Recovery, logger); err != nil {
			return err
		}
		options.Identity = "worker"
	}
	c, err := client.Dial(journal.ClientOptions(options))
	if err != nil {
		return err
	}
	defer journal.Watch(c.WorkflowService())()
	r, err := w.runtime(c, logger, kinds)
	if err != nil {
		return err
	}
	if !w.Idle && !w.Hasty {
		return r.Run(context.Background())
	}
	o := worker.Options{LocalActivityWorkerOnly: w.Idle, MaxHeartbeatThrottleInterval: activities.HeartbeatThrottle}
	if w.Hasty {
		o.StickyScheduleToStartTimeout = time.Second
	}
	steps := worker.New(c, w.Queue, o)
	r.Register(steps)
	if err := steps.Start(); err != nil {
		return err
	}
	logger.Info(runs)
	select {}
}

func (w Worker) runtime(c client.Client, logger *slog.Logger, kinds map[string]Kind) (*threadmill.Runtime, error) {
	store, err := w.open()
	if err != nil {
		return nil, err
	}
	model, err := openai.New(openai.Config{APIKey: "test", BaseURL: w.Provider, Dialect: openai.DialectOpenAI})
	if err != nil {
		return nil, err
	}
	cfg := threadmill.Config{
		Temporal: c, Store: store, Models: map[string]llm.Provider{"openai": model}, Tools: []tool.Tool{w.act()},
		Agents:    []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"act"}}},
		Namespace: w.Queue, TaskQueue: w.Queue, Hooks: []hook.Hook{w.barrier()}, Processors: []hook.Processor{w.job()}, Logger: logger,
	}
	if w.Hasty {
		cfg.StaleAfter = StaleAfter
	}
	if w.Recovery != "" {
		cfg.StaleAfter = time.Hour
	}
	for _, name := range w.Kinds {
		configure, known := kinds[name]
		if !known {
			return nil, fmt.Errorf("TestMain has no kind of worker %q", name)
		}
		if err := configure(w, &cfg); err != nil {
			return nil, err
		}
	}
	return threadmill.New(cfg)
}

// Report is the report of a call of a hook, processor or tool.
type Report struct {
	What string `json:"what"`
	Key  string `json:"key"`
}

// open opens the store that it shares with the test.
func (w Worker) open() (store.Store, error) {
	if w.Schema != "" {
		return postgres.Open(context.Background(), postgres.Config{URL: w.Store, Schema: w.Schema})
	}
	return sqlite.Open(context.Background(), sqlite.Config{Path: w.Store})
}

// Tell sends a report, and waits until the test has received it.
func (w Worker) Tell(ctx context.Context, what, key string) error {
	body, err := json.Marshal(Report{what, key})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Reports, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// act is a tool whose effect is its report.
func (w Worker) act() tool.Tool {
	return tool.MustFunc("act", "Acts.", func(ctx context.Context, c tool.Call, in struct {
		How string `json:"how"`
	},
	) (string, error) {
		return "acted: " + in.How, w.Tell(ctx, "act", in.How)
	})
}

// job is a processor that turns a job into a system message.
func (w Worker) job() hook.Processor {
	type payload struct {
		Name string `json:"name"`
	}
	p := hook.Process("job", func(ctx context.Context, in payload, deps hook.Deps) ([]hook.Produced, error) {
		return []hook.Produced{hook.Message(event.CreatedBySystem, "jobs", "made of "+in.Name)}, w.Tell(ctx, "job", deps.Context.Key())
	})
	p.Timeout = testenv.Patience
	return p
}

// barrier is a hook that decides on barriers in a foreign workflow.
func (w Worker) barrier() hook.Hook {
	h := hook.InWorkflow("barrier", hook.Workflow{Type: foreign.Review, TaskQueue: check.ForeignQueue(w.Queue)})
	h.Filter.Types = []string{"barrier"}
	return h
}
