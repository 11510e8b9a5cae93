package embedded

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/testenv"
)

const queue = "embedded-test"

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func startServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	begin := time.Now()
	srv, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Logf("started in %s", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(srv.Stop)
	return srv
}

func dial(t testing.TB, srv *Server) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{
		HostPort: srv.Addr(), Namespace: srv.Namespace(), Logger: sdklog.NewStructuredLogger(silent()),
		ConnectionOptions: client.ConnectionOptions{GetSystemInfoTimeout: testenv.Patience},
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func startWorker(t testing.TB, c client.Client) {
	t.Helper()
	startWorkerOn(t, c, queue)
}

func startWorkerOn(t testing.TB, c client.Client, queue string) {
	pollers := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	w := worker.New(c, queue, worker.Options{
		WorkflowTaskPollerBehavior: pollers,
		ActivityTaskPollerBehavior: pollers,
	})
	w.RegisterWorkflow(greet)
	w.RegisterWorkflow(counter)
	w.RegisterActivity(hello)
	if err := w.Start(); err != nil {
		t.Errorf("start worker: %v", err)
		return
	}
	t.Cleanup(w.Stop)
}

func hello(_ context.Context, name string) (string, error) { return "hello " + name, nil }

func greet(ctx workflow.Context, name string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var out string
	err := workflow.ExecuteActivity(ctx, hello, name).Get(ctx, &out)
	return out, err
}

// counter sums updates until "done" is signalled.
func counter(ctx workflow.Context) (int, error) {
	var limit int
	err := workflow.MutableSideEffect(ctx, "limit",
		func(workflow.Context) any { return 10 },
		func(a, b any) bool { return a == b },
	).Get(&limit)
	if err != nil {
		return 0, err
	}
	total := 0
	workflow.SetCurrentDetails(ctx, "counting up to ten")
	err = workflow.SetUpdateHandler(ctx, "add", func(_ workflow.Context, n int) (int, error) {
		total = min(limit, total+n)
		return total, nil
	})
	if err != nil {
		return 0, err
	}
	workflow.GetSignalChannel(ctx, "done").Receive(ctx, nil)
	return total, nil
}

func runGreet(t testing.TB, c client.Client, opts client.StartWorkflowOptions) client.WorkflowRun {
	t.Helper()
	opts.TaskQueue = queue
	run, err := c.ExecuteWorkflow(t.Context(), opts, greet, "you")
	require.NoError(t, err)
	var out string
	require.NoError(t, run.Get(t.Context(), &out))
	require.Equal(t, "hello you", out)
	return run
}

func TestInMemoryWithUI(t *testing.T) {
	logs := &testenv.Buffer{}
	srv := startServer(t, Config{
		UIAddr:    "127.0.0.1:0",
		Namespace: "mill",

		AllowedHosts: []string{"ui.example"},
		Logger:       slog.New(slog.NewTextHandler(logs, nil)),
	})
	require.Equal(t, "mill", srv.Namespace())
	t.Run("workflow with activity", func(t *testing.T) {
		c := dial(t, srv)
		startWorker(t, c)
		runGreet(t, c, client.StartWorkflowOptions{})
	})
	t.Run("UI answers no web page that has rebound its name", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.UIURL()+"/api/v1/namespaces/mill/workflows/w/signal/post", http.NoBody)
		require.NoError(t, err)
		for host, want := range map[string]int{"evil.example": http.StatusMisdirectedRequest, "ui.example": http.StatusBadRequest} {
			req.Host = host
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, want, res.StatusCode, host)
		}
	})
	t.Run("UI answers", func(t *testing.T) {
		for path, want := range map[string]string{
			"/":                          "<html",
			"/api/v1/settings":           `"DefaultNamespace":"mill"`,
			"/api/v1/namespaces/mill":    `"name":"mill"`,
			"/namespaces/mill/workflows": "<html",
		} {
			status, body := get(t, srv.UIURL()+path)
			require.Equal(t, http.StatusOK, status, path)
			require.Contains(t, strings.ReplaceAll(body, `": "`, `":"`), want, path)
		}
	})
	srv.Stop()
	srv.Stop()
	require.Empty(t, logs.String(), "a healthy life prints no warning and no error")
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

func TestRestartOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "temporal")
	first := map[string]enumspb.IndexedValueType{"Agent": enumspb.INDEXED_VALUE_TYPE_KEYWORD}
	second := map[string]enumspb.IndexedValueType{
		"Agent": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"Cost":  enumspb.INDEXED_VALUE_TYPE_DOUBLE,
	}
	srv := startServer(t, Config{DataDir: dir, SearchAttributes: first})
	var runID string
	t.Run("before", func(t *testing.T) {
		c := dial(t, srv)
		startWorker(t, c)
		runID = runGreet(t, c, client.StartWorkflowOptions{
			ID: "kept",
			TypedSearchAttributes: temporal.NewSearchAttributes(
				temporal.NewSearchAttributeKeyKeyword("Agent").ValueSet("clerk")),
		}).GetRunID()
	})
	srv.Stop()
	requireNotOpen(t, filepath.Join(dir, databaseFile))

	srv = startServer(t, Config{DataDir: dir, SearchAttributes: second})
	c := dial(t, srv)
	seen, err := c.DescribeWorkflowExecution(t.Context(), "kept", "")
	require.NoError(t, err)
	require.Equal(t, runID, seen.WorkflowExecutionInfo.Execution.RunId)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, seen.WorkflowExecutionInfo.Status)
	requireCount(t, c, `Agent = "clerk"`, 1)

	startWorker(t, c)
	runGreet(t, c, client.StartWorkflowOptions{
		ID:                    "added",
		TypedSearchAttributes: temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyFloat64("Cost").ValueSet(1.5)),
	})
	requireCount(t, c, `Cost > 1`, 1)
}

func requireCount(t *testing.T, c client.Client, query string, want int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		got, err := c.CountWorkflow(t.Context(), countRequest(query))
		return err == nil && got.Count == want
	}, testenv.Patience, 20*time.Millisecond, query)
}

// requireNotOpen asserts that this process has not opened the file.
func requireNotOpen(t *testing.T, path string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Log("open files are listed on Linux only")
		return
	}
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err == nil {
			require.NotContains(t, target, path)
		}
	}
}

func TestSearchAttributeTypeCannotChange(t *testing.T) {
	assigned, err := assignColumns(nil, map[string]enumspb.IndexedValueType{"Agent": enumspb.INDEXED_VALUE_TYPE_KEYWORD})
	require.NoError(t, err)
	require.Len(t, assigned, 1)
	again, err := assignColumns(assigned, map[string]enumspb.IndexedValueType{"Agent": enumspb.INDEXED_VALUE_TYPE_KEYWORD})
	require.NoError(t, err)
	require.Equal(t, assigned, again)
	_, err = assignColumns(assigned, map[string]enumspb.IndexedValueType{"Agent": enumspb.INDEXED_VALUE_TYPE_INT})
	require.ErrorContains(t, err, `"Agent" exists as Keyword, not Int`)
	many := map[string]enumspb.IndexedValueType{}
	for i := range 4 {
		many[fmt.Sprintf("Flag%d", i)] = enumspb.INDEXED_VALUE_TYPE_BOOL
	}
	_, err = assignColumns(nil, many)
	require.ErrorContains(t, err, `no column of type Bool is left for "Flag3"`)
}

func TestSideBySide(t *testing.T) {
	const servers = 2
	var wg sync.WaitGroup
	started := make([]*Server, servers)
	errs := make([]error, servers)
	for i := range servers {
		wg.Go(func() { started[i], errs[i] = Start(t.Context(), Config{Addr: "127.0.0.1:0", UIAddr: "127.0.0.1:0"}) })
	}
	wg.Wait()
	for i, srv := range started {
		require.NoError(t, errs[i])
		t.Cleanup(srv.Stop)
	}
	require.NotEqual(t, started[0].Addr(), started[1].Addr())
	for i, srv := range started {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			c := dial(t, srv)
			startWorker(t, c)
			runGreet(t, c, client.StartWorkflowOptions{ID: "only"})
			requireCount(t, c, "", 1)
		})
	}
	started[0].Stop()
	c := dial(t, started[1])
	_, err := c.DescribeWorkflowExecution(t.Context(), "only", "")
	require.NoError(t, err, "the other server lives on")
}

func TestDataDirInUse(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, Config{DataDir: dir})
	_, err := Start(t.Context(), Config{Addr: "127.0.0.1:0", DataDir: dir})
	require.ErrorIs(t, err, ErrDataDirInUse)
	require.NotContains(t, err.Error(), "\n")
	srv.Stop()
	startServer(t, Config{DataDir: dir})
}

func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	addr := taken.Addr().String()
	for field, cfg := range map[string]Config{
		"Addr":   {Addr: addr},
		"UIAddr": {Addr: "127.0.0.1:0", UIAddr: addr},
	} {
		_, err := Start(t.Context(), cfg)
		var portErr *PortError
		require.ErrorAs(t, err, &portErr)
		require.Equal(t, field, portErr.Field)
		require.Equal(t, addr, portErr.Addr)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	}
}

func TestStopFreesPorts(t *testing.T) {
	srv := startServer(t, Config{UIAddr: "127.0.0.1:0"})
	ui := strings.TrimPrefix(srv.UIURL(), "http://")
	begin := time.Now()
	srv.Stop()
	t.Logf("stopped in %s", time.Since(begin).Round(time.Millisecond))
	for _, addr := range []string{srv.Addr(), ui} {
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

// TestNothingKeepsRunning checks that a stopped server leaves no goroutines that poll or write. The
// server never closes the connections between its services, which sleep in gRPC.
func TestNothingKeepsRunning(t *testing.T) {
	srv := startServer(t, Config{UIAddr: "127.0.0.1:0", DataDir: t.TempDir()})
	require.NotEmpty(t, serverGoroutines())
	srv.Stop()
	if !assert.Eventually(t, func() bool { return len(serverGoroutines()) == 0 }, testenv.Patience, 50*time.Millisecond) {
		t.Log(strings.Join(serverGoroutines(), "\n\n"))
	}
}

func serverGoroutines() []string {
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(stack, "go.temporal.io/") || strings.Contains(stack, "database/sql") || strings.Contains(stack, "labstack/echo") {
			found = append(found, stack)
		}
	}
	return found
}

func TestBadConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Addr":              {Addr: "7233"},
		"host must be":      {Addr: "example.org:7233"},
		"UIAddr":            {Addr: "127.0.0.1:0", UIAddr: "8233"},
		"Retention":         {Retention: time.Minute},
		"reserved":          {SearchAttributes: map[string]enumspb.IndexedValueType{"WorkflowId": enumspb.INDEXED_VALUE_TYPE_KEYWORD}},
		"has no valid type": {SearchAttributes: map[string]enumspb.IndexedValueType{"Agent": 0}},
	} {
		_, err := Start(t.Context(), cfg)
		require.ErrorContains(t, err, want)
	}
}
