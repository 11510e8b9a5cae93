package configdiff

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/ops/retention"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/webhook"
)

// TestHooks: hooks are compared by what a file and a program say of them, and not by their functions.
func TestHooks(t *testing.T) {
	w := hook.InWorkflow("guard", hook.Workflow{Type: "Guard", TaskQueue: "guards"})
	f := hook.Hook{Name: "guard", Inline: func(hook.Context, event.Event) (hook.Result, error) { return hook.Pass(), nil }}
	with := func(h hook.Hook, change func(*hook.Hook)) hook.Hook {
		change(&h)
		return h
	}
	other := with(w, func(h *hook.Hook) { h.Name = "other" })
	gone := with(w, func(h *hook.Hook) { h.Name = "gone" })
	for name, c := range map[string]struct {
		before, after []hook.Hook
		want          []Change
	}{
		"same":          {[]hook.Hook{w}, []hook.Hook{hook.InWorkflow("guard", hook.Workflow{Type: "Guard", TaskQueue: "guards"})}, []Change{}},
		"same function": {[]hook.Hook{f}, []hook.Hook{f}, []Change{}},
		"new":           {nil, []hook.Hook{w}, []Change{{Name: "guard", Changes: []string{"it is new"}}}},
		"gone":          {[]hook.Hook{w}, nil, []Change{{Name: "guard", Changes: []string{"it is gone: the next events pass without it; " + inProgress}}}},
		"workflow": {[]hook.Hook{w}, []hook.Hook{with(w, func(h *hook.Hook) { h.Workflow = &hook.Workflow{Type: "Guard2"} })}, []Change{
			{Name: "guard", Changes: []string{"workflow Guard2 on task queue of the threads instead of workflow Guard on task queue guards", inProgress}},
		}},
		"function instead": {[]hook.Hook{w}, []hook.Hook{f}, []Change{
			{Name: "guard", Changes: []string{"an inline function instead of workflow Guard on task queue guards", inProgress}},
		}},
		"fields": {[]hook.Hook{w}, []hook.Hook{with(w, func(h *hook.Hook) {
			h.Filter.Types, h.OnFailure, h.Timeout, h.HoldOutput = []string{"message"}, hook.FailOpen, time.Minute, true
		})}, []Change{{Name: "guard", Changes: []string{
			`filter: {"types":["message"]} instead of {}`, "onFailure: open instead of the default", "timeout: 1m0s instead of the default",
			"holdOutput: true instead of the default", inProgress,
		}}}},
		"order": {[]hook.Hook{w, other}, []hook.Hook{other, w}, []Change{{Name: "other, guard", Changes: []string{"they run in this order instead of guard, other"}}}},
		"order of some": {[]hook.Hook{w, gone, other}, []hook.Hook{other, with(w, func(h *hook.Hook) { h.HoldOutput = true })}, []Change{
			{Name: "gone", Changes: []string{"it is gone: the next events pass without it; " + inProgress}},
			{Name: "guard", Changes: []string{"holdOutput: true instead of the default", inProgress}},
			{Name: "other, guard", Changes: []string{"they run in this order instead of guard, other"}},
		}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, hooks(c.before, c.after)) })
	}
}

// TestSections: the sections of the file are compared with what the change does, and no secret is shown.
func TestSections(t *testing.T) {
	type knowledge struct {
		Embedder    string
		ChunkTokens int
		RerankModel string
	}
	emails, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Emails()}, Func: strings.ToUpper})
	require.NoError(t, err)
	again, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Emails()}, Func: strings.ToUpper})
	require.NoError(t, err)
	cards, err := redact.New(redact.Config{Patterns: []redact.Pattern{redact.Cards()}})
	require.NoError(t, err)
	side := func(k knowledge, r *redact.Redactor, d retention.Due, w ...webhook.Endpoint) Side {
		return Side{Agents: map[string]agent.Agent{}, Knowledge: k, Redact: r, Retention: d, Webhooks: w}
	}
	compare := func(before, after Side) Diff {
		out, err := Compare(t.Context(), "ns", nil, before, after, threadclient.Waiting{}, nil)
		require.NoError(t, err)
		return out
	}
	before := side(knowledge{"openai/a", 0, ""}, emails, retention.Due{Every: "1h", Close: []string{"t1"}, IdleThreads: "100h"},
		webhook.Endpoint{Name: "gone"}, webhook.Endpoint{Name: "github", Secrets: []webhook.Secret{"old"}})
	same := before
	same.Redact = again
	require.True(t, compare(before, same).Same())

	after := side(knowledge{"openai/b", 100, "x/y"}, cards, retention.Due{Every: "1h", Close: []string{"t1", "t2"}, IdleThreads: "50h", ClosedThreads: "1h", Erase: []string{"t3"}},
		webhook.Endpoint{Name: "github", Secrets: []webhook.Secret{"new"}, Event: webhook.Event{Type: "push"}})
	d := compare(before, after)
	require.False(t, d.Same())
	require.Equal(t, []Change{
		{Name: "knowledge", Changes: []string{
			"embedder: openai/b instead of openai/a: all documents and entities get new vectors",
			"chunkTokens: 100 instead of the default: documents keep their chunks until they are ingested again",
			"rerankModel: x/y instead of the default",
		}},
		{Name: "retention", Changes: []string{
			"idleThreads: 50h instead of 100h: the next pass closes 2 threads instead of 1",
			"closedThreads: 1h instead of never: the next pass erases 1 threads instead of 0",
		}},
		{Name: "redact", Changes: []string{"it differs: what is stored already stays as it is"}},
	}, d.Settings)
	require.Equal(t, []Change{
		{Name: "github", Changes: []string{"secrets differs", "event differs"}},
		{Name: "gone", Changes: []string{"it is gone: its requests are rejected"}},
	}, d.Webhooks)
	require.False(t, compare(side(knowledge{}, nil, retention.Due{}), side(knowledge{}, nil, retention.Due{}, webhook.Endpoint{Name: "new"})).Same())
}
