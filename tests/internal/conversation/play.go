package conversation

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// Play opens a thread and acts for the people and the world in the transcript, each time after
// everything before has ended. Workers may come and go.
func (t *Transcript) Play(ctx context.Context, threads *threadclient.Client, thread string) error {
	p := player{Transcript: t, threads: threads, thread: thread}
	err := threads.Open(ctx, thread, signals.Start{Agents: t.Names(), TurnLimit: t.TurnLimit}, nil)
	for i := 0; err == nil && i < len(t.Lines); i++ {
		if err = p.plays(ctx, t.Lines[i]); err != nil {
			err = fmt.Errorf("%s: line %d, of %s: %w", thread, i+1, t.Lines[i].Who, err)
		}
	}
	if err != nil {
		return err
	}
	return p.over(ctx)
}

type player struct {
	*Transcript
	threads *threadclient.Client
	thread  string

	// turn receives the end of the turn in progress, posts is its number.
	turn  chan error
	posts int
}

func (p *player) plays(ctx context.Context, l Line) error {
	switch {
	case p.isAgent(l.Who):
		return nil // the model replies
	case l.Who == Namer:
		if err := p.over(ctx); err != nil {
			return err
		}
		return p.await(ctx, func() (bool, error) {
			state, err := p.threads.State(ctx, p.thread)
			return state.Title != "", err
		})
	case l.Approves != "":
		return p.decides(ctx, l, l.Approves, event.DecisionApprove)
	case l.Denies != "":
		return p.decides(ctx, l, l.Denies, event.DecisionDeny)
	case l.Answers != "":
		return p.answers(ctx, l)
	}
	if err := p.over(ctx); err != nil {
		return err
	}
	p.says(ctx, l)
	return nil
}

// says posts a message, whose turn may need people.
func (p *player) says(ctx context.Context, l Line) {
	p.posts++
	m := event.NewMessage{ThreadID: p.thread, SenderID: l.Who, SenderType: event.CreatedByUser, Content: in(p.thread, l.Says)}
	if l.Who == World {
		m.SenderType = event.CreatedByTool
	}
	post := signals.NewPost(fmt.Sprintf("post-%d", p.posts), m)
	ended := make(chan error, 1)
	p.turn = ended
	go func() {
		out, err := p.threads.Turn(ctx, p.thread, post)
		if err == nil && out.Status != signals.TurnCompleted && out.Status != signals.TurnUnanswered {
			err = fmt.Errorf("the turn of %s is %s: %s", post.ID, out.Status, out.Error)
		}
		ended <- err
	}()
}

// over waits until the turn in progress has ended.
func (p *player) over(ctx context.Context) error {
	if p.turn == nil {
		return nil
	}
	select {
	case err := <-p.turn:
		p.turn = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decides decides on the one pending call.
func (p *player) decides(ctx context.Context, l Line, toolName string, decision event.Decision) error {
	var call event.ApprovalRequest
	err := p.await(ctx, func() (bool, error) {
		waiting, err := p.threads.Approvals(ctx, p.thread)
		if err != nil || len(waiting.Approvals) != 1 {
			return false, err
		}
		call = waiting.Approvals[0]
		return true, nil
	})
	if err != nil {
		return err
	}
	out, err := p.threads.Decide(ctx, p.thread, signals.Decide{
		ToolCallID: call.ToolCallID, ToolName: toolName, Decision: decision,
		Scope: event.Scope(cmp.Or(l.Scope, string(event.ScopeOnce))), Reason: l.Reason, By: l.Who,
	})
	return accepted(out.Result, err)
}

// answers returns the result of the one call that waits for a client.
func (p *player) answers(ctx context.Context, l Line) error {
	var call event.ClientCall
	err := p.await(ctx, func() (bool, error) {
		waiting, err := p.threads.Approvals(ctx, p.thread)
		if err != nil || len(waiting.ClientCalls) != 1 {
			return false, err
		}
		call = waiting.ClientCalls[0]
		return true, nil
	})
	if err != nil {
		return err
	}
	out, err := p.threads.ToolResult(ctx, p.thread, signals.ToolResult{ToolCallID: call.ToolCallID, ToolName: l.Answers, Output: l.Output, By: l.Who})
	return accepted(out, err)
}

func accepted(out signals.DecideOutcome, err error) error {
	if err == nil && out != signals.DecideAccepted {
		err = fmt.Errorf("the decision is %s", out)
	}
	return err
}

// await waits for a condition. Without a worker it is unknown, and errors are ignored.
func (p *player) await(ctx context.Context, is func() (bool, error)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := is()
		switch {
		case done && err == nil:
			return nil
		case ctx.Err() != nil:
			return cmp.Or(err, ctx.Err())
		}
		select {
		case err := <-p.turn:
			return fmt.Errorf("the turn ended before its time: %w", cmp.Or(err, context.Canceled))
		case <-tick.C:
		}
	}
}
