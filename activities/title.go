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
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

const (
	// titleTimeout is how long the model may take. A title that comes late is worth less
	// than one that is not as good.
	titleTimeout = 30 * time.Second

	// titleMessages and titleTexts are how many of a thread's first messages are looked at,
	// and how many texts of those the model is shown, each cut to titleTextBytes.
	titleMessages  = 50
	titleTexts     = 10
	titleTextBytes = 1 << 10
)

// titledBy is who gives a thread its title, for people.
const titledBy = "threadmill"

// TitleThread gives a thread a title by what was said first. The model is asked once: when
// it fails, the title is the beginning of what a person said. A thread that has a title
// keeps it.
func (a *Activities) TitleThread(ctx context.Context, in thread.TitleStep) (thread.TitleReply, error) {
	if _, err := a.append(ctx, in.Thread, store.Batch{}, in.Flush); err != nil {
		return thread.TitleReply{}, err
	}
	if title, err := a.titleOf(ctx, in.Thread); title != "" || err != nil {
		return thread.TitleReply{Title: title}, err
	}
	said, err := a.opening(ctx, in.Thread)
	if err != nil || len(said) == 0 {
		return thread.TitleReply{}, err
	}
	out, err := a.askForTitle(ctx, in, said)
	if err != nil {
		return thread.TitleReply{}, err
	}
	if out.Title == "" {
		out.Title = plainTitle(said)
	}
	if out.Title == "" {
		return out, nil
	}
	return a.keepTitle(context.WithoutCancel(ctx), in, out)
}

// titleOf returns the title that a thread has. It is stored together with the record that
// tells of it, so that a retried activity finds what it has done.
func (a *Activities) titleOf(ctx context.Context, ref thread.Ref) (string, error) {
	row, err := a.cfg.Store.Thread(ctx, store.Key(ref))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", readError(err)
	}
	return row.Title, nil
}

// statement is a text of a conversation, and whose it is.
type statement struct {
	who, text string
	person    bool
}

// opening returns what was said first in a thread, as hooks have passed it.
func (a *Activities) opening(ctx context.Context, ref thread.Ref) ([]statement, error) {
	messages, err := store.Messages(ctx, a.cfg.Store, store.Key(ref), store.Query{Limit: titleMessages})
	if err != nil {
		return nil, readError(err)
	}
	var said []statement
	for _, m := range messages {
		shown, ok := m.ForModels()
		if text := strings.TrimSpace(shown.Content); ok && text != "" && isSaid(shown) && len(said) < titleTexts {
			said = append(said, statement{who: shown.SenderID, text: text, person: shown.SenderType == event.User})
		}
	}
	return said, nil
}

// isSaid tells what people, agents and the world say from the results of tools, and from
// what the runtime says itself.
func isSaid(m event.Message) bool {
	return m.SenderType != event.System && m.ToolCallID == ""
}

// askForTitle asks the model. There is no title if it fails or says nothing that can be
// one; an error means that the step is for another worker to retry.
func (a *Activities) askForTitle(ctx context.Context, in thread.TitleStep, said []statement) (thread.TitleReply, error) {
	provider, model, err := titleModel(a.cfg.TitleModel, a.cfg.Models)
	if err != nil {
		// A worker that is configured otherwise than the one that wanted a title.
		a.log.WarnContext(ctx, "naming the thread", "thread", in.Thread.ThreadID, "error", err)
		return thread.TitleReply{}, nil
	}
	step := a.begin(ctx, in.Thread, "", titleTimeout)
	defer step.done()
	res, err := runWithGrace(step.ctx, a.grace, func() (llm.Response, error) {
		return generateWhole(step.ctx, provider, titleRequest(model, said))
	})
	switch {
	case errors.Is(context.Cause(step.ctx), errShutdown):
		return thread.TitleReply{}, temporal.NewApplicationErrorWithCause("The worker stopped while the thread was being named; the step is retried.", thread.ErrTypeRetry, errShutdown)
	case err != nil:
		a.log.WarnContext(ctx, "the model has no title for the thread", "thread", in.Thread.ThreadID, "model", a.cfg.TitleModel, "error", err)
		return thread.TitleReply{}, nil
	}
	return thread.TitleReply{Title: modelTitle(res.Content), Usage: res.Usage}, nil
}

// generateWhole calls a model without showing anybody the pieces of its reply. A driver
// that panics has failed.
func generateWhole(ctx context.Context, p llm.Provider, req llm.Request) (res llm.Response, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			res, err = llm.Response{}, fmt.Errorf("the driver panicked: %v\n%s", problem, debug.Stack())
		}
	}()
	return p.Generate(ctx, req, nil)
}

// titleRequest asks for a title. The conversation is one text, so that no model takes it
// for its own.
func titleRequest(model string, said []statement) llm.Request {
	texts := make([]string, len(said))
	for i, s := range said {
		texts[i] = s.who + ": " + cutAtWord(s.text, titleTextBytes)
	}
	return llm.Request{Model: model, Messages: []llm.Message{
		{Role: event.RoleSystem, Content: llm.TitleInstructions},
		{Role: event.RoleUser, Content: strings.Join(texts, "\n\n")},
	}}
}

// keepTitle stores a title, unless the thread was given one meanwhile.
func (a *Activities) keepTitle(ctx context.Context, in thread.TitleStep, out thread.TitleReply) (thread.TitleReply, error) {
	title, err := a.titleOf(ctx, in.Thread)
	if err != nil {
		return thread.TitleReply{}, err
	}
	if title != "" {
		out.Title = title
		return out, nil
	}
	tells := event.NewRecord(in.RecordID, event.TypeStatus, "", "", time.Now(),
		event.StatusChange{Status: event.StatusUpdated, Title: out.Title, Detail: "title", By: titledBy})
	_, err = a.append(ctx, in.Thread, store.Batch{Records: []event.Record{tells}, Thread: &store.ThreadUpdate{Title: &out.Title}}, thread.Flush{})
	if err != nil {
		return thread.TitleReply{}, err
	}
	return out, nil
}

// titleModel finds the driver for the model that gives threads their titles.
func titleModel(name string, models map[string]llm.Provider) (llm.Provider, string, error) {
	prefix, model, ok := strings.Cut(name, "/")
	if !ok || prefix == "" || model == "" {
		return nil, "", fmt.Errorf(`Config.TitleModel is %q, must be "provider/model", such as "openai/gpt-4.1-mini"`, name)
	}
	p, ok := models[prefix]
	if !ok {
		return nil, "", fmt.Errorf("Config.TitleModel is %q, which needs a provider %q: add it to Config.Models, or leave TitleModel empty", name, prefix)
	}
	return p, model, nil
}
