package activities_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/activities"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
)

// chained is a fixture whose agent uses a chain of three models. fail has the failures of models.
func chained(t *testing.T, f llm.Fallback, fail map[string]error) *fixture {
	t.Helper()
	f.Chain = []string{"fake/first", "fake/second", "fake/third"}
	w := newFixture(t, func(c *activities.Config) {
		c.Agents = agent.Fixed{{Name: "assistant", Model: "main"}}
		c.Fallbacks = map[string]llm.Fallback{"main": f}
	})
	w.model.answer = func(ctx context.Context, req llm.Request, onDelta func(llm.Delta)) (llm.Response, error) {
		err := fail[req.Model]
		if err == errHangs { //nolint:errorlint // the test's own
			<-ctx.Done()
			return llm.Response{}, ctx.Err()
		}
		onDelta(llm.Delta{Text: "by " + req.Model})
		return llm.Response{Content: "by " + req.Model, Model: req.Model}, err
	}
	return w
}

var errHangs = context.DeadlineExceeded

// goOn calls the models of a chain as the thread does, until there is a reply or a wait.
func (w *fixture) goOn(messageID string) (step.ModelReply, []string) {
	w.t.Helper()
	in := modelStep()
	in.MessageID = messageID
	var called []string
	for {
		before := len(w.model.requests)
		out, err := w.callModel(in)
		require.NoError(w.t, err)
		for _, r := range w.model.requests[before:] {
			called = append(called, r.Model)
		}
		if out.Outage == nil || out.Outage.Next == "" {
			return out, called
		}
		require.False(w.t, out.Outage.NextAttemptAt.After(time.Now()), "at once")
		in.Outage = out.Outage
	}
}

func overloaded() *llm.Error {
	return &llm.Error{Provider: "fake", StatusCode: 529, Message: "overloaded", Retryable: true}
}

func TestFallback(t *testing.T) {
	w := chained(t, llm.Fallback{}, map[string]error{"first": overloaded(), "second": &llm.Error{Provider: "fake", Message: "cut off", Retryable: true}})
	out, called := w.goOn("e1.0.1")
	require.Equal(t, []string{"first", "second", "third"}, called)
	require.Equal(t, "by third", out.Message.Content, "and nothing of the others")
	require.Equal(t, "fake/third", out.Model)
	record := stored[event.LLMCall](w, "e1.0.1.llm")
	require.Equal(t, "fake/third", record.Model)
	require.Equal(t, 3, record.Attempt)
	require.Equal(t, []event.FailedModel{
		{Model: "fake/first", Attempts: 1, Class: "server_error", Error: "fake answered 529: overloaded"},
		{Model: "fake/second", Attempts: 1, Class: "unreachable", Error: "fake: cut off"},
	}, record.Failed)
	var seen []string
	for _, e := range w.live() {
		switch {
		case e.Event == nil:
		case e.Event.Type == event.EventStatus && e.Event.Status.Retry != nil:
			seen = append(seen, e.Event.Status.Detail)
		case e.Event.Type == event.EventReset:
			seen = append(seen, "reset")
		case e.Event.Type == event.EventStream && e.Event.Content != "":
			seen = append(seen, e.Event.Content)
		}
	}
	require.Equal(t, []string{
		"by first", "fake/first failed (fake answered 529: overloaded); fake/second is called instead", "reset", "reset",
		"by second", "fake/second failed (fake: cut off); fake/third is called instead", "reset", "reset", "by third",
	}, seen, "what was shown is replaced before the next model replies")

	_, called = w.goOn("e1.0.2")
	require.Equal(t, []string{"third"}, called, "other calls skip what has just failed")
	skipped := stored[event.LLMCall](w, "e1.0.2.llm").Failed
	require.Len(t, skipped, 2)
	require.Equal(t, event.FailedModel{Model: "fake/first", Class: "server_error", Error: "fake answered 529: overloaded"}, skipped[0])
}

// TestFallbackReturns: the first choice is called again after returnAfter, or after what its provider
// requires.
func TestFallbackReturns(t *testing.T) {
	fail := map[string]error{"first": overloaded()}
	w := chained(t, llm.Fallback{ReturnAfter: time.Second}, fail)
	_, called := w.goOn("e1.0.1")
	require.Equal(t, []string{"first", "second"}, called)
	delete(fail, "first")
	n := 2
	require.Eventually(t, func() bool {
		_, called = w.goOn("e1.0." + strings.Repeat("1", n))
		n++
		return called[0] == "first"
	}, testenv.Patience, 50*time.Millisecond)

	late := overloaded()
	late.RetryAfter = time.Hour
	w = chained(t, llm.Fallback{ReturnAfter: time.Second}, map[string]error{"first": late})
	w.goOn("e1.0.1")
	require.Greater(t, w.all.DownFor("fake/first"), 50*time.Minute)
}

func TestFallbackOfAll(t *testing.T) {
	w := chained(t, llm.Fallback{}, map[string]error{"first": overloaded(), "second": overloaded(), "third": overloaded()})
	out, called := w.goOn("e1.0.1")
	require.Equal(t, []string{"first", "second", "third"}, called)
	require.Equal(t, 3, out.Outage.Attempts)
	require.True(t, out.Outage.NextAttemptAt.After(time.Now()), "the thread waits")
	in := modelStep()
	in.Outage = out.Outage
	out, err := w.callModel(in)
	require.NoError(t, err)
	require.Equal(t, "first", w.model.requests[3].Model, "and then begins with the first")
	require.Equal(t, "fake/second", out.Outage.Next)
	require.Equal(t, 4, out.Outage.Attempts)
	require.Len(t, out.Outage.Failed, 3)
	require.Equal(t, 2, out.Outage.Failed[0].Attempts)
}

// TestNoFallback: a failure that the call causes itself, or that is over in seconds, calls no other
// model.
func TestNoFallback(t *testing.T) {
	for name, tc := range map[string]struct {
		on   []llm.Trigger
		fail *llm.Error
		ends bool
	}{
		"rejected":         {nil, &llm.Error{Provider: "fake", StatusCode: 400, Message: "bad"}, true},
		"wrong key":        {nil, &llm.Error{Provider: "fake", StatusCode: 401, Message: "bad"}, true},
		"too long":         {nil, &llm.Error{Provider: "fake", StatusCode: 400, ContextOverflow: true, Message: "bad"}, true},
		"refused":          {nil, &llm.Error{Provider: "fake", Code: llm.CodeRefusal, Message: "no"}, true},
		"soon":             {nil, &llm.Error{Provider: "fake", StatusCode: 429, Retryable: true, RetryAfter: 2 * time.Second, Message: "busy"}, false},
		"not this trigger": {[]llm.Trigger{llm.OnOutage}, overloaded(), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := chained(t, llm.Fallback{On: tc.on}, map[string]error{"first": tc.fail})
			_, err := w.callModel(modelStep())
			require.Equal(t, tc.ends, appError(t, err).NonRetryable())
			require.Len(t, w.model.requests, 1)
			require.Zero(t, w.all.DownFor("fake/first"))
		})
	}
	t.Run("later", func(t *testing.T) {
		w := chained(t, llm.Fallback{}, map[string]error{"first": &llm.Error{Provider: "fake", StatusCode: 429, Retryable: true, RetryAfter: time.Minute, Message: "busy"}})
		_, called := w.goOn("e1.0.1")
		require.Equal(t, []string{"first", "second"}, called)
	})
}

func TestFallbackWhenSlow(t *testing.T) {
	w := chained(t, llm.Fallback{FirstToken: 200 * time.Millisecond}, map[string]error{"first": errHangs})
	_, called := w.goOn("e1.0.1")
	require.Equal(t, []string{"first", "second"}, called)
	require.Equal(t, "slow", stored[event.LLMCall](w, "e1.0.1.llm").Failed[0].Class)
}

func TestTitleFallsBack(t *testing.T) {
	w := newFixture(t, func(c *activities.Config) {
		c.Fallbacks = map[string]llm.Fallback{"main": {Chain: []string{"fake/first", "fake/second"}}}
		c.TitleModel = "main"
	})
	w.model.answer = func(_ context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
		if req.Model == "first" {
			return llm.Response{}, overloaded()
		}
		return llm.Response{Content: "Greeting among friends"}, nil
	}
	in := step.Title{Thread: ref, RecordID: "t1.title", Flush: says("e1", "hello")}
	out, err := w.title(in)
	require.NoError(t, err)
	require.Equal(t, &step.Route{Model: "fake/second"}, out.Route)
	in.Route = out.Route
	out, err = w.title(in)
	require.NoError(t, err)
	require.Equal(t, "Greeting among friends", out.Title)
}

// TestRoutes: a call of a limited provider runs on the provider's task queue only.
func TestRoutes(t *testing.T) {
	used := map[string]int{}
	w := newFixture(t, func(c *activities.Config) {
		c.ModelQueues = map[string]string{"fake": "threads/model/fake"}
		c.Used = func(provider string, tokens int) { used[provider] += tokens }
	})
	out, err := w.callModel(modelStep())
	require.NoError(t, err)
	require.Equal(t, &step.Route{Model: "fake/small", TaskQueue: "threads/model/fake"}, out.Route)
	require.Empty(t, w.model.requests)
	require.Equal(t, []string{"e1"}, w.ids(), "what was said is stored all the same")
	require.Empty(t, used)
}
