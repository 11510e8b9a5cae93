package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/signals"
)

// watchTitle generates a title for an idle thread without one, concurrently to its turns.
func (t *conversation) watchTitle(ctx workflow.Context) {
	workflow.GoNamed(ctx, "title", func(ctx workflow.Context) {
		s := t.state
		// A thread that continues as new tries it in its next run.
		for workflow.Await(ctx, func() bool { return !t.continuingAsNew && s.TitleDue() }) == nil {
			t.pendingSends++
			t.title(ctx)
			t.pendingSends--
		}
	})
}

func (t *conversation) title(ctx workflow.Context) {
	s := t.state
	input := s.TitleStep()
	var reply step.TitleReply
	own, cancel := workflow.WithCancel(ctx)
	defer cancel()
	for again := true; again; again = reply.Route != nil {
		if !t.findTitle(ctx, own, input, &reply) {
			return
		}
		input.Route, input.Flush = reply.Route, step.Flush{}
	}
	if !s.ApplyTitle(reply) {
		return
	}
	if err := workflow.UpsertMemo(ctx, map[string]any{signals.MemoTitle: reply.Title}); err != nil {
		workflow.GetLogger(ctx).Warn("setting the memo of a thread", "thread", s.ThreadID, "error", err)
	}
	t.lifecycle(ctx, event.TypeSessionUpdated, input.RecordID)
}

// findTitle generates a title in an activity, whose context is own. It reports whether there is a
// reply.
func (t *conversation) findTitle(ctx, own workflow.Context, input step.Title, reply *step.TitleReply) bool {
	s := t.state
	*reply = step.TitleReply{}
	options := onModelQueue(lowPriorityOptions(own, "title"), queueOf(input.Route), s.Namespace)
	found := workflow.ExecuteActivity(options, step.ActivityTitleThread, input)
	if workflow.Await(ctx, func() bool { return found.IsReady() || s.Closing != nil || t.continuingAsNew }) != nil || !found.IsReady() {
		// A thread that is closed or continues as new does not wait for the title. The next run
		// tries again.
		s.Titling.Abandoned(s.Closing != nil)
		return false
	}
	if err := found.Get(ctx, reply); err != nil {
		workflow.GetLogger(ctx).Warn("finding a title for a thread", "thread", s.ThreadID, "error", err)
		return false
	}
	return true
}
