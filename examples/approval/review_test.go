package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
)

// TestReview runs the workflow in the SDK's test environment, which skips timers: the day takes no
// time.
func TestReview(t *testing.T) {
	said := func(content string) []hook.Response {
		return []hook.Response{{SenderType: event.CreatedBySystem, SenderID: "review", Content: content}}
	}
	for name, tt := range map[string]struct {
		ruling *Ruling
		after  time.Duration
		want   []hook.Response
		took   time.Duration
	}{
		"released":           {&Ruling{Release: true, By: "bob"}, 3 * time.Hour, nil, 3 * time.Hour},
		"held back":          {&Ruling{By: "bob"}, 23 * time.Hour, said("bob has held the reply back."), 23 * time.Hour},
		"nobody decides":     {nil, 0, said("Nobody has released the reply within a day."), 24 * time.Hour},
		"a minute too late":  {&Ruling{Release: true, By: "bob"}, patience + time.Minute, said("Nobody has released the reply within a day."), 24 * time.Hour},
		"at the last minute": {&Ruling{Release: true, By: "bob"}, patience - time.Minute, nil, patience - time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
			// Real time; the default is three seconds.
			env.SetTestTimeout(2 * time.Minute)
			if tt.ruling != nil {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow("rule", *tt.ruling) }, tt.after)
			}
			began := env.Now()
			env.ExecuteWorkflow(Review, hook.Request{})

			require.True(t, env.IsWorkflowCompleted())
			require.NoError(t, env.GetWorkflowError())
			var verdict hook.Verdict
			require.NoError(t, env.GetWorkflowResult(&verdict))
			require.Equal(t, tt.want, verdict.Responses)
			require.Empty(t, verdict.Event)
			require.Equal(t, tt.took, env.Now().Sub(began), "time of the workflow")

			answer, err := verdict.Read(event.MessageEvent{CreatedBy: event.CreatedByAgent, ThreadID: "t1"})
			require.NoError(t, err, "a thread takes the verdict")
			require.Equal(t, tt.want == nil, answer.Outcome == event.OutcomePassed)
		})
	}
}

func TestReviewStopsWithItsTurn(t *testing.T) {
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
	env.ExecuteWorkflow(Review, hook.Request{})
	require.ErrorContains(t, env.GetWorkflowError(), "canceled")
}
