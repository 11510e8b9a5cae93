package threadclient

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/threadmill/threadmill/signals"
)

// Limits of [ListQuery].Limit.
const (
	DefaultListLimit = 100
	MaxListLimit     = 10_000

	listPage = 500
)

// ListQuery selects threads. The zero value selects the open threads of the client's namespace.
type ListQuery struct {
	// All also selects closed threads.
	All bool

	// Waiting selects only threads that wait for approval. It takes precedence over All.
	Waiting bool

	// Agent selects only threads with this agent. Empty = all threads.
	Agent string

	// Default means that Agent is the default agent, so threads without named agents have it.
	Default bool

	// Limit is the maximum number of threads. 0 = [DefaultListLimit]; at most [MaxListLimit].
	Limit int
}

// List returns threads of the client's namespace from Temporal's visibility, each once, the newest
// first. Visibility may lag by seconds, and does not have closed threads after the retention
// period.
func (c *Client) List(ctx context.Context, q ListQuery) ([]Summary, error) {
	if q.Limit == 0 {
		q.Limit = DefaultListLimit
	}
	if q.Limit < 0 || q.Limit > MaxListLimit {
		return nil, fmt.Errorf("listing threads: limit is %d, must be 1 to %d", q.Limit, MaxListLimit)
	}
	if q.Agent != "" {
		if err := signals.ValidateID("agent", q.Agent); err != nil {
			return nil, fmt.Errorf("listing threads: %w", err)
		}
	}
	found, err := c.scan(ctx, c.visibilityQuery(q), q.Limit)
	if err != nil {
		return nil, fmt.Errorf("listing threads of namespace %q: %w", c.namespace, err)
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].StartTime.After(found[j].StartTime) })
	return found, nil
}

func (c *Client) visibilityQuery(q ListQuery) string {
	// A run that continued as new is a part of the thread's past.
	status := `ExecutionStatus != "ContinuedAsNew"`
	if !q.All || q.Waiting {
		status = `ExecutionStatus = "Running"`
	}
	terms := []string{
		fmt.Sprintf("WorkflowType IN (%q, %q)", signals.ThreadWorkflow, signals.DelegateWorkflow),
		fmt.Sprintf("%s = %q", signals.AttributeNamespace, c.namespace),
		status,
	}
	if q.Waiting {
		terms = append(terms, fmt.Sprintf("%s = %q", signals.AttributeStatus, signals.StatusWaitingApproval))
	}
	if q.Agent != "" {
		term := fmt.Sprintf("%s = %q", signals.AttributeAgents, q.Agent)
		if q.Default {
			term = fmt.Sprintf("(%s OR %s IS NULL)", term, signals.AttributeAgents)
		}
		terms = append(terms, term)
	}
	return strings.Join(terms, " AND ")
}

// scan reads pages until it has limit threads.
func (c *Client) scan(ctx context.Context, query string, limit int) ([]Summary, error) {
	found := make([]Summary, 0, min(limit, listPage))
	place := map[string]int{}
	req := &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: int32(min(limit, listPage))}
	for {
		page, err := c.temporal.ListWorkflow(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, info := range page.GetExecutions() {
			s, err := summary(info)
			if err != nil {
				return nil, err
			}
			i, twice := place[s.ThreadID]
			switch {
			case twice && newer(s, found[i]):
				found[i] = s
			case !twice && len(found) < limit:
				place[s.ThreadID] = len(found)
				found = append(found, s)
			}
		}
		if len(page.GetNextPageToken()) == 0 || len(found) >= limit {
			return found, nil
		}
		req.NextPageToken = page.GetNextPageToken()
	}
}

// newer reports whether a is the newer of two runs of one thread. A thread that failed can be
// opened again.
func newer(a, b Summary) bool {
	if (a.Status == signals.StatusOpen) != (b.Status == signals.StatusOpen) {
		return a.Status == signals.StatusOpen
	}
	return a.StartTime.After(b.StartTime)
}

func summary(info *workflowpb.WorkflowExecutionInfo) (Summary, error) {
	_, threadID, err := signals.ParseWorkflowID(info.GetExecution().GetWorkflowId())
	if err != nil {
		return Summary{}, err
	}
	s := Summary{ThreadID: threadID, Status: signals.StatusClosed}
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		s.Status = signals.StatusOpen
	}
	if t := info.GetStartTime(); t != nil {
		s.StartTime = t.AsTime()
	}
	var status string
	err = errors.Join(
		decode(info.GetMemo().GetFields(), signals.MemoTitle, &s.Title),
		decode(info.GetMemo().GetFields(), signals.MemoParent, &s.Parent),
		decode(info.GetSearchAttributes().GetIndexedFields(), signals.AttributeAgents, &s.Agents),
		decode(info.GetSearchAttributes().GetIndexedFields(), signals.AttributeStatus, &status),
	)
	s.Waiting = s.Status == signals.StatusOpen && status == signals.StatusWaitingApproval
	return s, err
}

// decode decodes a field, if it is set. A list of one keyword may be encoded as the keyword.
func decode(fields map[string]*commonpb.Payload, name string, out any) error {
	p, ok := fields[name]
	if !ok {
		return nil
	}
	err := converter.GetDefaultDataConverter().FromPayload(p, out)
	if list, ok := out.(*[]string); err != nil && ok {
		var one string
		if err := converter.GetDefaultDataConverter().FromPayload(p, &one); err == nil {
			*list = []string{one}
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}
