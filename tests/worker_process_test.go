package tests

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tests/internal/foreign"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// victimEnv makes the test binary a worker, and configures it. victimRuns is its output once it is
// ready.
const (
	victimEnv  = "THREADMILL_TESTS_VICTIM"
	victimRuns = "worker runs"
)

// hastyStaleAfter is the time after which a step of a hasty worker counts as lost.
const hastyStaleAfter = 10 * time.Second

// atOnce is the minimum number of concurrent tests: most of them wait most of the time, for timers
// and for processes.
const atOnce = 8

// TestMain turns the test binary into a worker, for tests that kill it.
func TestMain(m *testing.M) {
	if raw := os.Getenv(victimEnv); raw != "" {
		fmt.Fprintln(os.Stderr, workAsVictim(raw))
		os.Exit(1)
	}
	if dir := os.Getenv(shelfEnv); dir != "" {
		if err := serveShelf(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given && runtime.GOMAXPROCS(0) < atOnce {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// victim is a worker in a separate process, as that process sees it.
type victim struct {
	Temporal, Queue, Store, Provider string

	// Reports is the address to which its hooks, processors and tools report their calls. They wait
	// for the response.
	Reports string

	// Idle runs no activities.
	Idle bool

	// Hasty shortens the times after which its tasks and steps count as lost.
	Hasty bool

	// Guarded has hooks for messages of people and for results of tools.
	Guarded bool

	// Team has more agents, who can ask one another, and tools that need approval.
	Team bool

	// Chores gives its agent background tools.
	Chores bool

	// Shelf is the configuration of an MCP server, and ShelfDir its folder.
	Shelf, ShelfDir string

	// Transcript is the file of a conversation with its agents and tools.
	Transcript string

	// Reader reads documents, and reports how it stores them.
	Reader bool

	// Learner learns about people, and reports how it does.
	Learner bool

	// Schema means that Store is not a file, but the URL of a PostgreSQL server.
	Schema string
}

func (v victim) env() string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return victimEnv + "=" + string(raw)
}

// workAsVictim works until the process is killed.
func workAsVictim(raw string) error {
	var v victim
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		return err
	}
	c, err := client.Dial(client.Options{
		HostPort: v.Temporal, Logger: sdklog.NewStructuredLogger(harness.Quiet),
		// A proxy can read uncompressed data.
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: harness.Patience, GrpcCompression: &client.GrpcCompressionNone{}},
	})
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	r, err := v.runtime(c, logger)
	if err != nil {
		return err
	}
	if !v.Idle && !v.Hasty {
		return r.Run(context.Background())
	}
	o := worker.Options{LocalActivityWorkerOnly: v.Idle, MaxHeartbeatThrottleInterval: activities.HeartbeatThrottle}
	if v.Hasty {
		o.StickyScheduleToStartTimeout = time.Second
	}
	w := worker.New(c, v.Queue, o)
	r.Register(w)
	if err := w.Start(); err != nil {
		return err
	}
	logger.Info(victimRuns)
	select {}
}

func (v victim) runtime(c client.Client, logger *slog.Logger) (*threadmill.Runtime, error) {
	store, err := v.open()
	if err != nil {
		return nil, err
	}
	model, err := openai.New(openai.Config{APIKey: "test", BaseURL: v.Provider})
	if err != nil {
		return nil, err
	}
	cfg := threadmill.Config{
		Temporal: c, Store: store, Models: map[string]llm.Provider{"openai": model}, Tools: []tool.Tool{v.act()},
		Agents:    []agent.Agent{{Name: "assistant", Instructions: "You help.", Model: "openai/stand-in", Tools: []string{"act"}}},
		Namespace: v.Queue, TaskQueue: v.Queue, Hooks: v.hooks(), Processors: []hook.Processor{v.job()}, Logger: logger,
	}
	if v.Hasty {
		cfg.StaleAfter = hastyStaleAfter
	}
	if v.Reader {
		v.readKnowledge(&cfg)
	}
	if v.Learner {
		v.learn(&cfg)
	}
	if v.Team {
		cfg.Agents, cfg.Tools = team("act", "risk"), append(cfg.Tools, v.risk())
		for i := range cfg.Agents {
			cfg.Agents[i].Tools = slices.DeleteFunc(cfg.Agents[i].Tools, func(name string) bool { return name == "note" || name == "shell_cmd" })
		}
	}
	if v.Chores {
		cfg.Agents[0].Tools, cfg.Tools = []string{"chore", "chore_again", "errand", "errand_brief"}, append(cfg.Tools, v.chores()...)
	}
	if v.Shelf != "" {
		if err := connectShelf(&cfg, v.Shelf, v.ShelfDir); err != nil {
			return nil, err
		}
	}
	if v.Transcript != "" {
		if err := v.plays(&cfg); err != nil {
			return nil, err
		}
	}
	return threadmill.New(cfg)
}

// open opens the store that it shares with the test.
func (v victim) open() (store.Store, error) {
	if v.Schema != "" {
		return postgres.Open(context.Background(), postgres.Config{URL: v.Store, Schema: v.Schema})
	}
	return sqlite.Open(context.Background(), sqlite.Config{Path: v.Store})
}

// report is the report of a call of a hook, processor or tool.
type report struct {
	What string `json:"what"`
	Key  string `json:"key"`
}

// tell sends a report, and waits until the test has received it.
func (v victim) tell(ctx context.Context, what, key string) error {
	body, err := json.Marshal(report{what, key})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.Reports, strings.NewReader(string(body)))
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
func (v victim) act() tool.Tool {
	return tool.MustFunc("act", "Acts.", func(ctx context.Context, c tool.Call, in struct {
		How string `json:"how"`
	},
	) (string, error) {
		return "acted: " + in.How, v.tell(ctx, "act", in.How)
	})
}

// risk is act, after approval.
func (v victim) risk() tool.Tool {
	return tool.MustFunc("risk", "Acts, if it may.", func(ctx context.Context, c tool.Call, in struct {
		How string `json:"how"`
	},
	) (string, error) {
		return "acted: " + in.How, v.tell(ctx, "act", in.How)
	}, tool.NeedsApproval("it has an effect"))
}

// job is a processor that turns a job into a system message.
func (v victim) job() hook.Processor {
	type payload struct {
		Name string `json:"name"`
	}
	p := hook.Process("job", func(ctx context.Context, in payload, deps hook.Deps) ([]hook.Produced, error) {
		return []hook.Produced{hook.Message(event.CreatedBySystem, "jobs", "made of "+in.Name)}, v.tell(ctx, "job", deps.Context.Key())
	})
	p.Timeout = harness.Patience
	return p
}

func (v victim) hooks() []hook.Hook {
	barrier := hook.InWorkflow("barrier", foreign.Review, foreignQueue(v.Queue))
	barrier.Filter.Types = []string{"barrier"}
	if !v.Guarded {
		return []hook.Hook{barrier}
	}
	guard := hook.Hook{Name: "guard", Timeout: harness.Patience, Filter: hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedByUser}}, Func: v.guard}
	seal := hook.Hook{Name: "seal", Timeout: harness.Patience, Filter: hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedByTool}}, Func: v.seal}
	return []hook.Hook{guard, seal, barrier}
}

// guard rejects events on request, and hides secrets.
func (v victim) guard(ctx context.Context, e event.Event, respond hook.Respond) (event.Event, error) {
	if err := v.tell(ctx, "guard", hook.DepsOf(ctx).Context.Key()); err != nil {
		return nil, err
	}
	m, ok := e.(event.MessageEvent)
	switch {
	case ok && strings.HasPrefix(m.Message.Content, "refuse"):
		respond(hook.Response{Content: "refused", SenderType: event.CreatedBySystem, SenderID: "guard"})
	case ok && strings.Contains(m.Message.Content, "secret"):
		// Assembled here, so that no other data of the process contains the text.
		m.Message.Content = strings.ReplaceAll(m.Message.Content, "secret", strings.Repeat("hidden", 2))
		return m, nil
	}
	return nil, nil
}

// seal marks the results of tools.
func (v victim) seal(ctx context.Context, e event.Event, _ hook.Respond) (event.Event, error) {
	m, ok := e.(event.MessageEvent)
	if !ok {
		return nil, nil
	}
	m.Message.Content += " (sealed)"
	return m, v.tell(ctx, "seal", hook.DepsOf(ctx).Context.Key())
}

// foreignQueue is the task queue of foreign hook workflows for threads on a task queue.
func foreignQueue(queue string) string { return queue + "-foreign" }
