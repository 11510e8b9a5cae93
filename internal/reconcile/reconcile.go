package reconcile

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/repair"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/workflows"
)

var discard = slog.New(slog.DiscardHandler)

// Config configures a [Reconciler]. All fields but TemporalNamespace are required.
type Config struct {
	Temporal          client.Client
	TemporalNamespace string
	Threads           *threadclient.Client
	Store             store.Store

	// Workflows are those of the workers: their hooks and rules decide what a replay does.
	Workflows *workflows.Workflows

	// Erase starts the erasure of a thread.
	Erase func(ctx context.Context, in signals.EraseStep) error
}

// Reconciler compares the store with Temporal, for one namespace.
type Reconciler struct{ cfg Config }

// New returns a reconciler.
func New(cfg Config) *Reconciler { return &Reconciler{cfg} }

func (r *Reconciler) key(threadID string) store.Key {
	return store.Key{Namespace: r.cfg.Threads.Namespace(), ThreadID: threadID}
}

// place is where a page of the comparison begins: first come the threads of the store, then those that
// only Temporal has.
type place struct {
	UpdatedAt time.Time `json:"u,omitzero"`
	ID        string    `json:"i,omitempty"`
	Temporal  bool      `json:"t,omitempty"`
	Token     []byte    `json:"p,omitempty"`
}

func (p place) String() string {
	raw, _ := json.Marshal(p) // it has a JSON form
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parsePlace(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return p, event.FieldErrorf("cursor", "is not the next of a page")
	}
	return p, nil
}

// Compare compares a page of threads, and mends what differs if the request says so.
func (r *Reconciler) Compare(ctx context.Context, req repair.RepairRequest) (repair.Comparison, error) {
	out := repair.Comparison{Threads: []repair.DifferingThread{}}
	at, err := parsePlace(req.Cursor)
	if err != nil {
		return out, err
	}
	if req.Apply {
		// A Temporal that was set up again has no search attributes yet.
		if err := threadclient.EnsureAttributes(ctx, r.cfg.Temporal, r.cfg.TemporalNamespace); err != nil {
			return out, err
		}
	}
	if req.ThreadID != "" {
		return out, r.add(ctx, &out, req.ThreadID, req.Apply)
	}
	limit := cmp.Or(req.Limit, repair.DefaultLimit)
	if at.Temporal {
		return out, r.inTemporal(ctx, &out, at, limit, req.Apply)
	}
	page, err := r.cfg.Store.Threads(ctx, r.cfg.Threads.Namespace(), store.ThreadPage{Limit: min(limit, maxStorePage), CursorUpdatedAt: at.UpdatedAt, CursorID: at.ID})
	if err != nil {
		return out, err
	}
	for _, t := range page {
		if err := r.add(ctx, &out, t.ID, req.Apply); err != nil {
			return out, err
		}
		at = place{UpdatedAt: t.UpdatedAt, ID: t.ID}
	}
	if len(page) < min(limit, maxStorePage) {
		at = place{Temporal: true}
	}
	out.Next = at.String()
	return out, nil
}

// maxStorePage is the maximum of [store.ThreadPage].Limit.
const maxStorePage = 200

// inTemporal compares a page of the threads that only Temporal has.
func (r *Reconciler) inTemporal(ctx context.Context, out *repair.Comparison, at place, limit int, apply bool) error {
	query := fmt.Sprintf(`WorkflowType IN (%q, %q) AND %s = %q AND ExecutionStatus != "ContinuedAsNew"`,
		signals.ThreadWorkflow, signals.DelegateWorkflow, signals.AttributeNamespace, r.cfg.Threads.Namespace())
	page, err := r.cfg.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: int32(limit), NextPageToken: at.Token})
	if invalid, ok := errors.AsType[*serviceerror.InvalidArgument](err); ok {
		out.Notes = append(out.Notes, "Temporal has no threads yet: "+invalid.Message)
		return nil
	}
	if err != nil {
		return err
	}
	for _, info := range page.GetExecutions() {
		_, threadID, err := signals.ParseWorkflowID(info.GetExecution().GetWorkflowId())
		if err != nil {
			continue // nobody can address it as a thread
		}
		_, err = r.cfg.Store.Thread(ctx, r.key(threadID))
		if err == nil {
			continue // it was compared with those of the store
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := r.add(ctx, out, threadID, apply); err != nil {
			return err
		}
	}
	if token := page.GetNextPageToken(); len(token) > 0 {
		out.Next = place{Temporal: true, Token: token}.String()
	}
	return nil
}

// add compares one thread. An error is one of the store or of Temporal; what is wrong with the thread is part
// of the report.
func (r *Reconciler) add(ctx context.Context, out *repair.Comparison, threadID string, apply bool) error {
	c := &comparison{Reconciler: r, key: r.key(threadID), apply: apply}
	if err := c.compare(ctx); err != nil {
		return fmt.Errorf("thread %q: %w", threadID, err)
	}
	out.Compared++
	if len(c.found) > 0 {
		out.Threads = append(out.Threads, repair.DifferingThread{ThreadID: threadID, Title: c.row.Title, Differences: c.found})
	}
	return nil
}

// comparison compares one thread.
type comparison struct {
	*Reconciler
	key   store.Key
	apply bool

	// row is the thread's row, and stored reports whether it has one.
	row    store.Thread
	stored bool

	// info describes the thread's workflow, nil if Temporal has none. last is its last run, nil if the
	// history cannot be replayed.
	info *workflowpb.WorkflowExecutionInfo
	desc *workflowservice.DescribeWorkflowExecutionResponse
	last *run

	found []repair.Difference
}

func (c *comparison) workflowID() string { return signals.WorkflowID(c.key.Namespace, c.key.ThreadID) }

// differ notes a difference. mend mends it; without it, that is impossible.
func (c *comparison) differ(ctx context.Context, d repair.Difference, mend func(context.Context) error) {
	d.State = repair.Found
	switch {
	case mend == nil:
		d.State = repair.Unmendable
	case c.apply:
		d.State = repair.Mended
		if err := mend(ctx); err != nil {
			d.State, d.Error = repair.Failed, err.Error()
		}
	}
	c.found = append(c.found, d)
}

func (c *comparison) compare(ctx context.Context) (err error) {
	// The store first: what it has now, the history has too when it is read afterwards, unless Temporal is
	// older. So a thread that runs meanwhile shows no difference.
	c.row, err = c.cfg.Store.Thread(ctx, c.key)
	if c.stored = err == nil; err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	erased := errors.Is(err, store.ErrErased)
	c.desc, err = c.cfg.Temporal.DescribeWorkflowExecution(ctx, c.workflowID(), "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return c.withoutWorkflow(ctx)
	}
	if err != nil {
		return err
	}
	if erased {
		c.eraseAgain(ctx, repair.Temporal)
		return nil
	}
	c.info = c.desc.GetWorkflowExecutionInfo()
	h, err := history(ctx, c.cfg.Temporal, c.workflowID(), c.info.GetExecution().GetRunId())
	if err != nil {
		return err
	}
	if !begun(h.GetEvents()) {
		return nil // no worker has begun it, so it has written nothing
	}
	if c.last, err = replay(c.cfg.Workflows, c.workflowID(), h); err != nil {
		c.differ(ctx, repair.Difference{Kind: repair.History, In: repair.Temporal, Detail: err.Error()}, nil)
		return nil
	}
	if err := c.olderStore(ctx); err != nil {
		return err
	}
	return c.olderTemporal(ctx)
}

func (c *comparison) running() bool {
	return c.info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}
