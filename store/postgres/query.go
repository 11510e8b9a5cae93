package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

const (
	selectThread  = `SELECT ` + threadColumns + ` FROM threads`
	threadColumns = `namespace, id, title, status, activity, agents, metadata, parent_id, head, tokens, created_at, updated_at, (SELECT min(a.since) FROM thread_marks a
		WHERE a.namespace = threads.namespace AND a.thread_id = threads.id AND a.kind = threads.activity)`
	recordColumns = `id, seq, type, payload, trace_id, parent_event_id, event_id, created_at`
	selectRecord  = `SELECT ` + recordColumns + ` FROM records`
	selectTool    = `SELECT tool_call_id, tool_name, agent, trace_id, input, output, status, attempt, started_at, finished_at FROM tool_logs`

	recordsBetween = selectRecord + ` WHERE namespace = $1 AND thread_id = $2 AND seq > $3 AND seq < $4
		AND ($5::text[] IS NULL OR type = ANY($5))`
	ofEvent = ` AND event_id = $7`
	inOrder = ` ORDER BY seq %s LIMIT $6`

	// The bytes are the payloads before each record.
	bounded = `SELECT ` + recordColumns + ` FROM (
			SELECT *, sum(octet_length(payload::text)) OVER (ORDER BY seq %[2]s) - octet_length(payload::text) AS bytes
			FROM (%[1]s) AS page
		) AS counted WHERE bytes < $%[3]d ORDER BY seq %[2]s`

	recordsByID = `SELECT r.* FROM (SELECT DISTINCT unnest($3::text[]) AS id) AS wanted, LATERAL (` + selectRecord + `
		WHERE namespace = $1 AND thread_id = $2 AND records.id = wanted.id LIMIT 1) AS r ORDER BY r.seq`
	oneThread = selectThread + ` WHERE namespace = $1 AND id = $2`
	oneTool   = selectTool + ` WHERE namespace = $1 AND thread_id = $2 AND tool_call_id = $3`
	allTools  = selectTool + ` WHERE namespace = $1 AND thread_id = $2 ORDER BY started_at, tool_call_id`

	// A call waits for the newest request that it has made. Reminders repeat a request.
	pendingApprovals = `SELECT count(*), min(r.created_at) FROM threads t
		JOIN thread_marks m ON m.namespace = t.namespace AND m.thread_id = t.id AND m.kind = 'waiting'
		CROSS JOIN LATERAL (
			SELECT type, created_at FROM records WHERE namespace = m.namespace AND thread_id = m.thread_id AND event_id = m.event_id
			AND type IN ('approval_request', 'input_request') AND payload ->> 'toolCallId' = m.id AND payload ->> 'reminder' IS NULL
			ORDER BY seq DESC LIMIT 1) AS r
		WHERE t.namespace = $1 AND t.status = 'open' AND t.activity = 'waiting' AND t.parent_id = '' AND r.type = 'approval_request'`
)

// Records implements [store.Store].
func (s *Store) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	q = q.WithDefaults()
	if !store.Storable(q.EventID) {
		return nil, nil
	}
	query, order := recordsBetween, "ASC"
	if q.Newest {
		order = "DESC"
	}
	var types []string
	if len(q.Types) > 0 {
		types = storable(q.Types)
	}
	args := []any{q.After, q.Before, types, q.Limit}
	if q.EventID != "" {
		query, args = query+ofEvent, append(args, q.EventID)
	}
	query += fmt.Sprintf(inOrder, order)
	if q.MaxBytes > 0 {
		args = append(args, q.MaxBytes)
		// The thread's key precedes the arguments.
		query = fmt.Sprintf(bounded, query, order, len(args)+2)
	}
	records, err := collect(ctx, s, key, scanRecord, query, args...)
	if err != nil {
		return nil, fmt.Errorf("postgres: records of %s: %w", key, classify(err))
	}
	return records, nil
}

// RecordsByID implements [store.Store].
func (s *Store) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	records, err := collect(ctx, s, key, scanRecord, recordsByID, storable(ids))
	if err != nil {
		return nil, fmt.Errorf("postgres: records of %s by id: %w", key, classify(err))
	}
	return records, nil
}

// Thread implements [store.Store].
func (s *Store) Thread(ctx context.Context, key store.Key) (store.Thread, error) {
	threads, err := collect(ctx, s, key, scanThread, oneThread)
	if err == nil && len(threads) == 0 {
		err = s.whyMissing(ctx, key)
	}
	if err != nil {
		return store.Thread{}, fmt.Errorf("postgres: thread %s: %w", key, classify(err))
	}
	return threads[0], nil
}

// PendingApprovals implements [store.Store].
func (s *Store) PendingApprovals(ctx context.Context, namespace string) (store.PendingApprovals, error) {
	var out store.PendingApprovals
	if !store.Storable(namespace) {
		return out, nil
	}
	var oldest *time.Time
	if err := s.pool.QueryRow(ctx, pendingApprovals, namespace).Scan(&out.Count, &oldest); err != nil {
		return out, fmt.Errorf("postgres: pending approvals of %q: %w", namespace, classify(err))
	}
	if oldest != nil {
		out.Oldest = oldest.UTC()
	}
	return out, nil
}

// ToolLog implements [store.Store].
func (s *Store) ToolLog(ctx context.Context, key store.Key, toolCallID string) (store.ToolLog, error) {
	if !store.Storable(toolCallID) {
		return store.ToolLog{}, fmt.Errorf("postgres: tool log %q of %s: %w", toolCallID, key, store.ErrNotFound)
	}
	logs, err := collect(ctx, s, key, scanTool, oneTool, toolCallID)
	if err == nil && len(logs) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.ToolLog{}, fmt.Errorf("postgres: tool log %q of %s: %w", toolCallID, key, classify(err))
	}
	return logs[0], nil
}

// ToolLogs implements [store.Store].
func (s *Store) ToolLogs(ctx context.Context, key store.Key) ([]store.ToolLog, error) {
	logs, err := collect(ctx, s, key, scanTool, allTools)
	if err != nil {
		return nil, fmt.Errorf("postgres: tool logs of %s: %w", key, classify(err))
	}
	return logs, nil
}

// collect runs a query whose first arguments are the key. An impossible key finds nothing.
func collect[T any](ctx context.Context, s *Store, key store.Key, scan pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	if errors.Is(store.ValidateKey(key), store.ErrInvalid) {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, query, append([]any{key.Namespace, key.ThreadID}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// storable filters out values that no column can contain, and that therefore match nothing.
func storable(values []string) []string {
	kept := make([]string, 0, len(values))
	for _, v := range values {
		if store.Storable(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

func scanRecord(row pgx.CollectableRow) (event.Record, error) {
	var r event.Record
	err := row.Scan(recordFields(&r)...)
	r.CreatedAt = r.CreatedAt.UTC()
	return r, err
}

// recordFields are where the columns of a record go.
func recordFields(r *event.Record) []any {
	return []any{&r.ID, &r.Seq, &r.Type, (*[]byte)(&r.Payload), &r.TraceID, &r.ParentEventID, &r.EventID, &r.CreatedAt}
}

// whyMissing returns the error of reading a thread that has no row.
func (s *Store) whyMissing(ctx context.Context, key store.Key) error {
	if !storableKey(key) {
		return store.ErrNotFound
	}
	err := s.pool.QueryRow(ctx, isErased, key.Namespace, key.ThreadID).Scan()
	switch {
	case err == nil:
		return store.ErrErased
	case errors.Is(err, pgx.ErrNoRows):
		return store.ErrNotFound
	}
	return err
}

func scanThread(row pgx.CollectableRow) (store.Thread, error) {
	var (
		t     store.Thread
		since *time.Time
	)
	err := row.Scan(&t.Namespace, &t.ID, &t.Title, &t.Status, &t.Activity, &t.Agents, (*[]byte)(&t.Metadata), &t.Parent, &t.Head, &t.Tokens, &t.CreatedAt, &t.UpdatedAt, &since)
	if since != nil {
		t.ActivitySince = since.UTC()
	}
	t.CreatedAt, t.UpdatedAt = t.CreatedAt.UTC(), t.UpdatedAt.UTC()
	return t.Normalize(), err
}

func scanTool(row pgx.CollectableRow) (store.ToolLog, error) {
	var (
		l        store.ToolLog
		finished *time.Time
	)
	err := row.Scan(&l.ToolCallID, &l.ToolName, &l.Agent, &l.TraceID, (*[]byte)(&l.Input), (*[]byte)(&l.Output),
		(*string)(&l.Status), &l.Attempt, &l.StartedAt, &finished)
	l.StartedAt = l.StartedAt.UTC()
	if finished != nil {
		at := finished.UTC()
		l.FinishedAt = &at
	}
	return l, err
}
