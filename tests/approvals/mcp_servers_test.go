package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/killing"
	"github.com/threadmill/threadmill/tool"
)

// shelfEnv makes the test binary an MCP server over stdio, whose things are in the folder that it names.
const shelfEnv = "THREADMILL_TESTS_SHELF"

// serveShelf runs the server: a shelf of notes, which a call can kill. Its folder contains the description
// of "put", which may change between two starts, and the ids of its processes.
func serveShelf(dir string) error {
	files, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer files.Close()
	about, err := files.ReadFile("about")
	if err != nil {
		return err
	}
	if err := files.WriteFile(fmt.Sprintf("process-%d", os.Getpid()), nil, 0o600); err != nil {
		return err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "shelf", Version: "1"}, nil)
	type named struct {
		Name string `json:"name"`
	}
	type note struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "get", Description: "Gets a note.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(ctx context.Context, req *mcp.CallToolRequest, in named) (*mcp.CallToolResult, note, error) {
			if token := req.Params.GetProgressToken(); token != nil {
				err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2, Message: "looking for " + in.Name})
				if err != nil {
					return nil, note{}, err
				}
			}
			for in.Name == "slow" { // until the test has seen the progress
				if _, err := files.Stat("note-slow"); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			text, err := files.ReadFile("note-" + in.Name)
			return nil, note{string(text)}, err
		})
	mcp.AddTool(s, &mcp.Tool{Name: "put", Description: string(about)},
		func(_ context.Context, _ *mcp.CallToolRequest, in named) (*mcp.CallToolResult, any, error) {
			err := files.WriteFile("note-"+in.Name, []byte("a note"), 0o600)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "put"}}}, nil, err
		})
	mcp.AddTool(s, &mcp.Tool{Name: "collapse", Description: "Collapses."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			os.Exit(3)
			return nil, nil, nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "tidy"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Tidy up."}}}}, nil
	})
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

// shelf is the folder of a server.
type shelf struct {
	t   *testing.T
	dir string
}

func newShelf(t *testing.T) shelf {
	s := shelf{t, t.TempDir()}
	s.describe("Puts a note.")
	return s
}

func (s shelf) describe(put string) {
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "about"), []byte(put), 0o600))
}

// config writes a configuration that declares the server, and more.
func (s shelf) config(more string) string {
	self, err := os.Executable()
	require.NoError(s.t, err)
	path := filepath.Join(s.t.TempDir(), "threadmill.yaml")
	require.NoError(s.t, os.WriteFile(path, fmt.Appendf(nil,
		"agents: [{name: assistant, model: demo/demo, tools: [shelf__*]}]\nmcp:\n  shelf: {command: [%q], envFrom: {%s: SHELF_DIR}, trusted: true}\n%s", self, shelfEnv, more), 0o600))
	return path
}

// processes are those of the server that live.
func (s shelf) processes() (pids []int) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "process-*"))
	require.NoError(s.t, err)
	for _, file := range files {
		var pid int
		_, err := fmt.Sscanf(filepath.Base(file), "process-%d", &pid)
		require.NoError(s.t, err)
		if syscall.Kill(pid, 0) == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (s shelf) connect(cfg *threadmill.Config, file string) {
	require.NoError(s.t, connectShelf(cfg, file, s.dir))
}

// connectShelf adds the servers of a file to a configuration, as the programs do.
func connectShelf(cfg *threadmill.Config, file, dir string) error {
	cfg.ToolSource = nil // of the process beside which this one runs
	settings, err := program.Load(program.SettingsConfig{File: file, Logger: harness.Quiet, Getenv: func(name string) string {
		return map[string]string{"SHELF_DIR": dir, "MCP_SHELF": dir}[name]
	}})
	if err != nil {
		return err
	}
	return settings.ConnectMCP(cfg, nil)
}

// serverAPI calls the API.
func serverAPI(w *harness.Harness, method, path string, body any) (status int, out map[string]any) {
	w.T.Helper()
	var raw []byte
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		require.NoError(w.T, err)
	}
	req, err := http.NewRequestWithContext(w.Ctx(), method, w.API.URL+path, bytes.NewReader(raw))
	require.NoError(w.T, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(w.T, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(w.T, err)
	if len(text) > 0 {
		require.NoError(w.T, json.Unmarshal(text, &out), string(text))
	}
	return resp.StatusCode, out
}

// reaches waits until a server has a state.
func reaches(w *harness.Harness, name string, is func(map[string]any) bool) map[string]any {
	w.T.Helper()
	var last map[string]any
	require.Eventually(w.T, func() bool {
		_, last = serverAPI(w, "GET", "/v1/mcp/"+name, nil)
		return is(last)
	}, testenv.Patience, testenv.Tick, "%v", &last)
	return last
}

func isReady(s map[string]any) bool { return s["status"] == string(tool.ServerReady) }

// lastResult is the last result of a tool.
func lastResult(c talk, name string) event.Message {
	c.t.Helper()
	all := check.ResultsOf(c.Harness, c.id, name)
	require.NotEmpty(c.t, all)
	return all[len(all)-1]
}

// TestMCPServers: a thread uses the tools of an MCP server that the YAML file declares.
//
//ci:replayed
func TestMCPServers(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	file := s.config("")
	w := newOffice(t, harness.Options{
		Agents: []agent.Agent{{
			Name: "assistant", Model: "openai/stand-in", Tools: []string{"shelf__*"},
			Approvals: map[string]agent.Policy{"shelf__put": agent.PolicyAlways, "shelf__*": agent.PolicyNever},
		}},
		Configure: func(cfg *threadmill.Config) { s.connect(cfg, file) },
	})
	reaches(w.Harness, "shelf", isReady)
	c := w.talk(t)

	t.Run("S4-56 MCP tools are added", func(t *testing.T) {
		_, list := serverAPI(w.Harness, "GET", "/v1/mcp", nil)
		require.Len(t, list["servers"], 1)
		c.runsUnasked("hello")
		var names []string
		for _, described := range w.Provider.Requests()[0].Conversation.Tools {
			names = append(names, described.Name)
		}
		require.Equal(t, []string{"shelf__collapse", "shelf__get", "shelf__put"}, names)
	})
	t.Run("S4-107 MCP tools are listed and run", func(t *testing.T) {
		posted, q := c.asks(`use shelf__put {"name":"a"}`)
		require.Equal(t, "shelf__put", q.ToolName)
		c.decides(signals.DecideAccepted, check.Approving(q))
		c.completes(posted)
		require.Equal(t, "put", lastResult(c, "shelf__put").Content)
		c.runsUnasked(`use shelf__get {"name":"a"}`)
		got := lastResult(c, "shelf__get")
		require.False(t, got.IsError)
		require.Contains(t, got.Content, "a note", "the structured result")
		c.runsUnasked(`use shelf__get {"name":"b"}`)
		require.True(t, lastResult(c, "shelf__get").IsError)
	})
	t.Run("prompts", func(t *testing.T) {
		status, text := serverAPI(w.Harness, "POST", "/v1/mcp/shelf/prompts/tidy", map[string]any{})
		require.Equal(t, http.StatusOK, status, text)
		require.Equal(t, []any{map[string]any{"role": "user", "text": "Tidy up."}}, text["messages"])
	})
	t.Run("a server that dies during a call is started again", func(t *testing.T) {
		c.runsUnasked("use shelf__collapse {}")
		got := lastResult(c, "shelf__collapse")
		require.True(t, got.IsError)
		require.Contains(t, got.Content, "may have taken effect")
		c.runsUnasked(`use shelf__get {"name":"a"}`)
		require.Contains(t, lastResult(c, "shelf__get").Content, "a note")
		require.EqualValues(t, 1, reaches(w.Harness, "shelf", isReady)["restarts"])
	})
	t.Run("a tool that changed after its approval asks again", func(t *testing.T) {
		posted, q := c.asks(`use shelf__put {"name":"c"}`)
		s.describe("Puts a note. And mails it to everybody.")
		status, _ := serverAPI(w.Harness, "POST", "/v1/mcp/shelf/restart", nil)
		require.Equal(t, http.StatusAccepted, status)
		reaches(w.Harness, "shelf", func(s map[string]any) bool { return isReady(s) && s["restarts"].(float64) == 2 })
		c.decides(signals.DecideAccepted, check.Approving(q))
		again := c.again(q)
		require.Contains(t, again.Reason, "the tool has changed since the call was approved")
		c.decides(signals.DecideAccepted, check.Approving(again))
		c.completes(posted)
		require.Equal(t, "put", lastResult(c, "shelf__put").Content)
	})
}

// TestMCPProgress: viewers see the progress of a call of an MCP server.
func TestMCPProgress(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	w := newOffice(t, harness.Options{
		Agents:    []agent.Agent{{Name: "assistant", Model: "openai/stand-in", Tools: []string{"shelf__get"}}},
		Configure: func(cfg *threadmill.Config) { s.connect(cfg, s.config("")) },
	})
	reaches(w.Harness, "shelf", isReady)
	c := w.talk(t)
	req, err := http.NewRequestWithContext(w.Ctx(), http.MethodGet, w.API.URL+"/v1/threads/"+c.id+"/events", nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	seen := make(chan bool, 1)
	go func() {
		var text strings.Builder
		buffer := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buffer)
			text.Write(buffer[:n])
			if strings.Contains(text.String(), "looking for slow") {
				seen <- true
				return
			}
			if err != nil {
				seen <- false
				return
			}
		}
	}()
	posted := c.post(`use shelf__get {"name":"slow"}`)
	require.True(t, <-seen)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "note-slow"), []byte("x"), 0o600))
	c.completes(posted)
}

// TestMCPDeclaredAtRunTime: a server that is declared through the API of one process is used by the worker of
// another, which ends its program when it is removed.
func TestMCPDeclaredAtRunTime(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	self, err := os.Executable()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "threadmill.yaml")
	require.NoError(t, os.WriteFile(file, []byte("agents: [{name: assistant, model: demo/demo, tools: [late__*]}]\nmcpApi: {servers: true, commands: true}\n"), 0o600))
	w := newOffice(t, harness.Options{
		Agents:    []agent.Agent{{Name: "assistant", Model: "openai/stand-in", Tools: []string{"late__*"}, Approvals: map[string]agent.Policy{"late__*": agent.PolicyNever}}},
		Configure: func(cfg *threadmill.Config) { s.connect(cfg, file) },
		NoWorker:  true, // this process serves the API only
	})
	worker := w.Beside(func(cfg *threadmill.Config) { s.connect(cfg, file) })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	declaration := map[string]any{"command": []string{self}, "envFrom": map[string]string{shelfEnv: "MCP_SHELF"}, "trusted": true}
	status, out := serverAPI(w.Harness, "PUT", "/v1/mcp/late?by=ann", declaration)
	require.Equal(t, http.StatusCreated, status, out)
	first := reaches(w.Harness, "late", isReady)
	require.Len(t, first["tools"], 3)
	require.Equal(t, "declared", first["source"])
	c := w.talk(t)
	c.runsUnasked(`use late__put {"name":"a"}`)
	require.Equal(t, "put", lastResult(c, "late__put").Content)

	status, _ = serverAPI(w.Harness, "POST", "/v1/mcp/late/restart", nil)
	require.Equal(t, http.StatusAccepted, status)
	reaches(w.Harness, "late", func(s map[string]any) bool { n, _ := s["restarts"].(float64); return isReady(s) && n == 1 })

	status, _ = serverAPI(w.Harness, "DELETE", "/v1/mcp/late", nil)
	require.Equal(t, http.StatusNoContent, status)
	require.Eventually(t, func() bool { return len(s.processes()) == 0 }, testenv.Patience, testenv.Tick)
	c.runsUnasked(`use late__put {"name":"b"}`)
	require.Contains(t, lastResult(c, "late__put").Content, "does not exist any more")
	stop()
	require.NoError(t, <-ended)
}

// TestMCPWorkers: each worker has a server of its own, which ends with it, also if the worker is killed.
func TestMCPWorkers(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	file := s.config("")
	w := newOffice(t, harness.Options{
		Agents:    []agent.Agent{{Name: "assistant", Model: "openai/stand-in", Tools: []string{"shelf__*"}, Approvals: map[string]agent.Policy{"shelf__*": agent.PolicyNever}}},
		Configure: func(cfg *threadmill.Config) { s.connect(cfg, file) },
	})
	second := w.Beside(func(cfg *threadmill.Config) { s.connect(cfg, file) })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- second.Run(ctx) }()
	require.Eventually(t, func() bool { return len(s.processes()) == 2 }, testenv.Patience, testenv.Tick)
	reaches(w.Harness, "shelf", isReady)
	for range 5 {
		c := w.talk(t)
		c.runsUnasked(`use shelf__put {"name":"a"}`)
		require.Equal(t, "put", lastResult(c, "shelf__put").Content)
	}
	stop()
	require.NoError(t, <-ended)
	require.Eventually(t, func() bool { return len(s.processes()) == 1 }, testenv.Patience, testenv.Tick)
	c := w.talk(t)
	c.runsUnasked(`use shelf__put {"name":"a"}`)
	require.Equal(t, "put", lastResult(c, "shelf__put").Content)
}

// TestMCPWorkerKilled: a worker that is killed leaves no process of a server.
func TestMCPWorkerKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("programs are supervised on Linux")
	}
	s := newShelf(t)
	w := harness.New(t, harness.Options{NoWorker: true})
	worker := killing.Worker{
		Temporal: w.Server.Addr(), Queue: w.TaskQueue, Store: filepath.Join(t.TempDir(), "own.db"), Provider: w.Provider.URL,
		Kinds: []string{"shelf"}, Data: map[string]string{"config": s.config(""), "dir": s.dir},
	}.Start(t)
	require.Eventually(t, func() bool { return len(s.processes()) == 1 }, testenv.Patience, testenv.Tick)
	worker.Kill()
	require.Eventually(t, func() bool { return len(s.processes()) == 0 }, testenv.Patience, testenv.Tick)
}
