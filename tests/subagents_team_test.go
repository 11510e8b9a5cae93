package tests

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// team are an agent that asks others, one that does the work, and one in between.
func team(tools ...string) []agent.Agent {
	asking := []string{"call_agent", "call-agent", "task", "list_tasks", "get_task", "cancel_task", "note", "shell_cmd"}
	one := func(name string, tools ...string) agent.Agent {
		return agent.Agent{Name: name, Instructions: "You are " + name + ".", Model: "openai/stand-in", Tools: tools}
	}
	return []agent.Agent{
		one("assistant", append(asking, tools...)...),
		one("manager", append(asking, tools...)...),
		one("helper", append([]string{"note", "shell_cmd"}, tools...)...),
	}
}

// asks is a line that makes the model ask another agent to follow the lines.
func asks(who string, lines ...string) string { return uses("call-agent", who, lines) }

// assigns is [asks] for a background task.
func assigns(who string, lines ...string) string { return uses("task", who, lines) }

func uses(tool, who string, lines []string) string {
	raw, err := json.Marshal(map[string]string{"agent": who, "message": strings.Join(lines, "\n")})
	if err != nil {
		panic(err) // a string can be marshalled
	}
	return "use " + tool + " " + string(raw)
}

// subs are the threads of a thread's sub-agents, in the order of the calls.
func subs(w *harness.Harness, thread string) (ids []string) {
	w.T.Helper()
	found, err := w.Store.Threads(w.Ctx(), w.TaskQueue, store.ThreadPage{Limit: 200})
	require.NoError(w.T, err)
	for _, row := range found {
		var metadata map[string]any
		if json.Unmarshal(row.Metadata, &metadata) == nil && metadata[signals.MetadataParent] == thread {
			ids = append(ids, row.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// sub waits until a thread's nth sub-agent, from 1, has started, and returns its thread.
func sub(w *harness.Harness, thread string, number int) string {
	w.T.Helper()
	var ids []string
	require.Eventually(w.T, func() bool {
		ids = subs(w, thread)
		return len(ids) >= number
	}, waitLong, waitTick, "sub-agent %d of thread %s", number, thread)
	return ids[number-1]
}

// resultIn returns the one result of a tool in a thread.
func resultIn(t *testing.T, w *harness.Harness, thread, tool string) event.Message {
	t.Helper()
	return only(t, resultsOf(w, thread, tool))
}

// resultsOf returns the results of a tool in a thread, in order of arrival.
func resultsOf(w *harness.Harness, thread, tool string) []event.Message {
	w.T.Helper()
	var out []event.Message
	for _, m := range w.Messages(thread) {
		if m.ToolCallID != "" && m.ToolName == tool {
			out = append(out, m)
		}
	}
	return out
}

// awaitClosed waits until a sub-agent has ended, and all of its thread is stored.
func awaitClosed(w *harness.Harness, thread string) {
	w.T.Helper()
	require.Eventually(w.T, func() bool {
		row, err := w.Store.Thread(w.Ctx(), w.Key(thread))
		return err == nil && row.Status == store.ThreadClosed
	}, waitLong, waitTick, "thread %s is closed", thread)
}
