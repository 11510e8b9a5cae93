package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/semaphore"

	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/llm"
)

const (
	// contextBytes bounds the conversation that a model call is sent, as [transcript.Window].Bytes: two million tokens, the largest windows of
	// models, have about as many.
	contextBytes = 8 << 20

	// smallContext is the size of most contexts. A call reads a larger one when it has a large share of the memory.
	smallContext = 256 << 10

	// memoryPerByte is how much memory a byte of a context takes while a call is made: the text, its form for the model, the request in JSON and
	// the buffer of that.
	memoryPerByte = 4

	// contextMemory is the memory of all contexts in flight: a quarter of a worker that has 1 GiB, and eight of the largest contexts.
	contextMemory = 256 << 20

	// awaitWithin is how long a call waits for what others have. Then another worker may have it.
	awaitWithin = 10 * time.Minute

	// messageBytes is what a message takes besides its texts.
	messageBytes = 256

	// pageBytes bounds the payloads of a page of records that a step reads.
	pageBytes = 2 << 20
)

// contextRoom is the memory for contexts of a process.
type contextRoom struct {
	*semaphore.Weighted
	size int64
}

func newContextRoom(size int64) *contextRoom { return &contextRoom{semaphore.NewWeighted(size), size} }

// contexts are those of this process.
var contexts = newContextRoom(contextMemory)

// share is the share of a model call.
type share struct {
	of    *contextRoom
	bytes int64
}

// reduce gives back what a context of so many bytes does not take.
func (s *share) reduce(bytes int) {
	if spare := s.bytes - int64(bytes)*memoryPerByte; spare > 0 {
		s.of.Release(spare)
		s.bytes -= spare
	}
}

func (s *share) free() { s.reduce(0) }

// bytesOf returns the size of the context of a request.
func bytesOf(req llm.Request) (n int) {
	for _, m := range req.Messages {
		n += messageBytes + len(m.Content)
		for _, part := range m.Parts {
			n += len(part)
		}
		for _, call := range m.ToolCalls {
			n += len(call.Function.Arguments)
		}
		if m.Opaque != nil {
			n += len(m.Opaque.Data)
		}
	}
	for _, t := range req.Tools {
		n += len(t.Description) + len(t.Parameters)
	}
	return n
}

// transcript reads the messages of a window when the call has its share of the memory. Only a few calls at once read large
// ones: how large they are is known when more than a small one has been read.
func (c *modelCall) transcript(ctx context.Context, w transcript.Window) ([]*transcript.Message, error) {
	others := bytesOf(llm.Request{Messages: []llm.Message{{Content: c.agent.Instructions}}, Tools: c.planner.tools.described()})
	for _, o := range c.opaque {
		others += len(o.Data)
	}
	for _, most := range []int{smallContext, 0} {
		size := most
		if most == 0 {
			size = contextBytes
		}
		if err := c.take(ctx, size+others); err != nil {
			return nil, err
		}
		messages, err := c.a.recent.Read(ctx, c.a.cfg.Store, c.in.Thread, c.replaced, w, most)
		switch {
		case err == nil:
			return messages, nil
		case !errors.Is(err, transcript.ErrTooLarge):
			return nil, readError(err)
		}
		// To wait for more while it has some could be for ever.
		c.share.free()
	}
	return nil, readError(transcript.ErrTooLarge)
}

// take waits for the share of a context of so many bytes, behind the calls that wait. It returns errInterrupted if the turn is
// interrupted meanwhile.
func (c *modelCall) take(ctx context.Context, bytes int) error {
	c.share = share{c.a.contexts, min(int64(bytes)*memoryPerByte, c.a.contexts.size)}
	if c.share.of.TryAcquire(c.share.bytes) {
		return nil
	}
	c.a.log.InfoContext(ctx, "a model call waits for memory, which the contexts of others take", "thread", c.in.Thread.ThreadID, "agent", c.agent.Name,
		"event", c.in.EventID, "traceId", c.in.TraceID, "bytes", c.share.bytes)
	err := c.await(ctx, "the memory that the contexts of other model calls take", func(ctx context.Context) error { return c.share.of.Acquire(ctx, c.share.bytes) })
	if err != nil {
		c.share.bytes = 0
	}
	return err
}

// await waits for what other calls of this worker have. It returns errInterrupted if the turn is interrupted meanwhile.
func (c *modelCall) await(ctx context.Context, what string, wait func(context.Context) error) error {
	waiting := c.a.begin(ctx, c.in.Thread, c.in.TraceID, awaitWithin)
	defer waiting.done()
	err := wait(waiting.ctx)
	if err == nil {
		return nil
	}
	switch cause := context.Cause(waiting.ctx); {
	case errors.Is(cause, errInterrupted):
		return errInterrupted
	case errors.Is(cause, errTimeout):
		return temporal.NewApplicationErrorWithCause(fmt.Sprintf("The model call waited %s for %s; the step is retried.", awaitWithin, what), step.ErrTypeRetry, err)
	default:
		return temporal.NewApplicationErrorWithCause("The worker stopped before the model call; the step is retried.", step.ErrTypeRetry, cause)
	}
}
