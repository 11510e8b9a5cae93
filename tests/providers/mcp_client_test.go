package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/mcp"
)

// mcpClientEnv makes the test binary the client program that the conformance suite tests.
const mcpClientEnv = "THREADMILL_TESTS_MCP_CLIENT"

// suitePatience ends a client that gets nowhere, as it should in some scenarios, before the suite does after 30 seconds.
const suitePatience = 20 * time.Second

// runMCPClient calls all tools of a server, and accepts what they ask with the defaults.
func runMCPClient(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), suitePatience)
	defer cancel()
	server := mcp.Server{Name: "suite", URL: url, Trusted: true}
	logins, err := newSuiteLogins(ctx, &server)
	if err != nil {
		return err
	}
	cfg := mcp.Config{Servers: []mcp.Server{server}, Logger: harness.Quiet}
	if logins != nil {
		cfg.Logins = logins.logins
	}
	m, err := mcp.New(cfg)
	if err != nil {
		return err
	}
	if logins != nil {
		logins.serve(m)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Run(ctx) // the state of the server says what is wrong
	}()
	defer func() {
		cancel()
		<-done
	}()
	if err := awaitSuite(ctx, m, logins); err != nil {
		return err
	}
	for _, t := range m.Tools(ctx, "default", []string{"suite__*"}) {
		arguments := "{}"
		if strings.Contains(t.Definition().Name, "add_numbers") {
			arguments = `{"a":5,"b":3}`
		}
		if res, err := mcpAnswer(ctx, t, arguments, logins); err != nil || res.IsError {
			return fmt.Errorf("%s: %+v %w", t.Definition().Name, res, err)
		}
	}
	return nil
}

// awaitSuite waits until the server is ready, and logs in if necessary.
func awaitSuite(ctx context.Context, m *mcp.Manager, logins *suiteLogins) error {
	var asked time.Time // when the state began that was answered with a login
	for {
		states, err := m.States(ctx, "default")
		if err != nil {
			return err
		}
		switch {
		case len(states) == 1 && states[0].Status == tool.ServerReady:
			return nil
		case len(states) == 1 && states[0].Status == tool.ServerNeedsLogin && !states[0].Since.Equal(asked):
			asked = states[0].Since
			if err := logins.login(ctx, "default", "suite"); err != nil {
				return fmt.Errorf("%w: %s", err, states[0].Error)
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("not ready: %+v", states)
		}
	}
}

// mcpAnswer calls a tool, logs in if necessary, and accepts what it asks with empty values.
func mcpAnswer(ctx context.Context, t tool.Tool, arguments string, logins *suiteLogins, values ...string) (tool.Result, error) {
	call := tool.Call{ID: "c1", Arguments: arguments, Namespace: "default", OnProgress: func(any) {}}
	for {
		res, err := t.Call(ctx, call)
		need, asks := errors.AsType[*tool.InputRequired](err)
		if !asks {
			return res, err
		}
		call.Input = &tool.Input{State: need.State, Answers: map[string]event.InputAnswer{}}
		for _, q := range need.Questions {
			a := event.InputAnswer{Action: event.InputAccept}
			if q.Login != nil {
				if err := logins.login(ctx, call.Namespace, q.Login.Server); err != nil {
					return res, err
				}
			}
			if q.Kind == event.InputForm {
				a.Content = json.RawMessage("{}")
				if len(values) > 0 {
					a.Content, values = json.RawMessage(values[0]), values[1:]
				}
				if err := tool.CheckAnswer(q, a); err != nil {
					return res, err
				}
			}
			call.Input.Answers[q.ID] = a
		}
	}
}

// TestMCPClientConformance runs the scenarios of @modelcontextprotocol/conformance for clients that need no
// login. One check expects the answer to a question within the call that asks; here a person answers later, and
// the call is made again.
func TestMCPClientConformance(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for scenario, passed := range map[string]string{"initialize": "1/1", "tools_call": "1/1", "elicitation-sep1034-client-defaults": "5/6", "sse-retry": "3/3"} {
		t.Run(scenario, func(t *testing.T) {
			cmd := testenv.Node(t, mcpConformance,
				"client", "--command", self, "--scenario", scenario, "--output-dir", t.TempDir())
			cmd.Env = append(os.Environ(), mcpClientEnv+"=yes")
			out, _ := cmd.CombinedOutput()
			require.Contains(t, string(out), "Passed: "+passed+", ")
		})
	}
}

// mcpManager connects to servers until the end of the test.
func mcpManager(t *testing.T, servers ...mcp.Server) *mcp.Manager {
	t.Helper()
	for i := range servers {
		servers[i].Trusted = true
	}
	m, err := mcp.New(mcp.Config{Servers: servers, Logger: harness.Quiet})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return m
}

// mcpState waits for a state of a server.
func mcpState(t *testing.T, m *mcp.Manager, name string, is func(mcp.State) bool) mcp.State {
	t.Helper()
	var last mcp.State
	require.Eventually(t, func() bool {
		states, err := m.States(t.Context(), "default")
		require.NoError(t, err)
		i := slices.IndexFunc(states, func(s mcp.State) bool { return s.Name == name })
		last = states[i]
		return is(last)
	}, testenv.Patience, 10*time.Millisecond, "%s: %+v", name, &last)
	return last
}

func mcpReady(t *testing.T, m *mcp.Manager, name string) mcp.State {
	t.Helper()
	return mcpState(t, m, name, func(s mcp.State) bool { return s.Status == tool.ServerReady })
}

func mcpTool(t *testing.T, m *mcp.Manager, name string) tool.Tool {
	t.Helper()
	found := m.Tools(t.Context(), "default", []string{name})
	require.Len(t, found, 1, name)
	return found[0]
}

// mcpText calls a tool and returns its output.
func mcpText(t *testing.T, m *mcp.Manager, name, arguments string, values ...string) string {
	t.Helper()
	res, err := mcpAnswer(t.Context(), mcpTool(t, m, name), arguments, nil, values...)
	require.NoError(t, err, name)
	require.False(t, res.IsError, res.Output)
	return res.Output
}

// npmServer is the command of an MCP server of npm.
func npmServer(t *testing.T, name string, args ...string) []string {
	t.Helper()
	cmd := testenv.Node(t, filepath.Join("node_modules", "@modelcontextprotocol", name, "dist", "index.js"), args...)
	cmd.Args[1] = testenv.NPM(t, "@modelcontextprotocol/"+name+"/dist/index.js")
	return append([]string{cmd.Path}, cmd.Args[1:]...)
}

// remoteServer is a server over HTTP in a process of its own, which can be killed and started again.
type remoteServer struct {
	t    *testing.T
	argv []string
	env  []string
	port string
	cmd  *exec.Cmd
}

func newRemoteServer(t *testing.T, argv func(port string) []string, env func(port string) []string) *remoteServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	r := &remoteServer{t: t, argv: argv(port), port: port}
	if env != nil {
		r.env = env(port)
	}
	r.start()
	t.Cleanup(r.kill)
	return r
}

func (r *remoteServer) start() {
	r.t.Helper()
	r.cmd = exec.Command(r.argv[0], r.argv[1:]...)
	r.cmd.Env = append(os.Environ(), r.env...)
	require.NoError(r.t, r.cmd.Start())
}

func (r *remoteServer) kill() {
	_ = r.cmd.Process.Signal(syscall.SIGKILL)
	_ = r.cmd.Wait()
}

// TestMCPEverything uses all that npm's server-everything offers, over both transports, and kills it during
// calls.
func TestMCPEverything(t *testing.T) {
	t.Parallel()
	command := npmServer(t, "server-everything")
	remote := newRemoteServer(t, func(string) []string { return append(slices.Clone(command), "streamableHttp") }, func(port string) []string { return []string{"PORT=" + port} })
	m := mcpManager(t, mcp.Server{Name: "local", Command: command}, mcp.Server{Name: "remote", URL: "http://127.0.0.1:" + remote.port + "/mcp"})
	for _, name := range []string{"local", "remote"} {
		t.Run(name, func(t *testing.T) {
			s := mcpReady(t, m, name)
			require.Less(t, s.ProtocolVersion, "2026")
			require.Empty(t, s.Problems)
			require.Positive(t, s.Resources)
			require.Positive(t, s.Prompts)
			require.NotEmpty(t, s.Instructions)
			p := name + "__"
			require.Equal(t, "Echo: hi", mcpText(t, m, p+"echo", `{"message":"hi"}`))
			require.Equal(t, "The sum of 2 and 3 is 5.", mcpText(t, m, p+"get-sum", `{"a":2,"b":3}`))
			require.Contains(t, mcpText(t, m, p+"get-tiny-image", `{}`), "[image (image/png), ")
			require.Contains(t, mcpText(t, m, p+"get-resource-links", `{"count":2}`), "[link to a resource: ")
			require.Contains(t, mcpText(t, m, p+"get-structured-content", `{"location":"New York"}`), "temperature")
			require.Contains(t, mcpText(t, m, p+"trigger-elicitation-request", `{}`, `{"name":"Ann","check":true}`), "Ann")
			list := mcpText(t, m, p+"list_resources", `{}`)
			var found struct{ Resources []mcp.Resource }
			require.NoError(t, json.Unmarshal([]byte(list), &found))
			require.NotEmpty(t, found.Resources)
			require.Contains(t, mcpText(t, m, p+"read_resource", fmt.Sprintf(`{"uri":%q}`, found.Resources[0].URI)), "[resource ")
			prompts, err := m.Prompts(t.Context(), "default", name)
			require.NoError(t, err)
			require.NotEmpty(t, prompts)
			text, err := m.Prompt(t.Context(), "default", name, "args-prompt", map[string]string{"city": "Oslo"})
			require.NoError(t, err)
			require.Contains(t, text.Messages[0].Text, "Oslo")

			// Killed in the middle of a call.
			progress, failed := make(chan any, 100), make(chan error, 1)
			long := mcpTool(t, m, p+"trigger-long-running-operation")
			go func() {
				_, err := long.Call(t.Context(), tool.Call{ID: "c1", Arguments: `{"duration":3600,"steps":36000}`, OnProgress: func(data any) {
					select {
					case progress <- data:
					default:
					}
				}})
				failed <- err
			}()
			require.NotZero(t, (<-progress).(mcp.Progress).Total)
			if name == "remote" {
				remote.kill()
			} else {
				killChild(t, "server-everything")
			}
			err = <-failed
			require.ErrorContains(t, err, fmt.Sprintf("%strigger-long-running-operation of the MCP server %q: ", p, name))
			require.ErrorContains(t, err, "The tool changes nothing.")
			require.True(t, tool.IsRetryable(err))
			if name == "remote" {
				remote.start()
			}
			mcpState(t, m, name, func(s mcp.State) bool { return s.Status == tool.ServerReady && s.Restarts > 0 || name == "remote" })
			require.Eventually(t, func() bool {
				res, err := mcpAnswer(t.Context(), mcpTool(t, m, p+"echo"), `{"message":"again"}`, nil)
				return err == nil && res.Output == "Echo: again"
			}, testenv.Patience, 50*time.Millisecond)
		})
	}
}

// killChild kills the programs below this process whose command line contains a text.
func killChild(t *testing.T, text string) {
	t.Helper()
	parents, names := map[int]int{}, map[int]string{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	if len(stats) == 0 {
		t.Skip("there is no /proc")
	}
	for _, path := range stats {
		var pid, parent int
		var state string
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(raw[strings.LastIndexByte(string(raw), ')'):]), " ")
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
			continue
		}
		_, _ = fmt.Sscan(filepath.Base(filepath.Dir(path)), &pid)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		parents[pid], names[pid] = parent, string(line)
	}
	for pid, name := range names {
		// Not the supervisor, and not a server that the test itself has started.
		if !strings.Contains(name, text) || strings.Contains(name, "supervisor") || strings.Contains(name, "streamableHttp") {
			continue
		}
		for above := parents[pid]; above > 1; above = parents[above] {
			if above == os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
}

// TestMCPFilesAndMemory uses npm's servers for files and for a graph of knowledge.
func TestMCPFilesAndMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "note.txt"), []byte("remember \x1b[2J"), 0o600))
	m := mcpManager(t,
		mcp.Server{Name: "files", Command: npmServer(t, "server-filesystem", dir)},
		mcp.Server{Name: "memory", Command: npmServer(t, "server-memory"), Env: map[string]mcp.Secret{"MEMORY_FILE_PATH": mcp.Secret(filepath.Join(dir, "memory.json"))}},
	)
	require.Empty(t, mcpReady(t, m, "files").Problems)
	require.Empty(t, mcpReady(t, m, "memory").Problems)
	note := fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "note.txt"))
	require.Equal(t, `remember \u001b[2J`, mcpText(t, m, "files__read_text_file", note))
	require.Contains(t, mcpText(t, m, "files__list_directory", fmt.Sprintf(`{"path":%q}`, dir)), "note.txt")
	require.False(t, mcpTool(t, m, "files__read_text_file").Definition().NeedsApproval)
	require.True(t, mcpTool(t, m, "files__write_file").Definition().NeedsApproval)
	outside, err := mcpTool(t, m, "files__read_text_file").Call(t.Context(), tool.Call{ID: "c1", Arguments: `{"path":"/etc/passwd"}`})
	require.NoError(t, err)
	require.True(t, outside.IsError)
	mcpText(t, m, "memory__create_entities", `{"entities":[{"name":"Ann","entityType":"person","observations":["likes tea"]}]}`)
	require.Contains(t, mcpText(t, m, "memory__search_nodes", `{"query":"tea"}`), "Ann")
}

// TestMCPGoEverything uses the server of the Go SDK that speaks the new protocol, over both transports.
func TestMCPGoEverything(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "everything")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput()
	require.NoError(t, err, string(out))
	remote := newRemoteServer(t, func(port string) []string { return []string{binary, "-http", "127.0.0.1:" + port} }, nil)
	m := mcpManager(t, mcp.Server{Name: "local", Command: []string{binary}}, mcp.Server{Name: "remote", URL: "http://127.0.0.1:" + remote.port + "/mcp"})
	for _, name := range []string{"local", "remote"} {
		t.Run(name, func(t *testing.T) {
			s := mcpReady(t, m, name)
			require.Equal(t, "2026-07-28", s.ProtocolVersion)
			require.Empty(t, s.Problems)
			p := name + "__"
			require.NotEmpty(t, mcpText(t, m, p+"test_simple_text", `{}`))
			require.Contains(t, mcpText(t, m, p+"test_image_content", `{}`), "[image (image/png), ")
			require.Contains(t, mcpText(t, m, p+"test_multiple_content_types", `{}`), "[resource ")
			require.Contains(t, mcpText(t, m, p+"read_resource", `{"uri":"test://static-text"}`), "[resource test://static-text")
			for _, asks := range []string{"elicitation", "request_state", "multi_round"} {
				require.NotEmpty(t, mcpText(t, m, p+"test_input_required_result_"+asks, `{}`, mcpGoValues...), asks)
			}
			_, err := mcpAnswer(t.Context(), mcpTool(t, m, p+"test_input_required_result_sampling"), `{}`, nil)
			require.ErrorContains(t, err, "the server asks for something other than a person's input")
			failed, err := mcpTool(t, m, p+"test_error_handling").Call(t.Context(), tool.Call{ID: "c1", Arguments: `{}`})
			require.NoError(t, err)
			require.True(t, failed.IsError)
		})
	}
}

var mcpGoValues = []string{`{"name":"Ann","confirm":true,"ok":true,"color":"red","step1":"a","step2":"b"}`, `{"name":"Ann","color":"red","confirm":true}`, `{"name":"Ann","color":"red","confirm":true}`}
