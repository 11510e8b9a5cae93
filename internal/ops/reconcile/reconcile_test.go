package reconcile

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/workflows"
)

func TestPlace(t *testing.T) {
	for _, p := range []place{{}, {Temporal: true, Token: []byte("x")}, {UpdatedAt: noon, ID: "t", Since: noon, Again: true}} {
		got, err := parsePlace(p.String())
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	got, err := parsePlace("")
	require.NoError(t, err)
	require.Equal(t, place{}, got)
	for _, cursor := range []string{"%", "eA", place{}.String() + "x"} {
		_, err := parsePlace(cursor)
		var field *event.FieldError
		require.ErrorAs(t, err, &field, cursor)
		require.Equal(t, "cursor", field.Field)
	}
}

// pages compares everything, page by page, and returns how many threads each page has compared.
func (f *fixture) pages(t *testing.T, limit int, between func(page int)) (compared []int, last repair.Comparison) {
	t.Helper()
	for cursor := ""; ; {
		out, err := f.Compare(t.Context(), repair.RepairRequest{Cursor: cursor, Limit: limit})
		require.NoError(t, err)
		compared = append(compared, out.Compared)
		between(len(compared))
		if cursor = out.Next; cursor == "" {
			return compared, out
		}
	}
}

// TestPages: each thread of the store is compared, those that change meanwhile once more, and then those that only Temporal has.
func TestPages(t *testing.T) {
	fixture := func(t *testing.T, threads int) *fixture {
		t.Helper()
		f := newFixture(t)
		for i := range threads {
			id := fmt.Sprint("t", i)
			f.shelf.threads[id] = store.Thread{ID: id, Status: store.ThreadClosed, UpdatedAt: noon.Add(-time.Duration(i) * time.Minute)}
		}
		f.temporal.lists = []*workflowservice.ListWorkflowExecutionsResponse{{}}
		return f
	}
	nothing := func(int) {}
	t.Run("an empty store", func(t *testing.T) {
		compared, _ := fixture(t, 0).pages(t, 2, nothing)
		require.Equal(t, []int{0, 0}, compared)
	})
	t.Run("until a page is not full", func(t *testing.T) {
		compared, _ := fixture(t, 5).pages(t, 2, nothing)
		require.Equal(t, []int{2, 2, 1, 0, 0}, compared, "the fourth looks for changes, the last at Temporal")
		compared, _ = fixture(t, 4).pages(t, 2, nothing)
		require.Equal(t, []int{2, 2, 0, 0, 0}, compared)
	})
	t.Run("a thread that gets records meanwhile goes to the front, behind the cursor", func(t *testing.T) {
		f := fixture(t, 3)
		compared, _ := f.pages(t, 2, func(page int) {
			if page == 1 {
				f.shelf.threads["t2"] = store.Thread{ID: "t2", Status: store.ThreadClosed, UpdatedAt: noon.Add(time.Minute)}
			}
		})
		require.Equal(t, []int{2, 0, 1, 0}, compared)
	})
	t.Run("no page is larger than the store's", func(t *testing.T) {
		compared, _ := fixture(t, maxStorePage+1).pages(t, repair.MaxLimit, nothing)
		require.Equal(t, []int{maxStorePage, 1, 0, 0}, compared)
	})
	t.Run("then what only Temporal has", func(t *testing.T) {
		f := fixture(t, 1)
		listed := func(token string, ids ...string) *workflowservice.ListWorkflowExecutionsResponse {
			out := &workflowservice.ListWorkflowExecutionsResponse{NextPageToken: []byte(token)}
			for _, id := range ids {
				out.Executions = append(out.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}})
			}
			return out
		}
		f.temporal.lists = []*workflowservice.ListWorkflowExecutionsResponse{listed("more", "thread/acme/t0", "thread/acme/x"), listed("", "no thread", "thread/acme/y")}
		compared, _ := f.pages(t, 0, nothing)
		require.Equal(t, []int{1, 0, 1, 1}, compared)
		require.Equal(t, []byte("more"), f.temporal.query.GetNextPageToken())
		require.Equal(t, int32(repair.DefaultLimit), f.temporal.query.GetPageSize())
		require.Equal(t, `WorkflowType IN ("thread", "delegate") AND ThreadmillNamespace = "acme" AND ExecutionStatus != "ContinuedAsNew"`, f.temporal.query.GetQuery())
	})
	t.Run("a Temporal without search attributes has no threads", func(t *testing.T) {
		f := fixture(t, 0)
		f.temporal.errs["list"] = serviceerror.NewInvalidArgument("no such attribute")
		_, last := f.pages(t, 2, nothing)
		require.Equal(t, []string{"Temporal has no threads yet: no such attribute"}, last.Notes)
	})
	t.Run("one thread", func(t *testing.T) {
		out, err := fixture(t, 3).Compare(t.Context(), repair.RepairRequest{ThreadID: "t1"})
		require.NoError(t, err)
		require.Equal(t, repair.Comparison{Compared: 1, Threads: []repair.DifferingThread{}}, out)
	})
	t.Run("an invalid cursor", func(t *testing.T) {
		_, err := fixture(t, 1).Compare(t.Context(), repair.RepairRequest{Cursor: "%"})
		require.ErrorContains(t, err, "cursor")
	})
}

// TestStops: an error of one thread is in the report of that thread. One that every further thread would have stops the comparison.
func TestStops(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context //nolint:containedctx // a case of a table
		err  error
		want bool
	}{
		{t.Context(), errors.New("its history cannot be decoded"), false},
		{t.Context(), serviceerror.NewInvalidArgument("no"), false},
		{t.Context(), serviceerror.NewDataLoss("no"), false},
		{t.Context(), fmt.Errorf("reading: %w", store.ErrUnavailable), true},
		{t.Context(), fmt.Errorf("reading: %w", context.DeadlineExceeded), true},
		{t.Context(), context.Canceled, true},
		{t.Context(), serviceerror.NewUnavailable("no"), true},
		{t.Context(), serviceerror.NewPermissionDenied("no", ""), true},
		{t.Context(), serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "no"), true},
		{cancelled, errors.New("any"), true},
	} {
		require.Equal(t, tt.want, stops(tt.ctx, tt.err), "%v", tt.err)
	}
}

// TestAlone: Temporal has no error for a corrupt history: a call times out although Temporal responds for other workflows.
func TestAlone(t *testing.T) {
	late := serviceerror.NewDeadlineExceeded("late")
	erasure := job.EraseWorkflowID("acme", "t")
	compare := func(t *testing.T, history, other error) (repair.Comparison, error) {
		t.Helper()
		f := newFixture(t)
		f.temporal.add("thread/acme/t", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, &historypb.HistoryEvent{})
		f.temporal.errs["run"], f.temporal.errs[erasure] = history, other
		return f.Compare(t.Context(), repair.RepairRequest{ThreadID: "t"})
	}
	for _, err := range []error{late, context.DeadlineExceeded} {
		out, got := compare(t, err, nil)
		require.NoError(t, got)
		require.Len(t, out.Threads, 1)
		require.Equal(t, []repair.Difference{{Kind: repair.History, In: repair.Store, State: repair.Failed, Detail: "the thread cannot be compared", Error: err.Error()}}, out.Threads[0].Differences)
	}
	_, err := compare(t, late, late)
	require.ErrorIs(t, err, late, "nothing responds")
	require.ErrorContains(t, err, `thread "t"`)
	_, err = compare(t, serviceerror.NewUnavailable("no"), nil)
	require.Error(t, err)
}

// TestCompareStops: what is unknown of one side is no difference.
func TestCompareStops(t *testing.T) {
	t.Run("the store", func(t *testing.T) {
		f := newFixture(t).runs(knows())
		f.shelf.err = store.ErrUnavailable
		require.ErrorIs(t, f.compare(t.Context()), store.ErrUnavailable)
		require.Empty(t, f.found)
	})
	t.Run("Temporal", func(t *testing.T) {
		f := newFixture(t).stores(says("e", "e"))
		f.temporal.errs[f.workflowID()] = serviceerror.NewUnavailable("no")
		require.Error(t, f.compare(t.Context()))
		require.Empty(t, f.found)
		require.Empty(t, f.temporal.started)
	})
	t.Run("a history that cannot be replayed", func(t *testing.T) {
		f := newFixture(t).stores(says("e", "e"))
		f.cfg.Workflows = &workflows.Workflows{NameStep: workflows.Unregistered}
		f.temporal.add(f.workflowID(), enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED})
		require.NoError(t, f.compare(t.Context()))
		require.Equal(t, []repair.Kind{repair.History}, kindsOf(f.found))
		require.Equal(t, repair.Failed, f.found[0].State, "another program may replay it")
	})
}
