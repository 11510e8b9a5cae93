package server

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/store"
)

// core contains what all handlers share.
type core struct {
	access       *access
	api          huma.API
	namespace    string
	answerWithin time.Duration
	maxBody      int64
	logger       *slog.Logger
	redact       *redact.Redactor
}

// output is a response with a body.
type output[T any] struct{ Body T }

// register registers an operation for principals with the role, with the common limits and errors.
func register[I, O any](c *core, role auth.Role, op huma.Operation, handler func(context.Context, *I) (*O, error)) {
	op.MaxBodyBytes = c.maxBody + 1 // the limit itself counts as exceeded
	pattern := op.Method + " " + op.Path
	if bounded(pattern) && !slices.Contains(op.Errors, http.StatusTooManyRequests) {
		op.Errors = append(op.Errors, http.StatusTooManyRequests)
	}
	op.RejectUnknownQueryParameters = true
	secure(&op, role)
	c.access.routes[pattern] = route{role: role}
	huma.Register(c.api, op, handler)
}

func (c *core) key(threadID string) store.Key {
	return store.Key{Namespace: c.namespace, ThreadID: threadID}
}

// answer limits the time in which a thread must answer.
func (c *core) answer(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.answerWithin)
}

func (c *core) writePage(id string, page any) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", typeJSON)
		hctx.SetHeader("Vary", "Accept, Accept-Encoding")
		write := func(w io.Writer) error { return c.api.Marshal(w, typeJSON, page) }
		if strings.Contains(hctx.Header("Accept-Encoding"), "gzip") {
			hctx.SetHeader("Content-Encoding", "gzip")
			plain := write
			write = func(w io.Writer) error { return compress(w, plain) }
		}
		hctx.SetStatus(http.StatusOK)
		if err := write(hctx.BodyWriter()); err != nil {
			c.logger.Warn("writing a page failed", "thread", id, "error", err)
		}
	}}
}

// compressors are the unused [gzip.Writer] values, each of which has large tables.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return w
}}

// compress compresses what a function writes.
func compress(out io.Writer, write func(io.Writer) error) error {
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(out)
	return errors.Join(write(w), w.Close())
}

// ask sends a request to a thread, with a time limit. The error is a problem document.
func ask[T any](ctx context.Context, c *core, threadID string, request func(context.Context) (T, error)) (*output[T], error) {
	if threadID != "" {
		if err := awaitsOthers(ctx); err != nil {
			return nil, err
		}
	}
	within, cancel := c.answer(ctx)
	defer cancel()
	out, err := request(within)
	return &output[T]{out}, c.problem(ctx, threadID, err)
}

// query is [ask] for a method of the thread client without an input.
func query[T any](ctx context.Context, c *core, threadID string, method func(context.Context, string) (T, error)) (*output[T], error) {
	return ask(ctx, c, threadID, func(ctx context.Context) (T, error) { return method(ctx, threadID) })
}

// update is [ask] for a method of the thread client with an input.
func update[I, T any](ctx context.Context, c *core, threadID string, method func(context.Context, string, I) (T, error), in I) (*output[T], error) {
	return ask(ctx, c, threadID, func(ctx context.Context) (T, error) { return method(ctx, threadID, in) })
}

// nonNil returns the list, or an empty one instead of nil, which JSON encodes as null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
