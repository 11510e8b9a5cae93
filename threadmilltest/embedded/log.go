package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/service/history/shard"
)

// logState is shared by all loggers derived from one server's logger.
type logState struct {
	quiet atomic.Bool // set while stopping, when the server logs errors about itself
	mu    sync.Mutex
	fatal error
}

func (s *logState) setFatal(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fatal == nil {
		s.fatal = err
	}
}

func (s *logState) fatalError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fatal
}

// serverLogger lets the Temporal server log to slog. It never ends the process: a fatal error is
// kept for Start to return, and ends only its goroutine.
type serverLogger struct {
	slog  *slog.Logger
	level slog.Leveler
	state *logState
}

var _ log.WithLogger = (*serverLogger)(nil)

func newServerLogger(logger *slog.Logger, level slog.Leveler) *serverLogger {
	return &serverLogger{slog: logger, level: level, state: &logState{}}
}

func (l *serverLogger) Debug(msg string, tags ...tag.Tag)  { l.log(slog.LevelDebug, msg, tags) }
func (l *serverLogger) Info(msg string, tags ...tag.Tag)   { l.log(slog.LevelInfo, msg, tags) }
func (l *serverLogger) Warn(msg string, tags ...tag.Tag)   { l.log(slog.LevelWarn, msg, tags) }
func (l *serverLogger) Error(msg string, tags ...tag.Tag)  { l.log(slog.LevelError, msg, tags) }
func (l *serverLogger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

func (l *serverLogger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg)
}

func (l *serverLogger) Fatal(msg string, tags ...tag.Tag) {
	l.state.setFatal(fatalFrom(msg, tags))
	l.log(slog.LevelError, msg, tags)
	runtime.Goexit()
}

func (l *serverLogger) With(tags ...tag.Tag) log.Logger {
	return &serverLogger{slog: slog.New(l.slog.Handler().WithAttrs(attrs(tags))), level: l.level, state: l.state}
}

func (l *serverLogger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if level < l.level.Level() || l.state.quiet.Load() || expected(msg, tags) || !l.slog.Enabled(ctx, level) {
		return
	}
	l.slog.LogAttrs(ctx, level, msg, attrs(tags)...)
}

func attrs(tags []tag.Tag) []slog.Attr {
	out := make([]slog.Attr, 0, len(tags))
	for _, t := range tags {
		if zap, ok := t.(tag.ZapTag); ok {
			out = append(out, zapAttr(zap))
			continue
		}
		out = append(out, slog.Any(t.Key(), t.Value()))
	}
	return out
}

// zapAttr keeps only the text of an error: some handlers print errors with their stack.
func zapAttr(t tag.ZapTag) slog.Attr {
	field := t.Field()
	if err, ok := field.Interface.(error); ok {
		return slog.String(field.Key, err.Error())
	}
	return slog.Any(field.Key, t.Value())
}

func fatalFrom(msg string, tags []tag.Tag) error {
	if err := errorOf(tags); err != nil {
		return fmt.Errorf("%s: %w", msg, err)
	}
	return errors.New(msg)
}

// errorOf returns the error among the tags of a message, if there is one.
func errorOf(tags []tag.Tag) error {
	for _, t := range tags {
		zap, ok := t.(tag.ZapTag)
		if !ok {
			continue
		}
		if err, ok := zap.Field().Interface.(error); ok {
			return err
		}
	}
	return nil
}

// expected reports whether a warning is normal for an embedded server.
func expected(msg string, tags []tag.Tag) bool {
	for _, prefix := range expectedWarnings {
		if strings.HasPrefix(msg, prefix) {
			return true
		}
	}
	// The server starts its queues a moment before it may read them, and its own workers a moment before
	// its frontend; both retry. On a busy machine that moment is long enough for a warning.
	err := errorOf(tags)
	return errors.Is(err, shard.ErrShardStatusUnknown) || err != nil && strings.HasSuffix(err.Error(), notHealthyYet)
}

// notHealthyYet is what the frontend of the server says until it has started.
const notHealthyYet = "Frontend is not healthy yet"

var expectedWarnings = []string{
	"HTTP API port has not been set", // no Nexus endpoint over HTTP

	// The client hung up while it was answered: only figures of the server's own are lost.
	"unable to add metrics baggage to gRPC trailer",
}
