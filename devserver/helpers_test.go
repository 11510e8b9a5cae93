package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/internal/testenv"
)

// anyPort are flags for a server on free ports.
var anyPort = []string{"--http", "127.0.0.1:0", "--temporal", "127.0.0.1:0", "--ui", "127.0.0.1:0"}

// clean removes variables that would change the configuration, and changes to an empty folder.
func clean(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		config.EnvAPIKey, config.EnvBaseURL, config.EnvModel, program.EnvDatabaseURL, program.EnvNATSURL, program.EnvAPIKeys,
	} {
		t.Setenv(name, "")
	}
	t.Chdir(t.TempDir())
}

// execute runs the program in this process until it or ctx ends.
func execute(ctx context.Context, out, errs io.Writer, args ...string) int {
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	return program.Execute(ctx, cmd)
}

// running is a devserver that is ready.
type running struct {
	t      *testing.T
	block  string
	api    string
	stderr *testenv.Buffer

	// end ends it; code is its exit code once exited is closed.
	end    func()
	code   int
	exited chan struct{}
}

// start starts a devserver in this process.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, stderr: &testenv.Buffer{}, end: cancel, exited: make(chan struct{})}
	out, w := io.Pipe()
	go func() {
		defer close(r.exited)
		r.code = execute(ctx, w, r.stderr, slices.Concat(anyPort, args)...)
		_ = w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-r.exited
	})
	r.awaitReady(out)
	return r
}

// awaitReady reads the start message to its last line.
func (r *running) awaitReady(out io.Reader) {
	r.t.Helper()
	begin := time.Now()
	ready := make(chan string, 1)
	go func() {
		var block strings.Builder
		lines := bufio.NewScanner(out)
		said := false
		for lines.Scan() {
			block.WriteString(lines.Text() + "\n")
			if !said && strings.HasPrefix(lines.Text(), "Talk to it:") {
				said = true
				ready <- block.String()
			}
		}
		if !said {
			close(ready)
		}
	}()
	select {
	case r.block = <-ready:
	case <-time.After(testenv.Patience):
	}
	require.NotEmpty(r.t, r.block, "never ready: %s", r.stderr)
	r.t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	r.api = r.row("API")
}

// row is a value of the start message.
func (r *running) row(name string) string {
	r.t.Helper()
	for line := range strings.Lines(r.block) {
		if value, ok := strings.CutPrefix(line, "  "+name+"  "); ok {
			return strings.TrimSpace(value)
		}
	}
	require.Failf(r.t, "no such row", "%s in\n%s", name, r.block)
	return ""
}

// awaitExit waits for the end, and returns the exit code.
func (r *running) awaitExit() int {
	r.t.Helper()
	begin := time.Now()
	select {
	case <-r.exited:
		r.t.Logf("stopped after %s", time.Since(begin).Round(time.Millisecond))
	case <-time.After(testenv.Patience):
		require.Failf(r.t, "does not stop", "within %s: %s", testenv.Patience, r.stderr)
	}
	return r.code
}

// stop stops a devserver in this process, like a signal.
func (r *running) stop() int {
	r.t.Helper()
	r.end()
	return r.awaitExit()
}

func (r *running) do(method, path, body string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.api+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(r.t, err)
	return res.StatusCode, string(data)
}

// contents returns the messages of a thread.
func (r *running) contents(thread string) []string {
	r.t.Helper()
	status, body := r.do(http.MethodGet, "/v1/threads/"+thread+"/messages", "")
	require.Equal(r.t, http.StatusOK, status, body)
	var page struct{ Messages []struct{ Content string } }
	require.NoError(r.t, json.Unmarshal([]byte(body), &page))
	list := []string{}
	for _, m := range page.Messages {
		list = append(list, m.Content)
	}
	return list
}

// watch opens a thread's event stream.
func (r *running) watch(thread string) *bufio.Scanner {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), testenv.Patience)
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.api+"/v1/threads/"+thread+"/events", nil)
	require.NoError(r.t, err)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(r.t, http.StatusOK, res.StatusCode)
	return bufio.NewScanner(res.Body)
}
