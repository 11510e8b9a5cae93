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

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/job"
	"github.com/threadmill/threadmill/internal/ops/repair"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/workflows"
)

var discard = slog.New(slog.DiscardHandler)

// Config configures a [Reconciler]. All fields but TemporalNamespace and Replay are required.
type Config struct {
	Temporal          client.Client
	TemporalNamespace string
	Threads           *threadclient.Client
	Store             store.Store

	// Workflows are those of the workers: their hooks and rules decide what a replay does.
	Workflows *workflows.Workflows

	// Replay has the converters and the propagators of the Temporal client. Default: the SDK's.
	Replay worker.WorkflowReplayerOptions

	// Erase starts the erasure of a thread.
	Erase func(ctx context.Context, in job.EraseStep) error
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

	// Since is the time of the newest record when the comparison began. Threads that get records meanwhile change their
	// place in the store's order, so that Again compares those once more.
	Since time.Time `json:"s,omitzero"`
	Again bool      `json:"a,omitempty"`

	Token []byte `json:"p,omitempty"`
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
	if at.Since.IsZero() && len(page) > 0 {
		at.Since = page[0].UpdatedAt
	}
	last := len(page) < min(limit, maxStorePage)
	for _, t := range page {
		if at.Again && !t.UpdatedAt.After(at.Since) {
			last = true
			break
		}
		if err := r.add(ctx, &out, t.ID, req.Apply); err != nil {
			return out, err
		}
		at.UpdatedAt, at.ID = t.UpdatedAt, t.ID
	}
	switch {
	case last && (at.Again || at.Since.IsZero()):
		at = place{Temporal: true}
	case last:
		at = place{Since: at.Since, Again: true}
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

// stops reports whether an error concerns more than one thread.
func stops(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	// Only these two are about a workflow. All others are about Temporal, the access to it or the load on it.
	_, invalid := errors.AsType[*serviceerror.InvalidArgument](err)
	_, lost := errors.AsType[*serviceerror.DataLoss](err)
	_, temporal := errors.AsType[serviceerror.ServiceError](err)
	return temporal && !invalid && !lost
}

// add compares one thread. An error is one of the store or of Temporal; what is wrong with the thread is part
// of the report.
func (r *Reconciler) add(ctx context.Context, out *repair.Comparison, threadID string, apply bool) error {
	c := &comparison{Reconciler: r, key: r.key(threadID), apply: apply}
	if err := c.compare(ctx); err != nil && stops(ctx, err) && !c.alone(ctx, err) {
		return fmt.Errorf("thread %q: %w", threadID, err)
	} else if err != nil {
		c.found = append(c.found, repair.Difference{Kind: repair.History, In: repair.Store, State: repair.Failed, Detail: "the thread cannot be compared", Error: err.Error()})
	}
	out.Compared++
	if len(c.found) > 0 {
		out.Threads = append(out.Threads, repair.DifferingThread{ThreadID: threadID, Title: c.row.Title, Differences: c.found})
	}
	return nil
}

// alone reports whether an error concerns this thread alone although it looks like one of Temporal: Temporal has no error for a
// corrupt history, and its client retries until the call times out. Then Temporal responds for other workflows.
func (c *comparison) alone(ctx context.Context, err error) bool {
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	if !late && !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		return false
	}
	_, err = c.wasErased(ctx)
	return err == nil
}

// comparison compares one thread.
type comparison struct {
	*Reconciler
	key   store.Key
	apply bool

	// row is the thread's row, and stored reports whether it has one.
	row    store.Thread
	stored bool

	// subs are the threads of the thread's sub-agents that the store has.
	subs []string

	// info describes the thread's workflow, nil if Temporal has none. last is its last run, nil if the
	// history cannot be replayed.
	info *workflowpb.WorkflowExecutionInfo
	desc *workflowservice.DescribeWorkflowExecutionResponse
	last *run

	// history is that of the last run.
	history *historypb.History

	// older reports whether the store lacks records that the workflow wrote.
	older bool

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
	if c.stored {
		if c.subs, err = c.cfg.Store.SubThreads(ctx, c.key); err != nil {
			return err
		}
	}
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
	if c.stored && c.running() {
		// Somebody may have started the thread again before this repair, whose workflow would store it again.
		if gone, err := c.wasErased(ctx); gone || err != nil {
			if gone {
				c.eraseAgain(ctx, repair.Store)
			}
			return err
		}
	}
	h, err := history(ctx, c.cfg.Temporal, c.workflowID(), c.info.GetExecution().GetRunId())
	if err != nil {
		return err
	}
	if !begun(h.GetEvents()) {
		return c.notBegun(ctx, h) // no worker has begun it, so it has written nothing
	}
	if c.last, err = c.replay(h); err != nil {
		// Not unmendable: the API may lack a hook, a rule or the converters of the workers.
		c.found = append(c.found, repair.Difference{
			Kind: repair.History, In: repair.Temporal, State: repair.Failed, Detail: "the history cannot be replayed, so nothing of the thread was compared", Error: err.Error(),
		})
		return nil
	}
	c.history = h
	if err := c.olderStore(ctx); err != nil {
		return err
	}
	return c.olderTemporal(ctx)
}

// read reads the arguments of a signal or an activity.
func (c *comparison) read(raw *commonpb.Payloads, into any) error {
	from := c.cfg.Replay.DataConverter
	if from == nil {
		from = converter.GetDefaultDataConverter()
	}
	return from.FromPayloads(raw, into)
}

func (c *comparison) running() bool {
	return c.info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}
