package program

import (
	"context"
	"errors"
	"io"
	"log/slog"

	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

// Formats of logs.
const (
	LogText = "text"
	LogJSON = "json"
)

// NewLogger logs to w from level on.
func NewLogger(w io.Writer, format string, level slog.Level) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case LogText:
		return slog.New(slog.NewTextHandler(w, options)), nil
	case LogJSON:
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, Usagef("--log-format: %q is neither %s nor %s", format, LogText, LogJSON)
}

// TemporalLogger returns a logger for Temporal clients and workers that logs to log.
func TemporalLogger(log *slog.Logger) sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(&calm{log.Handler()}))
}

// calm lowers to info the errors of attempts that Temporal retries: of steps that failed, or that a
// stopping worker left to another.
type calm struct{ slog.Handler }

// Handle implements [slog.Handler].
func (c *calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "Activity error." && triedAgain(r) {
		if !c.Enabled(ctx, slog.LevelInfo) {
			return nil
		}
		r.Level = slog.LevelInfo
	}
	return c.Handler.Handle(ctx, r)
}

func triedAgain(r slog.Record) (again bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		var application *temporal.ApplicationError
		again = ok && errors.As(err, &application) && !application.NonRetryable()
		return !again
	})
	return again
}

// WithAttrs implements [slog.Handler].
func (c *calm) WithAttrs(attrs []slog.Attr) slog.Handler { return &calm{c.Handler.WithAttrs(attrs)} }

// WithGroup implements [slog.Handler].
func (c *calm) WithGroup(name string) slog.Handler { return &calm{c.Handler.WithGroup(name)} }
