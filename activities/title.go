package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

const (
	// titleTimeout is the limit of the model call. A late title is worse than a plain one.
	titleTimeout = 30 * time.Second

	// titleMessages is the number of first messages to read, and titleTexts the number of texts in
	// the request, each cut to titleTextBytes.
	titleMessages  = 50
	titleTexts     = 10
	titleTextBytes = 1 << 10
)

// titledBy is the author of generated titles.
const titledBy = "threadmill"

// titleThread generates a title from a thread's first messages. It calls the model once; if that
// fails, the title is the start of a user's message. It does not change an existing title.
func (a *Activities) titleThread(ctx context.Context, in step.Title) (step.TitleReply, error) {
	if _, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush); err != nil {
		return step.TitleReply{}, err
	}
	if title, err := a.titleOf(ctx, in.Thread); title != "" || err != nil {
		return step.TitleReply{Title: title}, err
	}
	statements, err := a.opening(ctx, in.Thread)
	if err != nil || len(statements) == 0 {
		return step.TitleReply{}, err
	}
	out, err := a.askForTitle(ctx, in, statements)
	if err != nil {
		return step.TitleReply{}, err
	}
	if out.Title == "" && out.Route == nil {
		out.Title = plainTitle(statements)
	}
	if out.Title == "" {
		return out, nil
	}
	return a.keepTitle(context.WithoutCancel(ctx), in, out)
}

// titleOf returns the thread's title. It is stored together with its record, so a retried activity
// finds it.
func (a *Activities) titleOf(ctx context.Context, ref step.Ref) (string, error) {
	row, err := a.cfg.Store.Thread(ctx, ref)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", readError(err)
	}
	return row.Title, nil
}

// statement is a text of a conversation and its author.
type statement struct {
	who, text string
	person    bool
}

// opening returns the first messages of a thread, with the changes of hooks.
func (a *Activities) opening(ctx context.Context, ref step.Ref) ([]statement, error) {
	messages, err := transcript.Messages(ctx, a.cfg.Store, ref, store.Query{Limit: titleMessages, MaxBytes: pageBytes})
	if err != nil {
		return nil, readError(err)
	}
	var statements []statement
	for _, m := range messages {
		shown, ok := m.ForModels()
		if text := strings.TrimSpace(shown.Content); ok && text != "" && isStatement(shown) && len(statements) < titleTexts {
			statements = append(statements, statement{who: shown.SenderID, text: text, person: shown.SenderType == event.CreatedByUser})
		}
	}
	return statements, nil
}

// isStatement reports whether a message is neither a tool result nor a system message.
func isStatement(m event.Message) bool {
	return m.SenderType != event.CreatedBySystem && m.ToolCallID == ""
}

// askForTitle calls the model. There is no title if the call fails or returns nothing usable. An
// error means that another worker must retry the step.
func (a *Activities) askForTitle(ctx context.Context, in step.Title, statements []statement) (step.TitleReply, error) {
	c := a.choose(a.cfg.TitleModel, "", in.Route)
	if route := a.route(ctx, c.model()); route != nil {
		return step.TitleReply{Route: route}, nil
	}
	provider, model, err := a.cfg.provider(c.model())
	if err != nil {
		// This worker's configuration differs from that of the worker that requested the title.
		a.log.WarnContext(ctx, "generating a title failed", "thread", in.Thread.ThreadID, "error", err)
		return step.TitleReply{}, nil
	}
	running := a.begin(ctx, in.Thread, "", titleTimeout)
	defer running.done()
	res, err := runWithGrace(running.ctx, a.grace, func() (llm.Response, error) {
		return generateWhole(running.ctx, provider, titleRequest(model, statements))
	})
	switch {
	case errors.Is(context.Cause(running.ctx), errShutdown):
		return step.TitleReply{}, temporal.NewApplicationErrorWithCause("The worker stopped while it generated a title; the step is retried.", step.ErrTypeRetry, errShutdown)
	case err != nil:
		a.log.WarnContext(ctx, "generating a title failed", "thread", in.Thread.ThreadID, "model", c.model(), "error", err)
		return a.titleByNext(c, err), nil
	}
	a.used(c.model(), res.Usage)
	return step.TitleReply{Title: modelTitle(res.Content), Usage: res.Usage}, nil
}

// titleByNext returns the route to the next model of the chain, if there is one for such a failure.
func (a *Activities) titleByNext(c choices, err error) step.TitleReply {
	e := asError(err)
	if e == nil || !c.triggers(e, maxDown) {
		return step.TitleReply{}
	}
	a.fell(c, e, step.Why(err.Error()))
	next := c.next()
	if next == "" {
		return step.TitleReply{}
	}
	return step.TitleReply{Route: &step.Route{Model: next, TaskQueue: a.modelQueue(next)}}
}

// generateWhole calls a model without streaming. A driver that panics has failed.
func generateWhole(ctx context.Context, p llm.Provider, req llm.Request) (res llm.Response, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			res, err = llm.Response{}, fmt.Errorf("the driver panicked: %v\n%s", problem, debug.Stack())
		}
	}()
	return p.Generate(ctx, req, nil)
}

// titleRequest returns the request for a title. The conversation is one text, so the model does not
// continue it.
func titleRequest(model string, statements []statement) llm.Request {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.who + ": " + cutAtWord(s.text, titleTextBytes)
	}
	return llm.Request{Model: model, Messages: []llm.Message{
		{Role: event.RoleSystem, Content: llm.TitleInstructions},
		{Role: event.RoleUser, Content: strings.Join(texts, "\n\n")},
	}}
}

// keepTitle stores a title, unless the thread has one by now.
func (a *Activities) keepTitle(ctx context.Context, in step.Title, out step.TitleReply) (step.TitleReply, error) {
	title, err := a.titleOf(ctx, in.Thread)
	if err != nil {
		return step.TitleReply{}, err
	}
	if title != "" {
		out.Title = title
		return out, nil
	}
	tells := event.NewRecord(in.RecordID, event.TypeStatus, "", "", time.Now(),
		event.StatusChange{Status: event.StatusUpdated, Title: out.Title, Detail: "title", By: titledBy})
	_, err = a.append(ctx, in.Thread, store.Batch{Records: []event.Record{tells}, Thread: &store.ThreadUpdate{Title: &out.Title}}, step.Flush{})
	if err != nil {
		return step.TitleReply{}, err
	}
	return out, nil
}
