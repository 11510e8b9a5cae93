package deployment

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// threadsPage is the number of threads in a page of Temporal's list.
const threadsPage = 200

// Threads returns the threads whose last step ran on a build, sub-agents included. After an error it ends.
func (d Deployment) Threads(ctx context.Context, build string) iter.Seq2[*workflowpb.WorkflowExecutionInfo, error] {
	return func(yield func(*workflowpb.WorkflowExecutionInfo, error) bool) {
		req := &workflowservice.ListWorkflowExecutionsRequest{Namespace: d.Namespace, Query: d.on(build) + " AND " + areThreads, PageSize: threadsPage}
		for {
			page, err := d.Client.ListWorkflow(ctx, req)
			if err != nil {
				yield(nil, fmt.Errorf("listing the threads on build %q: %w", build, err))
				return
			}
			for _, info := range page.GetExecutions() {
				if !yield(info, nil) {
					return
				}
			}
			if req.NextPageToken = page.GetNextPageToken(); len(req.NextPageToken) == 0 {
				return
			}
		}
	}
}

// OrMove completes the advice to start workers of a build with the command that moves its threads without them, if it works now.
func (s Status) OrMove(from string) string {
	if s.CheckMove(from, s.Current) != nil {
		return ""
	}
	return fmt.Sprintf(", or move its threads: worker replay --from %s --move --build %s, with the program of that build", from, s.Current)
}

// Run is a run of a thread.
type Run struct{ Workflow, ID string }

// lookAgain is the time between two looks at threads that are about to move.
const lookAgain = 200 * time.Millisecond

// withdrawWithin is the time limit for taking back what did not succeed.
const withdrawWithin = 30 * time.Second

// Move moves runs of threads to a build, which replays their histories and has them from then on, and waits until each has taken a step
// there. They need no worker of the former build: what it had begun is retried on the other one. With an error, such as that of ctx, the runs
// that are not known to have taken a step stay, and are returned.
func (d Deployment) Move(ctx context.Context, runs []Run, build string) (stay []Run, err error) {
	override := &client.OneTimeVersioningOverride{TargetVersion: worker.WorkerDeploymentVersion{DeploymentName: d.Name, BuildID: build}}
	moving, rest := runs, []Run(nil)
	for i, r := range runs {
		if err = d.override(ctx, r, override); err == nil {
			// An idle thread has no step to take.
			err = d.signal(ctx, r.Workflow, r.ID)
		}
		if err != nil {
			moving, rest = runs[:i+1], runs[i+1:]
			break
		}
	}
	for err == nil {
		if moving, err = d.moving(ctx, moving); err != nil || len(moving) == 0 {
			break
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawWithin)
	defer cancel()
	for _, r := range moving {
		err = errors.Join(err, d.override(ctx, r, nil))
	}
	return slices.Concat(moving, rest), err
}

// override sets where the next workflow task of a run goes. Nil is the build to which the run is pinned.
func (d Deployment) override(ctx context.Context, r Run, to *client.OneTimeVersioningOverride) error {
	change := &client.VersioningOverrideChange{}
	if to != nil {
		change.Value = to
	}
	_, err := d.Client.UpdateWorkflowExecutionOptions(ctx, client.UpdateWorkflowExecutionOptionsRequest{
		WorkflowId: r.Workflow, RunId: r.ID, WorkflowExecutionOptionsChanges: client.WorkflowExecutionOptionsChanges{VersioningOverride: change},
	})
	if err != nil && !gone(err) {
		return fmt.Errorf("moving workflow %q: %w", r.Workflow, err)
	}
	return nil
}

// moving returns the runs that have taken no step on their new build yet: with the first one, Temporal removes the override.
func (d Deployment) moving(ctx context.Context, runs []Run) (left []Run, err error) {
	for i, r := range runs {
		found, err := d.Client.DescribeWorkflowExecution(ctx, r.Workflow, r.ID)
		switch {
		case gone(err):
		case err != nil:
			return append(left, runs[i:]...), fmt.Errorf("describing workflow %q: %w", r.Workflow, err)
		case found.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && found.GetWorkflowExecutionInfo().GetVersioningInfo().GetVersioningOverride().GetOneTime() != nil:
			left = append(left, r)
		}
	}
	return left, nil
}

// CheckMove says why the threads of a build cannot be moved to another one.
func (s Status) CheckMove(from, to string) error {
	target := s.Find(to)
	switch {
	case s.Find(from) == nil:
		return fmt.Errorf("there is no build %q: see starter deployment show", from)
	case !s.Left(from):
		return fmt.Errorf("build %q is %s: only threads of a build that gets none are moved", from, s.Find(from).Status)
	case s.Find(from).Workers:
		return fmt.Errorf("workers of build %q poll, or did within the last 90 seconds: its threads move without a replay, with starter deployment move %s", from, from)
	case target == nil || target.Status != Current:
		return fmt.Errorf("build %q is not current: threads move to the build that gets them, with the program of that build", to)
	case !target.Workers:
		return fmt.Errorf("no worker of build %q polls: start one first", to)
	}
	return nil
}
