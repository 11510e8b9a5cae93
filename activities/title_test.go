package activities_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/stream"
)

func titles(c *activities.Config) { c.TitleModel = "fake/small" }

func titleStep() step.Title {
	return step.Title{Thread: ref, RecordID: "t1.titled", Flush: says("e1", "Please plan a trip to Lisbon in May.")}
}

func (w *fixture) title(in step.Title) (step.TitleReply, error) {
	var out step.TitleReply
	v, err := w.env.ExecuteActivity(step.ActivityTitleThread, in)
	if err == nil {
		require.NoError(w.t, v.Get(&out))
	}
	return out, err
}

// row is the thread's row in the store.
func (w *fixture) row() store.Thread {
	w.t.Helper()
	row, err := w.store.Thread(context.Background(), ref)
	require.NoError(w.t, err)
	return row
}

// replies makes the model answer with a text.
func replies(text string) func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
	return func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{Type: llm.TypeText, Content: text, Usage: event.Usage{InputTokens: 40, OutputTokens: 4}}, nil
	}
}

func TestTitle(t *testing.T) {
	w := newFixture(t, titles)
	pieces := false
	w.model.answer = func(_ context.Context, _ llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
		pieces = onDelta != nil
		return replies(`"Trip to Lisbon."`)(nil, llm.Request{}, nil)
	}
	out, err := w.title(titleStep())
	require.NoError(t, err)
	want := step.TitleReply{Title: "Trip to Lisbon", Usage: event.Usage{InputTokens: 40, OutputTokens: 4}}
	require.Equal(t, want, out, "S4-102 the model names the thread")
	require.Equal(t, "Trip to Lisbon", w.row().Title, "S4-102 the title is stored")
	require.Equal(t, []string{"e1", "t1.titled"}, w.ids(), "what was handed over comes first, and one record tells of the title")
	require.Equal(t, event.StatusChange{Status: event.StatusUpdated, Title: "Trip to Lisbon", Detail: "title", By: "threadmill"},
		stored[event.StatusChange](w, "t1.titled"), "S4-102 an update event")

	require.False(t, pieces, "nobody waits for the pieces of a title")
	for _, e := range w.live() {
		require.Nil(t, e.Event, "viewers see nothing but that there are records")
	}
	require.Len(t, w.model.requests, 1)
	require.Equal(t, llm.Request{Model: "small", Messages: []llm.Message{
		{Role: event.RoleSystem, Content: llm.TitleInstructions},
		{Role: event.RoleUser, Content: "ann: Please plan a trip to Lisbon in May."},
	}}, w.model.requests[0], "S4-62 without tools")

	again, err := w.title(titleStep())
	require.NoError(t, err)
	require.Equal(t, "Trip to Lisbon", again.Title)
	require.Len(t, w.model.requests, 1, "a retry finds the title and does not call the model")
	require.Len(t, w.ids(), 2)
}

func TestTitleIsOfWhatWasSaid(t *testing.T) {
	w := newFixture(t, titles, add)
	w.model.answer = replies("A title of four")
	hidden := message(event.Message{ID: "m0", SenderType: event.CreatedByUser, SenderID: "ann", Content: "the secret", Held: true})
	refused := event.NewRecord(recordid.Interception("m0"), event.TypeHook, "", "", hidden.CreatedAt, event.Interception{EventID: "m0", Outcome: event.OutcomeResponded})
	records := []event.Record{
		hidden, refused,
		message(event.Message{ID: "m1", SenderType: event.CreatedBySystem, SenderID: "guard", Content: "refused"}),
		message(event.Message{ID: "m2", SenderType: event.CreatedByTool, SenderID: "clock", Content: "it is noon"}),
		message(event.Message{ID: "m3", SenderType: event.CreatedByUser, SenderID: "ann", Content: "hello\nthere"}),
		message(event.Message{ID: "m4", SenderType: event.CreatedByAgent, SenderID: "bob", AgentID: "bob", ToolCalls: []event.ToolCall{call("b1", "add", "{}")}}),
		message(event.Message{ID: "m5", SenderType: event.CreatedByTool, SenderID: "add", AgentID: "bob", ToolCallID: "b1", Content: "3"}),
		message(event.Message{ID: "m6", SenderType: event.CreatedByAgent, SenderID: "bob", AgentID: "bob", Content: strings.Repeat("well ", 300)}),
	}
	for range 20 {
		records = append(records, message(event.Message{ID: "x" + signals.NewID(), SenderType: event.CreatedByUser, SenderID: "cid", Content: "yes"}))
	}
	in := titleStep()
	in.Flush = step.Flush{Records: records}
	_, err := w.title(in)
	require.NoError(t, err)
	shown := strings.Split(w.model.requests[0].Messages[1].Content, "\n\n")
	require.Equal(t, []string{"clock: it is noon", "ann: hello\nthere"}, shown[:2], "as hooks have left it, without results of tools and what the runtime says")
	require.Equal(t, "bob: "+strings.TrimSpace(strings.Repeat("well ", (1024+1)/5)), shown[2], "long texts are cut")
	require.Len(t, shown, 10, "the first ones are enough")
}

func TestTitleWithoutTheModel(t *testing.T) {
	const fallback = "Please plan a trip to Lisbon in May"
	fails := func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{Content: "Half a", Usage: event.Usage{InputTokens: 1}}, &llm.Error{Provider: "fake", StatusCode: 503, Message: "overloaded", Retryable: true}
	}
	for name, answer := range map[string]func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error){
		"S4-103 it fails, though a retry may help": fails,
		"S4-103 it says nothing":                   replies(" \n"),
		"S4-103 it says nothing readable":          replies("```\n***\n```"),
		"S4-103 it answers the conversation":       replies("Of course I can help you with that, but first tell me when you want to go there"),
		"S4-103 its driver panics":                 func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) { panic("oh") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, titles)
			w.model.answer = answer
			out, err := w.title(titleStep())
			require.NoError(t, err)
			require.Equal(t, fallback, out.Title, "what a person said first")
			require.Equal(t, fallback, w.row().Title)
			require.Contains(t, w.ids(), "t1.titled")
			require.Len(t, w.model.requests, 1, "it is asked once")
		})
	}
	t.Run("S4-103 what was said first is not a person's", func(t *testing.T) {
		w := newFixture(t, titles)
		w.model.answer = fails
		in := titleStep()
		in.Flush.Records = append([]event.Record{message(event.Message{ID: "m0", SenderType: event.CreatedByTool, SenderID: "clock", Content: "It is noon."})}, in.Flush.Records...)
		out, err := w.title(in)
		require.NoError(t, err)
		require.Equal(t, fallback, out.Title)
	})
	t.Run("S4-103 nothing was said", func(t *testing.T) {
		w := newFixture(t, titles)
		in := titleStep()
		in.Flush = step.Flush{}
		out, err := w.title(in)
		require.NoError(t, err)
		require.Equal(t, step.TitleReply{}, out)
		require.Empty(t, w.ids(), "there is nothing to go by, and nothing to tell of")
		require.Empty(t, w.model.requests)
	})
	t.Run("S4-103 this worker has no model for it", func(t *testing.T) {
		w := newFixture(t, nil)
		out, err := w.title(titleStep())
		require.NoError(t, err)
		require.Equal(t, fallback, out.Title)
		require.Empty(t, w.model.requests)
	})
}

func TestTitleOfSomebodyElseStays(t *testing.T) {
	name := "Lisbon!"
	byHand := store.Batch{Thread: &store.ThreadUpdate{Title: &name}}
	t.Run("given before", func(t *testing.T) {
		w := newFixture(t, titles)
		w.append(byHand)
		out, err := w.title(titleStep())
		require.NoError(t, err)
		require.Equal(t, name, out.Title)
		require.Equal(t, []string{"e1"}, w.ids())
		require.Empty(t, w.model.requests)
	})
	t.Run("given while the model thought", func(t *testing.T) {
		w := newFixture(t, titles)
		w.model.answer = func(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
			w.append(byHand)
			return llm.Response{Content: "Trip to Lisbon"}, nil
		}
		out, err := w.title(titleStep())
		require.NoError(t, err)
		require.Equal(t, name, out.Title)
		require.Equal(t, name, w.row().Title)
		require.Equal(t, []string{"e1"}, w.ids(), "nothing was updated that a record could tell of")
	})
}

func TestTitleEndsWhenTheThreadStops(t *testing.T) {
	w := newFixture(t, titles)
	w.model.answer = func(ctx context.Context, _ llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		// A notice without a turn is for all running steps.
		_ = w.stream.Notify(context.Background(), ref, stream.Notice{})
		<-ctx.Done()
		return llm.Response{Content: "Half a"}, ctx.Err()
	}
	out, err := w.title(titleStep())
	require.NoError(t, err)
	require.Equal(t, "Please plan a trip to Lisbon in May", out.Title)
}

func TestTitleModel(t *testing.T) {
	for model, problem := range map[string]string{
		"small":      `Config.TitleModel: model "small" must be "provider/model"`,
		"fake/":      `must be "provider/model"`,
		"/small":     `must be "provider/model"`,
		"gone/small": `Config.TitleModel: model "gone/small" needs a provider "gone", which is not configured; set it right, or leave it empty`,
	} {
		w := newFixture(t, nil)
		_, err := activities.New(activities.Config{
			Agents: agent.Fixed{{Name: "assistant", Model: "fake/small"}}, Store: w.store, Stream: w.stream, Models: map[string]llm.Provider{"fake": w.model}, TitleModel: model,
		})
		require.ErrorContains(t, err, problem)
	}
}

func TestRepliesSayThatThreadsAreNamed(t *testing.T) {
	for want, change := range map[bool]func(*activities.Config){true: titles, false: nil} {
		w := newFixture(t, change)
		reply, err := w.callModel(modelStep())
		require.NoError(t, err)
		require.Equal(t, want, reply.Titles, "S4-102")
	}
}

// TestTitleAfterAnOutage: failed reads and writes are retried, and then there is one title.
func TestTitleAfterAnOutage(t *testing.T) {
	broken := &outage{failed: map[string]bool{}}
	w := newFixture(t, func(c *activities.Config) {
		titles(c)
		broken.Store, c.Store = teststore.Of(c.Store), broken
	})
	w.model.answer = replies("Trip to Lisbon")
	require.NoError(t, w.retried(step.ActivityTitleThread, titleStep()))
	require.Equal(t, "Trip to Lisbon", w.row().Title)
	require.Equal(t, []string{"e1", "t1.titled"}, w.ids())
	require.Len(t, broken.failed, 4)
	require.Len(t, w.model.requests, 2, "the title that could not be stored is gone")
}

// outage is a store whose calls fail once each.
type outage struct {
	teststore.Store
	failed map[string]bool
}

func (o *outage) fails(what string) error {
	if o.failed[what] {
		return nil
	}
	o.failed[what] = true
	return errors.New("no connection")
}

func (o *outage) Append(ctx context.Context, key store.Key, b store.Batch) (store.Appended, error) {
	if err := o.fails(fmt.Sprintf("append, of a title: %t", b.Thread != nil)); err != nil {
		return store.Appended{}, err
	}
	return o.Store.Append(ctx, key, b)
}

func (o *outage) Thread(ctx context.Context, key store.Key) (store.Thread, error) {
	if err := o.fails("thread"); err != nil {
		return store.Thread{}, err
	}
	return o.Store.Thread(ctx, key)
}

func (o *outage) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	if err := o.fails("records"); err != nil {
		return nil, err
	}
	return o.Store.Records(ctx, key, q)
}
