package check

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// Touches is a line that makes a sub-agent create a file, which needs approval.
func Touches(file string) string { return `use shell_cmd {"command":"echo made >> ` + file + `"}` }

// Made is the content of the file: a line for each run.
func Made(w *harness.Harness, file string) string {
	w.T.Helper()
	raw, err := os.ReadFile(w.Shell + "/" + file)
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(w.T, err)
	return string(raw)
}

// ApprovalsOf are a thread's decisions on a call.
func ApprovalsOf(w *harness.Harness, thread, toolCallID string) (out []event.Approval) {
	w.T.Helper()
	for _, r := range OfType(w, thread, event.TypeApproval) {
		if a := harness.Payload[event.Approval](w, r); a.ToolCallID == toolCallID {
			out = append(out, a)
		}
	}
	return out
}

// Team are an agent that asks others, one that does the work, and one in between.
func Team(tools ...string) []agent.Agent {
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

// Asks is a line that makes the model ask another agent to follow the lines.
func Asks(who string, lines ...string) string { return Uses("call-agent", who, lines) }

// Uses makes an agent call a tool that hands lines to another one.
func Uses(tool, who string, lines []string) string {
	raw, err := json.Marshal(map[string]string{"agent": who, "message": strings.Join(lines, "\n")})
	if err != nil {
		panic(err) // a string can be marshalled
	}
	return "use " + tool + " " + string(raw)
}

// Subs are the threads of a thread's sub-agents, in the order of the calls.
func Subs(w *harness.Harness, thread string) (ids []string) {
	w.T.Helper()
	found, err := w.Store.Threads(w.Ctx(), w.TaskQueue, store.ThreadPage{Limit: 200})
	require.NoError(w.T, err)
	for _, row := range found {
		if row.Parent == thread {
			ids = append(ids, row.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Sub waits until a thread's nth sub-agent, from 1, has started, and returns its thread.
func Sub(w *harness.Harness, thread string, number int) string {
	w.T.Helper()
	var ids []string
	require.Eventually(w.T, func() bool {
		ids = Subs(w, thread)
		return len(ids) >= number
	}, testenv.Patience, testenv.Tick, "sub-agent %d of thread %s", number, thread)
	return ids[number-1]
}

// ResultIn returns the one result of a tool in a thread.
func ResultIn(t *testing.T, w *harness.Harness, thread, tool string) event.Message {
	t.Helper()
	return Only(t, ResultsOf(w, thread, tool))
}

// ResultsOf returns the results of a tool in a thread, in order of arrival.
func ResultsOf(w *harness.Harness, thread, tool string) []event.Message {
	w.T.Helper()
	var out []event.Message
	for _, m := range w.Messages(thread) {
		if m.ToolCallID != "" && m.ToolName == tool {
			out = append(out, m)
		}
	}
	return out
}
