package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/workflows"
)

// titled is a world with a title model. The activity returns the test's response.
func titled(t *testing.T, answer func(context.Context, step.Title) (step.TitleReply, error)) (w *fixture, memo *[]map[string]any) {
	t.Helper()
	w = newFixture(t)
	w.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		out := reply(in, "ok")
		out.Titles = true
		return out, nil
	}
	w.RegisterActivityWithOptions(answer, activity.RegisterOptions{Name: step.ActivityTitleThread})
	memo = &[]map[string]any{}
	w.OnUpsertMemo(mock.Anything).Run(func(args mock.Arguments) {
		*memo = append(*memo, args.Get(0).(map[string]any))
	}).Return(nil)
	return w, memo
}

// TestTitleOfAThreadThatMoves: the next run generates the title.
func TestTitleOfAThreadThatMoves(t *testing.T) {
	w, _ := titled(t, nil)
	w.OnActivity(step.ActivityTitleThread, mock.Anything, mock.Anything).After(time.Hour).Return(step.TitleReply{Title: "x"}, nil)
	w.then(func() { w.post("m1", "hello") })
	w.RegisterDelayedCallback(func() {
		// Records that must be stored before continue-as-new, while the title is generated.
		w.suggestWith(signals.SignalControl, signals.Control{Action: "dance"})
	}, 90*time.Second)
	require.False(t, w.leave(workflows.Input{}).State.Titling.Tried)
}

func TestTitle(t *testing.T) {
	var asked []step.Title
	w, memo := titled(t, func(_ context.Context, in step.Title) (step.TitleReply, error) {
		asked = append(asked, in)
		return step.TitleReply{Title: "All about waiting", Usage: event.Usage{InputTokens: 5}}, nil
	})
	w.then(func() { w.post("m1", "hello") })
	w.then(func() {
		require.Equal(t, "All about waiting", w.state().Title)
		require.Equal(t, 6, w.state().Usage.InputTokens, "its tokens count")
		w.post("m2", "and now?")
	})
	w.run(workflows.Input{})
	require.Len(t, asked, 1, "once")
	require.Equal(t, step.Ref{Namespace: "ns", ThreadID: "t1"}, asked[0].Thread)
	require.Equal(t, []map[string]any{{signals.MemoTitle: "All about waiting"}}, *memo)
	require.Len(t, w.models, 2)
}

// TestTitleIsToldOf: like any change of a thread, a title is an event for rules.
func TestTitleIsToldOf(t *testing.T) {
	f := newFakes(t)
	w := ruledWorld(t, f, rule.Rule{Name: "r", Events: []string{event.TypeSessionUpdated}, Priority: 60, Function: handling})
	f.model = func(_ context.Context, in step.Model) (step.ModelReply, error) {
		out := reply(in, "ok")
		out.Titles = true
		return out, nil
	}
	w.RegisterActivityWithOptions(func(context.Context, step.Title) (step.TitleReply, error) {
		return step.TitleReply{Title: "All about waiting"}, nil
	}, activity.RegisterOptions{Name: step.ActivityTitleThread})
	w.then(func() { w.post("m1", "hello") })
	w.run(workflows.Input{})
	require.Len(t, w.handled, 1)
	told := stored[event.EnvEvent](f, event.TypeEnv)
	require.Contains(t, string(told[len(told)-1].Payload), "All about waiting")
}

// TestTitleTakesItsTime: turns continue meanwhile, and a title that was set by hand stands.
func TestTitleTakesItsTime(t *testing.T) {
	w, memo := titled(t, nil)
	given := make(chan struct{})
	w.RegisterActivityWithOptions(func(context.Context, step.Title) (step.TitleReply, error) {
		// This message arrives while the title is generated, which begins only when the thread is
		// idle.
		w.post("m2", "and now?")
		<-given
		return step.TitleReply{Title: "Too late"}, nil
	}, activity.RegisterOptions{Name: step.ActivityTitleThread, DisableAlreadyRegisteredCheck: true})
	model := w.model
	w.model = func(ctx context.Context, in step.Model) (step.ModelReply, error) {
		if in.EventID == "m2" {
			w.update(signals.UpdateThread, signals.ThreadChange{Title: "Mine", By: "ann"})
			close(given)
		}
		return model(ctx, in)
	}
	w.then(func() { w.post("m1", "hello") })
	w.then(func() {
		require.Len(t, w.models, 2)
		require.Equal(t, "Mine", w.state().Title)
	})
	w.run(workflows.Input{})
	require.Equal(t, []map[string]any{{signals.MemoTitle: "Mine"}}, *memo)
}

// TestNoTitle: a failure is ignored, and a thread with a title keeps it.
func TestNoTitle(t *testing.T) {
	for name, answer := range map[string]func(context.Context, step.Title) (step.TitleReply, error){
		"it fails": func(context.Context, step.Title) (step.TitleReply, error) {
			return step.TitleReply{}, errors.New("no")
		},
		"nothing to go by": func(context.Context, step.Title) (step.TitleReply, error) { return step.TitleReply{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			w, memo := titled(t, func(ctx context.Context, in step.Title) (step.TitleReply, error) {
				tries++
				return answer(ctx, in)
			})
			w.then(func() { w.post("m1", "hello") })
			w.at = time.Hour
			w.then(func() { w.post("m2", "and now?") })
			w.run(workflows.Input{})
			require.Empty(t, *memo)
			require.Positive(t, tries)
			require.LessOrEqual(t, tries, 5, "it is tried for a while only")
			require.Len(t, w.models, 2)
			require.NotContains(t, w.types(), event.TypeError)
		})
	}
	t.Run("it has one", func(t *testing.T) {
		w, _ := titled(t, func(context.Context, step.Title) (step.TitleReply, error) { panic("nobody asks for one") })
		w.then(func() { w.post("m1", "hello") })
		w.run(workflows.Input{Start: signals.Start{Title: "Mine"}})
		require.Equal(t, "closed", w.row.Status)
	})
}
