package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/internal/thread"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// repairer is who acts in records when nobody else is known.
const repairer = "threadmill"

// maxLook is the maximum number of records of a thread that are compared with its workflow, the newest.
const maxLook = 20_000

// withoutWorkflow compares a thread that Temporal does not know.
func (c *comparison) withoutWorkflow(ctx context.Context) error {
	if !c.stored {
		return nil
	}
	if erased, err := c.wasErased(ctx); erased || err != nil {
		if erased {
			c.eraseAgain(ctx, repair.Store)
		}
		return err
	}
	if c.row.Status == store.ThreadClosed {
		return nil
	}
	k, err := c.look(ctx, nil, "")
	if err != nil {
		return err
	}
	if parent := c.row.Parent; parent != "" {
		c.differ(ctx, repair.Difference{
			Kind: repair.Workflow, In: repair.Temporal, Detail: fmt.Sprintf("the thread of a sub-agent has no workflow; thread %s starts it again with what the store has, if its turn has not ended", parent),
		}, nil)
		return nil
	}
	c.differ(ctx, repair.Difference{
		Kind: repair.Workflow, In: repair.Temporal, Count: 1,
		Detail: "Temporal is older: it has no workflow of this open thread, which has " + k.describe(),
		Action: "start it; turns that had not ended continue with the results that the store has",
	}, func(ctx context.Context) error {
		start := signals.Start{Title: c.row.Title, Agents: c.row.Agents, Metadata: c.row.Metadata}
		for i, part := range split(k.restore()) {
			from := &start
			if i > 0 {
				from = nil
			}
			if err := c.cfg.Threads.Restore(ctx, c.key.ThreadID, from, part); err != nil {
				return err
			}
		}
		return nil
	})
	for _, what := range k.lost {
		c.differ(ctx, repair.Difference{Kind: repair.Lost, In: repair.Temporal, Count: 1, Detail: what}, nil)
	}
	return nil
}

// wasErased reports whether Temporal has the erasure of a thread that the store still has.
func (c *comparison) wasErased(ctx context.Context) (bool, error) {
	_, err := c.cfg.Temporal.DescribeWorkflowExecution(ctx, job.EraseWorkflowID(c.key.Namespace, c.key.ThreadID), "")
	if _, never := errors.AsType[*serviceerror.NotFound](err); never {
		return false, nil
	}
	return err == nil, err
}

// eraseAgain handles an erased thread of which one side has something again.
func (c *comparison) eraseAgain(ctx context.Context, has repair.Side) {
	other := map[repair.Side]repair.Side{repair.Store: repair.Temporal, repair.Temporal: repair.Store}[has]
	c.differ(ctx, repair.Difference{
		Kind: repair.Erased, In: other, Count: 1, Detail: fmt.Sprintf("the thread was erased, and %s has it again", has), Action: "erase it again, as soon as a worker runs",
	}, func(ctx context.Context) error {
		err := c.cfg.Erase(ctx, job.EraseStep{Namespace: c.key.Namespace, ThreadID: c.key.ThreadID, By: repairer, Late: true})
		if _, running := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); running {
			return nil
		}
		return err
	})
}

// textOf returns a field of the metadata of a thread.
func textOf(metadata json.RawMessage, name string) (text string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(metadata, &fields) == nil {
		_ = json.Unmarshal(fields[name], &text) // not a text: not ours
	}
	return text
}

// olderTemporal finds what the store has and the workflow does not know.
func (c *comparison) olderTemporal(ctx context.Context) error {
	if !c.stored {
		return nil
	}
	state := c.last.state
	if !c.running() {
		if c.row.Status == store.ThreadOpen && c.info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED && state.Closing == nil {
			c.differ(ctx, repair.Difference{
				Kind: repair.Ended, In: repair.Temporal, Detail: fmt.Sprintf("the workflow of this open thread is %s; a post does not start it again", strings.ToLower(c.info.GetStatus().String())),
			}, nil)
		}
		return nil
	}
	if c.row.Status == store.ThreadClosed {
		return c.closedRuns(ctx)
	}
	k, err := c.look(ctx, state, "")
	if err != nil {
		return err
	}
	if k.changed, err = c.changes(ctx, state); err != nil || k.empty() && len(k.lost) == 0 {
		return err
	}
	c.differAll(ctx, k.differences(), func(ctx context.Context) error { return c.tell(ctx, k) })
	return nil
}

// notBegun compares a thread whose workflow no worker has begun. A post has started it before this repair, or a repair, which may
// have been killed before it had told all.
func (c *comparison) notBegun(ctx context.Context, h *historypb.History) error {
	if !c.stored || c.row.Status == store.ThreadClosed || !c.running() {
		return nil
	}
	if h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId() != "" {
		return nil // it continues a run that knows what is stored
	}
	k, err := c.look(ctx, nil, "")
	if err != nil {
		return err
	}
	for _, e := range h.GetEvents() {
		if signal := e.GetWorkflowExecutionSignaledEventAttributes(); signal.GetSignalName() == signals.SignalRestore {
			var r signals.Restore
			if err := c.read(signal.GetInput(), &r); err != nil {
				return fmt.Errorf("reading signal %s: %w", signals.SignalRestore, err)
			}
			k.told(r)
		}
	}
	if k.empty() {
		return nil
	}
	c.differAll(ctx, k.differences(), func(ctx context.Context) error { return c.tell(ctx, k) })
	return nil
}

// tell tells a workflow that runs what the store has.
func (c *comparison) tell(ctx context.Context, k *known) error {
	r := k.restore()
	r.Title, r.Agents, r.Metadata = c.row.Title, c.row.Agents, c.row.Metadata
	for _, part := range split(r) {
		if err := c.cfg.Threads.Restore(ctx, c.key.ThreadID, nil, part); err != nil {
			return err
		}
	}
	return nil
}

// changes names the parts of the thread's row that the workflow does not know.
func (c *comparison) changes(ctx context.Context, state *thread.State) (out []string, err error) {
	if state.Outbox.Row != nil || c.older {
		return nil, nil // the workflow is newer
	}
	// The workflow may have stored changes while its history was read. Then the row of before is older than the state, and that
	// of now is newer.
	before := c.row
	if c.row, err = c.cfg.Store.Thread(ctx, c.key); err != nil || changed(before, c.row) {
		return nil, err
	}
	if c.row.Title != "" && c.row.Title != state.Title {
		out = append(out, "title")
	}
	if len(c.row.Agents) > 0 && !slices.Equal(c.row.Agents, state.Roster.Agents) {
		out = append(out, "agents")
	}
	if len(c.row.Metadata) > 0 && !sameJSON(c.row.Metadata, state.Metadata) {
		out = append(out, "metadata")
	}
	return out, nil
}

// changed reports whether a row differs in what the workflow knows too.
func changed(a, b store.Thread) bool {
	return a.Title != b.Title || !slices.Equal(a.Agents, b.Agents) || !bytes.Equal(a.Metadata, b.Metadata)
}

func sameJSON(a, b json.RawMessage) bool {
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}

// differAll notes differences that are mended together.
func (c *comparison) differAll(ctx context.Context, all []repair.Difference, mend func(context.Context) error) {
	var err error
	for i, d := range all {
		once := func(ctx context.Context) error {
			if i == 0 {
				err = mend(ctx)
			}
			return err
		}
		if d.Kind == repair.Lost {
			c.differ(ctx, d, nil)
			continue
		}
		c.differ(ctx, d, once)
	}
}

// closedRuns handles a thread that the store has as closed and whose workflow runs, since it is older. A thread
// that is just closing is left alone.
func (c *comparison) closedRuns(ctx context.Context) error {
	if c.last.state.Closing != nil || c.last.state.ParentLink.Parent != nil && c.last.state.AnswerStored() {
		return nil
	}
	c.differ(ctx, repair.Difference{
		Kind: repair.Closed, In: repair.Temporal, Count: 1,
		Detail: "Temporal is older: the workflow of this closed thread runs", Action: "terminate it; the store has its end",
	}, func(ctx context.Context) error {
		return c.cfg.Temporal.TerminateWorkflow(ctx, c.workflowID(), c.info.GetExecution().GetRunId(), "threadmill repair: the thread is closed, and its workflow is older than that")
	})
	return nil
}
