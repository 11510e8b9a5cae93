package providers

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tests/internal/check"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// limited is a world whose provider "openai" has limits.
func limited(t *testing.T, l llm.Limits) *harness.Harness {
	return harness.New(t, harness.Options{
		Agents:    []agent.Agent{{Name: "assistant", Model: "openai/stand-in", Tools: []string{"note"}}},
		Configure: func(cfg *threadmill.Config) { cfg.ModelLimits = map[string]llm.Limits{"openai": l} },
	})
}

// says posts messages to threads, each with several, and waits for the ends of all turns.
func says(w *harness.Harness, threads, messages int, text string) (begun time.Time) {
	begun = time.Now()
	posted := map[string][]string{}
	for range threads {
		id := w.Open()
		for range messages {
			posted[id] = append(posted[id], w.Post(id, text))
		}
	}
	for id, events := range posted {
		for _, e := range events {
			require.Equal(w.T, signals.TurnCompleted, w.Await(id, e).Status)
		}
	}
	return begun
}

// perMinute is the rate limit of the task queue of a provider.
func perMinute(w *harness.Harness, provider string) float64 {
	out, err := w.Temporal.WorkflowService().DescribeTaskQueue(w.Ctx(), &workflowservice.DescribeTaskQueueRequest{
		Namespace: "default", TaskQueueType: enumspb.TASK_QUEUE_TYPE_ACTIVITY, ReportConfig: true,
		TaskQueue: &taskqueuepb.TaskQueue{Name: job.ModelTaskQueue(w.TaskQueue, provider), Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
	})
	require.NoError(w.T, err)
	return 60 * float64(out.GetConfig().GetQueueRateLimit().GetRateLimit().GetRequestsPerSecond())
}

// holds checks a limit by the provider's own time stamps: at no time have more requests arrived than
// the limit and the burst of one second permit, within 5 %. A machine that stalls delays requests, and
// lets none arrive early.
func holds(t *testing.T, perMinute float64, begun time.Time, requests []llmtest.Request) {
	t.Helper()
	for i, r := range requests {
		permitted := perMinute / 60 * (r.At.Sub(begun) + time.Second).Seconds()
		require.LessOrEqual(t, float64(i+1), 1.05*permitted+1, "after %s", r.At.Sub(begun))
	}
}

// TestLimitedRequests: a step of a limited provider runs on the provider's task queue, at its rate, and
// the thread goes there at once from its second step on.
//
//ci:replayed
func TestLimitedRequests(t *testing.T) {
	t.Parallel()
	const limit = 300
	w := limited(t, llm.Limits{RequestsPerMinute: limit})
	require.Eventually(t, func() bool { return perMinute(w, "openai") > 0 }, testenv.Patience, testenv.Tick)
	require.InEpsilon(t, limit, perMinute(w, "openai"), 0.001)
	begun := says(w, 20, 3, "hello")
	requests := w.Provider.Requests()
	require.Len(t, requests, 60, "each reply is requested once")
	holds(t, limit, begun, requests)
	took := requests[59].At.Sub(begun)
	require.Less(t, took, 10*time.Minute*60/limit, "it is a rate, and no pause")

	id := w.Open()
	steps := func() (common, own int) {
		events, err := check.RunHistory(w.Ctx(), w.Temporal, signals.WorkflowID(w.TaskQueue, id), "")
		require.NoError(t, err)
		for _, e := range events {
			a := e.GetActivityTaskScheduledEventAttributes()
			switch {
			case a.GetActivityType().GetName() != step.ActivityCallModel:
			case a.GetTaskQueue().GetName() == w.TaskQueue:
				common++
			default:
				require.Equal(t, job.ModelTaskQueue(w.TaskQueue, "openai"), a.GetTaskQueue().GetName())
				require.Equal(t, w.TaskQueue, a.GetPriority().GetFairnessKey())
				own++
			}
		}
		return common, own
	}
	w.Say(id, "use note {}")
	w.Say(id, "and again")
	common, own := steps()
	require.Equal(t, 1, common, "only the first step asks where to go")
	require.Equal(t, 3, own)
}

// TestLimitedTokens: the rate follows the tokens that calls use.
func TestLimitedTokens(t *testing.T) {
	t.Parallel()
	const tokens = 30_000
	w := limited(t, llm.Limits{RequestsPerMinute: 100_000, TokensPerMinute: tokens})
	require.Eventually(t, func() bool { return perMinute(w, "openai") > 0 }, testenv.Patience, testenv.Tick)
	require.InEpsilon(t, 15, perMinute(w, "openai"), 0.01, "before anything was measured")
	id := w.Open()
	w.Say(id, "hello")
	cost := tokensOf(w, id)
	require.Eventually(t, func() bool { return perMinute(w, "openai") > 16 }, testenv.Patience, testenv.Tick)
	require.InEpsilon(t, tokens/cost, perMinute(w, "openai"), 0.02)

	// Other calls cost more.
	const n = 40
	text := strings.TrimSpace(strings.Repeat("word ", int(cost)))
	says(w, n, 1, text)
	first := w.Open()
	w.Say(first, text)
	cost = tokensOf(w, first)
	require.Eventually(t, func() bool {
		rate := perMinute(w, "openai")
		return rate > 0.95*tokens/cost && rate < 1.05*tokens/cost
	}, testenv.Patience, testenv.Tick, "both limits hold in the steady state")
}

func tokensOf(w *harness.Harness, id string) float64 {
	state, err := w.Threads.State(w.Ctx(), id)
	require.NoError(w.T, err)
	return float64(state.Usage.InputTokens + state.Usage.OutputTokens)
}

// TestTenantsTakeTurns: a tenant that floods a limited provider does not starve another one. The
// histories tell who went first, however long the machine takes.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	w := limited(t, llm.Limits{RequestsPerMinute: 60})
	other, err := threadclient.New(threadclient.Config{Temporal: w.Temporal, Namespace: w.TaskQueue + "-other", TaskQueue: w.TaskQueue})
	require.NoError(t, err)
	require.NoError(t, other.Open(w.Ctx(), "quiet", signals.Start{}, nil))
	flood := map[string]string{}
	for range 40 {
		flood[w.Open()] = ""
	}
	// They are all open by now, so that a slow machine posts faster than the provider may be called.
	for id := range flood {
		flood[id] = w.Post(id, "flood")
	}
	require.Eventually(t, func() bool { return w.Provider.Calls() > 2 }, testenv.Patience, testenv.Tick)
	out, err := other.Turn(w.Ctx(), "quiet", signals.UserMessage("quiet", "bob", "me too"))
	require.NoError(t, err)
	require.Equal(t, signals.TurnCompleted, out.Status)
	asked, answered := limitedCall(w, signals.WorkflowID(w.TaskQueue+"-other", "quiet"))
	ahead, behind := 0, 0
	for id, posted := range flood {
		require.Equal(t, signals.TurnCompleted, w.Await(id, posted).Status)
		before, called := limitedCall(w, signals.WorkflowID(w.TaskQueue, id))
		switch {
		case before.After(asked) || called.Before(asked): // did not wait when the other one came
		case called.Before(answered):
			ahead++
		default:
			behind++
		}
	}
	t.Logf("of the flood that waited, %d went ahead and %d came after", ahead, behind)
	require.Less(t, ahead, behind, "the other tenant did not wait for the whole flood")
}

// limitedCall is when a thread asked for a call of its limited provider, and when the call began.
func limitedCall(w *harness.Harness, workflowID string) (asked, begun time.Time) {
	events, err := check.RunHistory(w.Ctx(), w.Temporal, workflowID, "")
	require.NoError(w.T, err)
	var scheduled int64
	for _, e := range events {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetTaskQueue().GetName() == job.ModelTaskQueue(w.TaskQueue, "openai") {
			scheduled, asked = e.GetEventId(), e.GetEventTime().AsTime()
		}
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil && a.GetScheduledEventId() == scheduled {
			begun = e.GetEventTime().AsTime()
		}
	}
	require.NotZero(w.T, begun, workflowID)
	return asked, begun
}
