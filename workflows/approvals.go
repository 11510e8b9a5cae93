package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/step"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
)

// approvals handles decisions of people.
type approvals struct{ *conversation }

func (t approvals) handlers() []handler {
	return []handler{
		onSignal(t.conversation, signals.SignalDecide, t.decide),
		onSignal(t.conversation, signals.SignalRevoke, t.revoke),
		onUpdate(t.conversation, signals.UpdateDecide, "decide on a tool call", signals.Decide.Validate, t.updateDecide),
		onUpdate(t.conversation, signals.UpdateRevoke, "take an approval back", signals.Revoke.Validate, t.updateRevoke),
		onQuery(signals.QueryApprovals, "the tool calls that wait for approval, for a client or for input", func(workflow.Context) signals.Approvals {
			return signals.Approvals{Approvals: t.state.Approvals(), ClientCalls: t.state.Turns.ClientCalls(), Inputs: t.state.InputRequests()}
		}),
	}
}

// decide handles a decision by signal.
func (t approvals) decide(ctx workflow.Context, name string, d signals.Decide) {
	if err := d.Validate(); err != nil {
		t.state.Reject(workflow.Now(ctx), name, d, err)
		return
	}
	children(t).take(ctx, name, t.state.ReadDecision(d))
}

// earlyDecisionTimeout is the time that a decision by update waits until the thread knows its call.
const earlyDecisionTimeout = 5 * time.Second

func (t approvals) updateDecide(ctx workflow.Context, d signals.Decide) (signals.DecideResult, error) {
	r, kept, err := awaitCall(ctx, t.conversation, func() thread.Ruling { return t.state.ReadDecision(d) })
	if kept != "" || err != nil {
		return signals.DecideResult{Result: kept}, err
	}
	if r.Below() {
		return children(t).decideForChild(ctx, r)
	}
	if err := r.Problem(); err != nil {
		return signals.DecideResult{}, refuse(err)
	}
	checked := t.check(ctx, r)
	if err := checked.Err(); err != nil {
		return signals.DecideResult{}, refuse(err)
	}
	// The state may have changed during the check.
	return t.state.ReadDecision(d).Apply(workflow.Now(ctx), checked), nil
}

// reading is a decision, a result or an answer as the thread has read it.
type reading interface {
	Early() bool
	Keep() (out signals.DecideOutcome, ok bool)
}

// awaitCall reads a decision, a result or an answer by update, and waits until the thread knows the call that it is for:
// it is early until then. If the thread continues as new before, the next run applies what was kept, and
// the outcome is that of Keep.
func awaitCall[R reading](ctx workflow.Context, t *conversation, read func() R) (r R, kept signals.DecideOutcome, err error) {
	if r = read(); !r.Early() {
		return r, "", nil
	}
	_, err = awaitFor(ctx, earlyDecisionTimeout, "a decision that is early", func() bool { return t.continuingAsNew || !read().Early() })
	t.answerSoon(ctx)
	if err != nil {
		return r, "", err
	}
	if r = read(); !r.Early() {
		return r, "", nil
	}
	if t.continuingAsNew {
		if kept, ok := r.Keep(); ok {
			return r, kept, nil
		}
	}
	// A step that has stored its reply can take long to return, for example if the live stream is
	// unavailable or its worker has died.
	return r, "", refuse(signals.ErrEarly)
}

// check validates the edited arguments or the pattern of a decision, if it has any. The thread must read the decision again
// after it.
func (t approvals) check(ctx workflow.Context, r thread.Ruling) step.CheckReply {
	input, ok := r.Unchecked()
	if !ok {
		return step.CheckReply{}
	}
	var reply step.CheckReply
	if err := localFirst(ctx, bounded, "check a decision", step.ActivityCheckDecision, input, &reply); err != nil {
		why, _ := explain(err)
		return step.CheckReply{Field: cmp.Or(r.Checked(), "by"), Problem: "could not be checked: " + why}
	}
	return reply
}

// watchDecisions validates the decisions that arrived by signal, cancels the calls that a message
// supersedes, and runs the calls that a new grant covers.
func (t approvals) watchDecisions(ctx workflow.Context) {
	workflow.GoNamed(ctx, "decisions", func(ctx workflow.Context) {
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		s := t.state
		supersedes := func() bool { _, ok := s.Superseding(); return ok }
		checks := func() bool { _, ok := s.Decisions.NextToCheck(); return ok }
		due := func() bool {
			return checks() || s.RestoredDue() || s.EarlyDue() || s.Turns.Cascading() != nil || supersedes()
		}
		for workflow.Await(ctx, due) == nil {
			t.pendingSends++
			s.ApplyRestored(workflow.Now(ctx))
			t.applyEarly(ctx)
			for q, ok := s.Superseding(); ok; q, ok = s.Superseding() {
				t.affect(ctx, q)
			}
			for d, ok := s.Decisions.NextToCheck(); ok; d, ok = s.Decisions.NextToCheck() {
				checked := t.check(ctx, s.ReadDecision(d))
				s.ApplyChecked(workflow.Now(ctx), checked)
			}
			for turn := s.Turns.Cascading(); turn != nil; turn = s.Turns.Cascading() {
				t.cascade(ctx, turn)
			}
			t.pendingSends--
		}
	})
}

// applyEarly handles the decisions, results and answers by signal that are no longer early.
func (t approvals) applyEarly(ctx workflow.Context) {
	for {
		switch d, a := t.state.NextEarly(workflow.Now(ctx)); {
		case d != nil:
			t.decide(ctx, signals.SignalDecide, *d)
		case a != nil:
			inputs(t).answer(ctx, signals.SignalAnswerInput, *a)
		default:
			return
		}
	}
}

// cascade checks waiting calls again that a new grant may cover.
func (t approvals) cascade(ctx workflow.Context, turn *thread.Turn) {
	r := turn.NextCascade()
	if r == nil {
		turn.Cascaded()
		return
	}
	reply, err := t.planCalls(ctx, r.CascadeStep)
	turn.Cascaded()
	if err != nil {
		workflow.GetLogger(ctx).Warn("checking calls that a new grant may cover", "thread", t.state.ThreadID, "error", err)
		return
	}
	r.Cover(workflow.Now(ctx), reply)
}

func (t approvals) revoke(ctx workflow.Context, name string, v signals.Revoke) {
	if err := v.Validate(); err != nil {
		t.state.Reject(workflow.Now(ctx), name, v, err)
		return
	}
	t.state.Revoke(workflow.Now(ctx), v)
}

// updateRevoke revokes an approval. It returns once the record is stored: from then on, no call
// runs because of the approval.
func (t approvals) updateRevoke(ctx workflow.Context, v signals.Revoke) (signals.DecideResult, error) {
	if id := t.state.Revoke(workflow.Now(ctx), v); t.state.Outbox.Unwritten(id) {
		t.record(ctx)
		if err := workflow.Await(ctx, func() bool { return !t.state.Outbox.Unwritten(id) }); err != nil {
			return signals.DecideResult{}, err
		}
	}
	return signals.DecideResult{Result: signals.DecideAccepted}, nil
}

// watchStatus keeps the search attribute that says whether the thread waits for approval up to
// date.
func (t approvals) watchStatus(ctx workflow.Context) {
	workflow.GoNamed(ctx, "status", func(ctx workflow.Context) {
		s := t.state
		for workflow.Await(ctx, s.ListingDue) == nil {
			if err := workflow.UpsertTypedSearchAttributes(ctx, searchattr.Waiting(s.List())); err != nil {
				workflow.GetLogger(ctx).Error("setting the search attribute of a thread that waits", "thread", s.ThreadID, "error", err)
			}
		}
	})
}
