// Package redactlog redacts the log of a program: see [redact.Redactor]. The runtime redacts the log of its Config by itself; this
// is for other loggers, such as that of a Temporal client.
package redactlog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"github.com/threadmill/threadmill/redact"
)

// New returns a logger that redacts messages and attributes. Without a redactor, it is the same logger. Attributes with ids ("thread", "event", "agent",
// "toolCall", "traceId") remain as they are.
func New(r *redact.Redactor, l *slog.Logger) *slog.Logger {
	if r == nil || l == nil {
		return l
	}
	return slog.New(handler{l.Handler(), r})
}

type handler struct {
	next slog.Handler
	r    *redact.Redactor
}

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h handler) Handle(ctx context.Context, record slog.Record) error {
	out := slog.NewRecord(record.Time, record.Level, h.r.Text(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return handler{h.next.WithAttrs(clean), h.r}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.next.WithGroup(name), h.r} }

// ids are the keys of attributes that have ids.
var ids = []string{"thread", "event", "agent", "toolCall", "traceId"}

func (h handler) attr(a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindString && slices.Contains(ids, a.Key) {
		return a
	}
	v := a.Value.Resolve()
	switch v.Kind() { //nolint:exhaustive // the others are times and booleans
	case slog.KindGroup:
		group := slices.Clone(v.Group())
		for i := range group {
			group[i] = h.attr(group[i])
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindString, slog.KindFloat64, slog.KindInt64, slog.KindUint64, slog.KindAny:
		// A value of another type remains as it is unless its text has something to redact.
		text := fmt.Sprintf("%+v", v.Any())
		if raw, ok := v.Any().([]byte); ok {
			text = string(raw)
		}
		if clean := h.r.Text(text); clean != text {
			return slog.String(a.Key, clean)
		}
		// Handlers that write JSON follow pointers.
		if raw, err := json.Marshal(v.Any()); err == nil && v.Kind() != slog.KindString {
			if clean := h.r.JSON(raw); !bytes.Equal(clean, raw) {
				return slog.String(a.Key, string(clean))
			}
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}
