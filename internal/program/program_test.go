package program

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

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
	require.ElementsMatch(t, s.File.Agents[0].Tools, names)

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
