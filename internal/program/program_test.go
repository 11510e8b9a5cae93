package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/internal/config"
)

func TestExecute(t *testing.T) {
	mistake := &config.Error{File: "f.yaml", Line: 1, Column: 2, Problem: "is wrong", Excerpt: "abc"}
	for _, c := range []struct {
		name string
		err  error
		code int
		says string
	}{
		{"success", nil, ExitOK, ""},
		{"failure", errors.New("it\n\tbroke:\n\tbadly"), ExitFailed, "prog: it broke: badly\n"},
		{"usage", Usagef("--flag: %w", io.EOF), ExitUsage, "prog: --flag: EOF\n"},
		{"configuration", mistake, ExitUsage, "f.yaml:1:2: is wrong\n    1 | abc\n      |  ^\n"},
		{"somebody else's cancellation", context.Canceled, ExitFailed, "prog: context canceled\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stderr := &bytes.Buffer{}
			cmd := &cobra.Command{Use: "prog", RunE: func(*cobra.Command, []string) error { return c.err }}
			cmd.SetArgs([]string{})
			cmd.SetErr(stderr)
			require.Equal(t, c.code, Execute(t.Context(), cmd))
			require.Equal(t, c.says, stderr.String())
		})
	}
	t.Run("a signal before the start is done", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stderr := &bytes.Buffer{}
		cmd := &cobra.Command{Use: "prog", RunE: func(cmd *cobra.Command, _ []string) error {
			cancel()
			return cmd.Context().Err()
		}}
		cmd.SetArgs([]string{})
		cmd.SetErr(stderr)
		require.Equal(t, ExitOK, Execute(ctx, cmd))
		require.Empty(t, stderr.String())
	})
}

func get(url string) (int, error) {
	res, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

func served(t *testing.T, handler http.HandlerFunc, closeStreams func()) *HTTP {
	t.Helper()
	l, err := Listen("http", "127.0.0.1:0")
	require.NoError(t, err)
	return Serve(l, handler, closeStreams, slog.New(slog.DiscardHandler))
}

func TestDrain(t *testing.T) {
	h := served(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, func() {})
	for path, want := range map[string]int{"/readyz": http.StatusOK, "/": http.StatusOK} {
		status, err := get(h.URL() + path)
		require.NoError(t, err)
		require.Equal(t, want, status, path)
	}
	h.Drain()
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/": http.StatusOK} {
		status, err := get(h.URL() + path)
		require.NoError(t, err)
		require.Equal(t, want, status, path)
	}
	h.Stop(time.Second)
	_, err := get(h.URL())
	require.Error(t, err)
	require.Empty(t, h.Failed())
}

func TestLargeHeader(t *testing.T) {
	h := served(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, func() {})
	defer h.Stop(time.Second)
	for size, want := range map[int]int{32 << 10: http.StatusOK, 128 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL(), nil)
		require.NoError(t, err)
		req.Header.Set("X-Large", strings.Repeat("x", size))
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, size)
	}
}

func TestConnectionLimit(t *testing.T) {
	l, err := Listen("http", "127.0.0.1:0")
	require.NoError(t, err)
	h := serve(l, 2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func() {}, slog.New(slog.DiscardHandler))
	defer h.Stop(time.Second)
	answered := make(chan int, 3)
	var conns []net.Conn
	for i := range cap(answered) {
		conn, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		conns = append(conns, conn)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		go func() {
			if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				answered <- i
			}
		}()
	}
	first, second := <-answered, <-answered
	require.Empty(t, answered)
	require.NoError(t, conns[first].Close())
	require.Equal(t, 3-first-second, <-answered, "one that ends makes room")
}

func TestStop(t *testing.T) {
	for _, c := range []struct {
		name   string
		grace  time.Duration
		finish bool
	}{
		{"ends streams and waits for the rest", time.Minute, true},
		{"cuts off what takes too long", time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun, closing, cut := make(chan struct{}), make(chan struct{}), make(chan struct{})
			h := served(t, func(_ http.ResponseWriter, r *http.Request) {
				close(begun)
				<-closing
				if !c.finish {
					<-r.Context().Done()
					<-cut // otherwise it might respond in time
				}
			}, func() { close(closing) })
			answered := make(chan error, 1)
			go func() {
				_, err := get(h.URL())
				answered <- err
			}()
			<-begun
			h.Stop(c.grace)
			err := <-answered
			close(cut)
			require.Equal(t, c.finish, err == nil, err)
		})
	}
}

func TestTemporalLogger(t *testing.T) {
	retried := temporal.NewApplicationError("overloaded", "retry")
	final := temporal.NewNonRetryableApplicationError("forbidden", "no", nil)
	for _, c := range []struct {
		name, msg string
		err       error
		level     slog.Level
		want      string
	}{
		{"an attempt that failed", "Activity error.", retried, slog.LevelWarn, ""},
		{"at info level", "Activity error.", retried, slog.LevelInfo, "level=INFO"},
		{"the last attempt", "Activity error.", final, slog.LevelWarn, "level=ERROR"},
		{"another error", "Activity panic.", retried, slog.LevelWarn, "level=ERROR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := &bytes.Buffer{}
			log, err := NewLogger(out, LogText, c.level)
			require.NoError(t, err)
			TemporalLogger(log.With("a", 1)).Error(c.msg, "Error", c.err)
			if c.want == "" {
				require.Empty(t, out.String())
			}
			require.Contains(t, out.String(), c.want)
		})
	}
}

func TestLoad(t *testing.T) {
	env := map[string]string{}
	t.Chdir(t.TempDir())
	load := func() (Settings, error) {
		return Load(SettingsConfig{Workspace: "here/there", Getenv: func(name string) string { return env[name] }})
	}
	s, err := load()
	require.NoError(t, err)
	require.Contains(t, s.Models, config.Demo)
	require.DirExists(t, "here/there")
	var names []string
	for _, tl := range s.Tools {
		names = append(names, tl.Definition().Name)
	}
	require.ElementsMatch(t, s.Agents[0].Tools, names)

	env[EnvAllowedHosts] = "a.example, *.b.example"
	s, err = load()
	require.NoError(t, err)
	require.Equal(t, []string{"a.example", "*.b.example"}, s.AllowedHosts)
	env[EnvAllowedHosts] = "a.example:80"
	_, err = load()
	require.ErrorContains(t, err, EnvAllowedHosts+`: "a.example:80" is not a host name without a port`)
	delete(env, EnvAllowedHosts)

	env[config.EnvBaseURL] = "http://127.0.0.1:1/v1"
	s, err = load()
	require.NoError(t, err)
	require.Contains(t, s.Models, config.OpenAI)
}

// TestOutputIsText: output and logs of a program do not control a terminal.
func TestOutputIsText(t *testing.T) {
	const attack = "x\x1b[2J\x7f\u009b\u202e\u200b\ny"
	for format, want := range map[string]string{
		LogText: `msg="x\x1b[2J\x7f\u009b\u202e\u200b\ny" by="x\x1b[2J\x7f\u009b\u202e\u200b\ny"`,
		LogJSON: `"msg":"x\u001b[2J\u007f\u009b\u202e\u200b\ny","by":"x\u001b[2J\u007f\u009b\u202e\u200b\ny"`,
	} {
		var out, errs bytes.Buffer
		cmd := &cobra.Command{Use: "worker", RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := NewLogger(cmd.ErrOrStderr(), format, slog.LevelInfo)
			require.NoError(t, err)
			log.Info(attack, "by", attack)
			cmd.Print(attack)
			return errors.New(attack)
		}}
		cmd.SetArgs([]string{})
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		require.Equal(t, ExitFailed, Execute(t.Context(), cmd))
		require.Contains(t, errs.String(), want)
		require.Contains(t, errs.String()+out.String(), `x\u001b[2J\u007f\u009b\u202e\u200b`+"\ny")
		require.Contains(t, errs.String(), `worker: x\u001b[2J\u007f\u009b\u202e\u200b y`+"\n")
	}
}
