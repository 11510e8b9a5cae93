package tests

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tool"
)

// TestToolQueues: the calls of a tool with a task queue run in the process that serves it, also
// those of quick and background tools, and wait visibly while there is none.
//
//ci:replayed
func TestToolQueues(t *testing.T) {
	t.Parallel()
	const gpu = "tool-queues/gpu"
	where := make(chan string, 8)
	tools := func(process string) []tool.Tool {
		run := func(name string) func(context.Context, tool.Call, struct{}) (string, error) {
			return func(context.Context, tool.Call, struct{}) (string, error) {
				where <- name + " in " + process
				return "done", nil
			}
		}
		var out []tool.Tool
		for name, opts := range map[string][]tool.Option{"render": nil, "glance": {tool.Quick()}, "train": {tool.Background()}} {
			out = append(out, tool.MustFunc(name, "Works.", run(name), append(opts, tool.OnTaskQueue(gpu))...))
		}
		return out
	}
	here := harness.New(t, harness.Options{
		Agents: []agent.Agent{{Name: "assistant", Model: "openai/stand-in", Tools: []string{"render", "glance", "train"}}},
		Tools:  tools("the threads'"),
	})
	id := here.Open()
	posted := here.Post(id, "use render {}\nuse glance {}\nuse train {}")
	require.Eventually(t, func() bool {
		found, err := here.Threads.Workers(here.Ctx(), id)
		return err == nil && found.Steps && !found.Polled && found.TaskQueue == gpu
	}, testenv.Patience, testenv.Tick, "the call waits for a worker of its queue")
	require.Empty(t, where)
	anywhere, err := here.Threads.Workers(here.Ctx(), "")
	require.NoError(t, err)
	require.Equal(t, gpu, anywhere.TaskQueue, "also before a thread needs it")

	elsewhere := here.Beside(func(cfg *threadmill.Config) {
		cfg.Tools, cfg.ToolQueues, cfg.OnlyToolQueues = tools("its own"), []string{gpu}, true
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- elsewhere.Run(ctx) }()
	require.Equal(t, signals.TurnCompleted, here.Await(id, posted).Status)
	var ran []string
	for range 3 {
		ran = append(ran, <-where)
	}
	require.ElementsMatch(t, []string{"render in its own", "glance in its own", "train in its own"}, ran)
	found, err := here.Threads.Workers(here.Ctx(), id)
	require.NoError(t, err)
	require.True(t, found.Polled)
	require.False(t, found.Steps)
	stop()
	require.NoError(t, <-ended)
}
