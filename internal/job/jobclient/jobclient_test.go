package jobclient

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"github.com/threadmill/threadmill/internal/job"
)

// TestEraseLate: it does not join an erasure that is running, which may have looked for the last time.
func TestEraseLate(t *testing.T) {
	m := mocks.NewClient(t)
	m.On("ExecuteWorkflow", mock.Anything, mock.MatchedBy(func(o client.StartWorkflowOptions) bool {
		return o.ID == "erase/acme/t1" && o.WorkflowIDConflictPolicy == enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL && o.WorkflowExecutionErrorWhenAlreadyStarted
	}), job.EraseWorkflow, mock.Anything).Return(nil, serviceerror.NewWorkflowExecutionAlreadyStarted("running", "", "")).Once()
	err := Client{Temporal: m}.EraseLate(t.Context(), job.EraseStep{Namespace: "acme", ThreadID: "t1", Late: true})
	require.ErrorContains(t, err, "try again")
}
