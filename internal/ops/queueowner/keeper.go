package queueowner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/signals"
)

// Keeper keeps a task queue for one program.
type Keeper struct {
	Client    client.Client
	Namespace string // of Temporal
	Queue     string

	// Build is that of the workers of this process. Empty = they have none.
	Build string

	// Mine returns this program as it is configured now, with the guards of Build.
	Mine func(ctx context.Context) (Owner, error)

	// Take takes the queue from another program, whatever runs there.
	Take bool

	// Every is the time between two looks. Default 3 seconds.
	Every time.Duration

	Logger *slog.Logger

	paused atomic.Pointer[Owner]
}

const (
	defaultEvery = 3 * time.Second

	// looks is how often in a row a worker sees another configuration before it pauses: a file that both of them read may reach
	// it a moment later.
	looks = 2

	workflowType = "queue_owner"
	memoOwner    = "owner"
)

// ErrForeign means that a task queue is another program's.
var ErrForeign = errors.New("the task queue is another program's")

type foreignError struct{ text string }

func (e *foreignError) Error() string { return e.text }
func (e *foreignError) Unwrap() error { return ErrForeign }

// errLost means that another process has changed the owner meanwhile.
var errLost = errors.New("the owner has changed")

// claimed is an owner that Temporal has.
type claimed struct {
	Owner
	runID string
}

// look returns the owner of the queue, or nil if it has none.
func (k *Keeper) look(ctx context.Context) (*claimed, error) {
	found, err := k.Client.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: k.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: job.QueueOwnerWorkflowID(k.Queue)},
	})
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return nil, nil //nolint:nilnil // no owner is no error
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the owner of task queue %q: %w", k.Queue, err)
	}
	info := found.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, nil //nolint:nilnil // it was ended
	}
	out := &claimed{runID: info.GetExecution().GetRunId()}
	if err := converter.GetDefaultDataConverter().FromPayload(info.GetMemo().GetFields()[memoOwner], &out.Owner); err != nil {
		return nil, fmt.Errorf("workflow %q, which tells the owner of a task queue, cannot be read: %w; if this program may have the queue, terminate it",
			job.QueueOwnerWorkflowID(k.Queue), err)
	}
	return out, nil
}

// TakeOver takes the queue from another program or another store, if it is theirs. The workers of this program, which may be configured
// otherwise than this process, go on.
func (k *Keeper) TakeOver(ctx context.Context) error {
	mine, err := k.Mine(ctx)
	if err != nil {
		return err
	}
	found, err := k.look(ctx)
	if err != nil || found == nil || found.is(mine) {
		return err
	}
	return k.claim(ctx, true)
}

// claim makes this program, as it is configured, the owner of the queue. The error wraps [ErrForeign] if another program has it, unless
// it is taken from that.
func (k *Keeper) claim(ctx context.Context, take bool) error {
	mine, err := k.Mine(ctx)
	if err != nil {
		return err
	}
	for {
		found, err := k.look(ctx)
		if err != nil {
			return err
		}
		switch {
		case found == nil:
			err = k.start(ctx, mine)
		case found.serves(mine, k.Build):
			return nil
		case found.is(mine):
			err = k.replace(ctx, *found, found.with(mine, k.Build))
		default:
			if err = k.mayTake(ctx, *found, mine, take); err == nil {
				err = k.replace(ctx, *found, mine)
			}
		}
		if !errors.Is(err, errLost) {
			return err
		}
	}
}

// mayTake reports whether this program may take the queue from another one.
func (k *Keeper) mayTake(ctx context.Context, found claimed, mine Owner, take bool) error {
	if take {
		k.Logger.Warn("this program takes the task queue from another one", "taskQueue", k.Queue, "from", found.String(), "by", mine.String())
		return nil
	}
	others, err := k.others(ctx, mine)
	if err != nil {
		return err
	}
	why := ", which polls it as " + strings.Join(others, ", ")
	if len(others) == 0 {
		open, err := k.open(ctx)
		if err != nil || open == 0 {
			return err
		}
		why = fmt.Sprintf(", which has %d open workflows there", open)
	}
	return &foreignError{fmt.Sprintf("task queue %q is that of %s%s; this is %s, which has other hooks and approvals: name another task queue "+
		"(Config.TaskQueue, --task-queue) or, if it replaces that program, start it once with Config.TakeTaskQueue (--take-task-queue)", k.Queue, found.Owner, why, mine)}
}

// replace ends what another owner has, unless it has changed since, and starts the next one.
func (k *Keeper) replace(ctx context.Context, found claimed, next Owner) error {
	if err := k.end(ctx, found); err != nil {
		return err
	}
	return k.start(ctx, next)
}

// end ends what the queue has of an owner. The error is errLost if that has changed.
func (k *Keeper) end(ctx context.Context, found claimed) error {
	_, err := k.Client.WorkflowService().TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{
		Namespace: k.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: job.QueueOwnerWorkflowID(k.Queue), RunId: found.runID},
		Reason: "the task queue has another owner from now on", Identity: k.process(),
	})
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return errLost
	}
	if err != nil {
		return fmt.Errorf("changing the owner of task queue %q: %w", k.Queue, err)
	}
	return nil
}

func (k *Keeper) start(ctx context.Context, o Owner) error {
	encode := converter.GetDefaultDataConverter().ToPayload // what it says is no secret, and each program has to read it
	memo, err := encode(o)
	if err != nil {
		return err
	}
	summary, err := encode("The task queue belongs to " + o.String() + ". No worker runs this workflow: its memo tells the workers who may poll")
	if err != nil {
		return err
	}
	_, err = k.Client.WorkflowService().StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
		Namespace: k.Namespace, WorkflowId: job.QueueOwnerWorkflowID(k.Queue), WorkflowType: &commonpb.WorkflowType{Name: workflowType},
		TaskQueue: &taskqueuepb.TaskQueue{Name: k.Queue + "/owner", Kind: enumspb.TASK_QUEUE_KIND_NORMAL}, RequestId: signals.NewID(), Identity: k.process(),
		WorkflowIdReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIdConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		Memo:                     &commonpb.Memo{Fields: map[string]*commonpb.Payload{memoOwner: memo}},
		UserMetadata:             &sdkpb.UserMetadata{Summary: summary},
	})
	if _, taken := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); taken {
		return errLost
	}
	if err != nil {
		return fmt.Errorf("noting the owner of task queue %q: %w", k.Queue, err)
	}
	return nil
}

// process names this process among the workers of the queue.
func (k *Keeper) process() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%d@%s@%s", os.Getpid(), host, k.Queue)
}

// WorkerIdentity returns the identity of a worker of this process, by which others know whose it is.
func (k *Keeper) WorkerIdentity(ctx context.Context) (string, error) {
	mine, err := k.Mine(ctx)
	return k.process() + "@" + mine.key(k.Build), err
}

// keyOf returns the key of an owner in the identity of a worker.
func keyOf(identity string) string { return identity[strings.LastIndex(identity, "@")+1:] }

// pollers returns the identities of the workers that have polled the queue lately.
func (k *Keeper) pollers(ctx context.Context) ([]string, error) {
	queue, err := k.Client.DescribeTaskQueue(ctx, k.Queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return nil, fmt.Errorf("describing task queue %q: %w", k.Queue, err)
	}
	var out []string
	for _, p := range queue.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < deployment.RecentPoll {
			out = append(out, p.GetIdentity())
		}
	}
	return out, nil
}

// open counts the workflows that run on the queue.
func (k *Keeper) open(ctx context.Context) (int64, error) {
	out, err := k.Client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: k.Namespace, Query: fmt.Sprintf("TaskQueue = %q AND ExecutionStatus = 'Running'", k.Queue),
	})
	if err != nil {
		return 0, fmt.Errorf("counting the workflows of task queue %q: %w", k.Queue, err)
	}
	return out.GetCount(), nil
}

// others returns the workers that have polled the queue lately and are not those of an owner.
func (k *Keeper) others(ctx context.Context, o Owner) ([]string, error) {
	polling, err := k.pollers(ctx)
	return slices.DeleteFunc(polling, func(identity string) bool {
		for build := range o.Guards {
			if keyOf(identity) == o.key(build) {
				return true
			}
		}
		return false
	}), err
}

// Check returns the owner of the queue, "" if it has none, and the workers that have polled it within the last 90 seconds and are not
// the owner's.
func (k *Keeper) Check(ctx context.Context) (owner string, strangers []string, err error) {
	found, err := k.look(ctx)
	if err != nil || found == nil {
		return "", nil, err
	}
	strangers, err = k.others(ctx, found.Owner)
	return found.String(), strangers, err
}
