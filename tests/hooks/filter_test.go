package hooks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestHookFilters runs hooks with every kind of filter on the same events.
func TestHookFilters(t *testing.T) {
	t.Parallel()
	d, spied := check.NewDesk(), check.NewSpy("spied")
	all := []string{
		"message user", "tool_call assistant", "message tool assistant", "message tool assistant", "message agent assistant",
		"message user", "tool_call bob", "message tool bob", "message agent bob",
		"message system", "message tool", "message agent assistant",
		"ticket.opened", "ticket.closed", "order.placed",
	}
	which := func(at ...int) (out []string) {
		for _, i := range at {
			out = append(out, all[i])
		}
		return out
	}
	models := []string{"llm_call assistant", "llm_call assistant", "llm_call bob", "llm_call bob", "llm_call assistant"}
	cases := map[string]struct {
		filter hook.Filter
		want   []string
	}{
		"no-filter":       {hook.Filter{}, all},
		"any-type":        {hook.Filter{Types: []string{"*"}}, all},
		"messages":        {hook.Filter{Types: []string{"message"}}, which(0, 2, 3, 4, 5, 7, 8, 9, 10, 11)},
		"calls":           {hook.Filter{Types: []string{"tool_call"}}, which(1, 6)},
		"model-calls":     {hook.Filter{Types: []string{"llm_call"}}, models},
		"bobs-model":      {hook.Filter{Types: []string{"llm_call"}, Agents: []string{"bob"}}, models[2:4]},
		"tickets":         {hook.Filter{Types: []string{"ticket.*"}}, which(12, 13)},
		"one-or-another":  {hook.Filter{Types: []string{"order.placed", "tool_call"}}, which(1, 6, 14)},
		"by-user":         {hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedByUser}}, which(0, 5)},
		"by-agent":        {hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedByAgent}}, which(1, 4, 6, 8, 11)},
		"by-tool":         {hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedByTool}}, which(2, 3, 7, 10)},
		"by-system":       {hook.Filter{CreatedBy: []event.CreatedBy{event.CreatedBySystem}}, which(9)},
		"bob":             {hook.Filter{Agents: []string{"BOB"}}, which(6, 7, 8)},
		"spied":           {hook.Filter{Tools: []string{"spied"}}, which(1, 2)},
		"from-outside":    {hook.Filter{Tools: []string{"cron"}}, which(10)},
		"bobs-notes":      {hook.Filter{Types: []string{"message"}, CreatedBy: []event.CreatedBy{event.CreatedByTool}, Agents: []string{"bob"}, Tools: []string{"note"}}, which(7)},
		"nothing-at-once": {hook.Filter{Types: []string{"tool_call"}, CreatedBy: []event.CreatedBy{event.CreatedByUser}}, nil},
		"elsewhere":       {hook.Filter{Namespaces: []string{"elsewhere"}}, nil},
	}
	w := d.Open(t, harness.Options{Tools: []tool.Tool{spied, tool.ClientSide(tool.Definition{Name: "cron"})}, Agents: []agent.Agent{
		{Name: "assistant", Model: "openai/stand-in", Tools: []string{"note", "spied"}},
		{Name: "bob", Model: "openai/stand-in", Tools: []string{"note"}},
	}, Configure: func(c *threadmill.Config) {
		for name, tt := range cases {
			h := d.Hook(name)
			h.Filter = tt.filter
			c.Hooks = append(c.Hooks, h)
		}
		h := d.Hook("here")
		h.Filter.Namespaces = []string{c.Namespace}
		c.Hooks = append(c.Hooks, h)
	}}, nil)
	id := w.Open("assistant", "bob")
	// Results arrive in any order: sequential calls keep their order.
	check.Say(w, id, "@assistant use spied {}\nuse note {}")
	check.Say(w, id, "@bob use note {}")
	for _, m := range []event.NewMessage{
		{ThreadID: id, SenderID: "house", SenderType: event.CreatedBySystem, Content: "the rules have changed"},
		{ThreadID: id, SenderID: "cron", SenderType: event.CreatedByTool, Content: "@assistant it is noon"},
	} {
		check.Turn(w, id, signals.NewPost("", m))
	}
	for _, typ := range []string{"ticket.opened", "ticket.closed", "order.placed"} {
		check.Turn(w, id, check.Custom("", typ, 1))
	}
	seenBy := func(thread, name string) (out []string) {
		for _, e := range d.Asked(thread, name) {
			what := e.What()
			if e.Agent != "" {
				what += " " + e.Agent
			}
			out = append(out, what)
		}
		return out
	}
	for name, tt := range cases {
		t.Run("S2-18 "+name, func(t *testing.T) { require.Equal(t, tt.want, seenBy(id, name)) })
	}
	t.Run("S2-42 of one namespace", func(t *testing.T) {
		require.Equal(t, all, seenBy(id, "here"))
		other, err := threadclient.New(threadclient.Config{Temporal: w.Temporal, Namespace: "elsewhere", TaskQueue: w.TaskQueue})
		require.NoError(t, err)
		require.NoError(t, other.Open(w.Ctx(), "away-"+id, signals.Start{Agents: []string{"bob"}}, nil))
		_, err = other.Turn(w.Ctx(), "away-"+id, signals.UserMessage("away-"+id, "ann", "hello"))
		require.NoError(t, err)
		require.Equal(t, []string{"message user", "message agent bob"}, seenBy("away-"+id, "elsewhere"))
		require.Empty(t, seenBy("away-"+id, "here"))
	})
}
