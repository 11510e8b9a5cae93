package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

const (
	selectThread = `SELECT ` + threadColumns + ` FROM threads`

	// The last column is the time since which the thread has its activity.
	threadColumns = `namespace, id, title, status, activity, agents, metadata, parent_id, head, tokens, created_at, updated_at,
		(SELECT min(a.since) FROM thread_marks a WHERE a.namespace = threads.namespace AND a.thread_id = threads.id AND a.kind = threads.activity)`
	selectRecord = `SELECT id, seq, type, payload, trace_id, parent_event_id, event_id, created_at FROM records`
	selectErased = `SELECT 1 FROM erased_threads WHERE namespace = ? AND id = ?`
	selectTool   = `SELECT tool_call_id, tool_name, agent, trace_id, input, output, status, attempt, started_at, finished_at FROM tool_logs`
)

// reads are the queries. Lists of values are one JSON array. SQLite reads the value of a bare
// "LIMIT ?" and prepares the statement again when it changes: hence "? + 0".
type reads struct {
	records, recordsOf, newest, newestOf *sql.Stmt
	ofEvent, newestOfEvent               *sql.Stmt
	recordsByID                          *sql.Stmt
	thread, erased                       *sql.Stmt
	pending                              *sql.Stmt
	tool, tools                          *sql.Stmt
}

func (r *reads) prepare(ctx context.Context, db *sql.DB) error { return prepare(ctx, db, r.queries()) }

func (r *reads) queries() map[**sql.Stmt]string {
	const (
		records = selectRecord + ` WHERE namespace = ? AND thread_id = ? AND seq > ? AND seq < ?`
		ofTypes = ` AND type IN (SELECT value FROM json_each(?))`
		ofEvent = selectRecord + ` WHERE namespace = ?1 AND thread_id = ?2 AND seq > ?3 AND seq < ?4 AND event_id = ?5
			AND (?6 IS NULL OR type IN (SELECT value FROM json_each(?6)))`
		// A call waits for the newest request that it has made. Reminders repeat a request.
		pending = `SELECT count(since), min(since) FROM (
			SELECT (SELECT CASE r.type WHEN 'approval_request' THEN r.created_at END FROM records r
				WHERE r.namespace = m.namespace AND r.thread_id = m.thread_id AND r.event_id = m.event_id
				AND r.type IN ('approval_request', 'input_request') AND r.payload ->> 'toolCallId' = m.id AND r.payload ->> 'reminder' IS NULL
				ORDER BY r.seq DESC LIMIT 1) AS since
			FROM threads t JOIN thread_marks m ON m.namespace = t.namespace AND m.thread_id = t.id AND m.kind = 'waiting'
			WHERE t.namespace = ? AND t.status = 'open' AND t.activity = 'waiting' AND t.parent_id = '')`
	)
	return map[**sql.Stmt]string{
		&r.pending:       pending,
		&r.records:       records + ` ORDER BY seq LIMIT ? + 0`,
		&r.recordsOf:     records + ofTypes + ` ORDER BY seq LIMIT ? + 0`,
		&r.newest:        records + ` ORDER BY seq DESC LIMIT ? + 0`,
		&r.newestOf:      records + ofTypes + ` ORDER BY seq DESC LIMIT ? + 0`,
		&r.ofEvent:       ofEvent + ` ORDER BY seq LIMIT ?7 + 0`,
		&r.newestOfEvent: ofEvent + ` ORDER BY seq DESC LIMIT ?7 + 0`,
		// The plus keeps SQLite from reading the whole thread in the order of seq.
		&r.recordsByID: selectRecord + ` WHERE namespace = ? AND thread_id = ? AND id IN (SELECT value FROM json_each(?))
			ORDER BY +seq`,
		&r.thread: selectThread + ` WHERE namespace = ? AND id = ?`,
		&r.erased: selectErased,
		&r.tool:   selectTool + ` WHERE namespace = ? AND thread_id = ? AND tool_call_id = ?`,
		&r.tools:  selectTool + ` WHERE namespace = ? AND thread_id = ? ORDER BY started_at, tool_call_id`,
	}
}

func prepare(ctx context.Context, db *sql.DB, queries map[**sql.Stmt]string) error {
	for stmt, query := range queries {
		var err error
		if *stmt, err = db.PrepareContext(ctx, query); err != nil {
			return fmt.Errorf("preparing %q: %w", query, err)
		}
	}
	return nil
}

// Records implements [store.Store].
func (s *Store) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	q = q.WithDefaults()
	stmt, args := s.read.records, []any{key.Namespace, key.ThreadID, q.After, q.Before}
	if q.Newest {
		stmt = s.read.newest
	}
	switch {
	case q.EventID != "":
		stmt = s.read.ofEvent
		if q.Newest {
			stmt = s.read.newestOfEvent
		}
		args = append(args, q.EventID, listOrNull(q.Types))
	case len(q.Types) > 0:
		stmt = s.read.recordsOf
		if q.Newest {
			stmt = s.read.newestOf
		}
		args = append(args, list(q.Types))
	}
	bytes := 0
	enough := func(r event.Record) bool {
		bytes += len(r.Payload)
		return q.MaxBytes > 0 && bytes >= q.MaxBytes
	}
	records, err := collectUntil(ctx, enough, stmt, scanRecord, append(args, q.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("sqlite: records of %s: %w", key, classify(err))
	}
	return records, nil
}

// RecordsByID implements [store.Store].
func (s *Store) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	records, err := collect(ctx, s.read.recordsByID, scanRecord, key.Namespace, key.ThreadID, list(ids))
	if err != nil {
		return nil, fmt.Errorf("sqlite: records of %s by id: %w", key, classify(err))
	}
	return records, nil
}

// Thread implements [store.Store].
func (s *Store) Thread(ctx context.Context, key store.Key) (store.Thread, error) {
	t, err := scanThread(s.read.thread.QueryRowContext(ctx, key.Namespace, key.ThreadID))
	if errors.Is(err, sql.ErrNoRows) {
		err = s.whyMissing(ctx, key)
	}
	if err != nil {
		return store.Thread{}, fmt.Errorf("sqlite: thread %s: %w", key, classify(notFound(err)))
	}
	return t.Normalize(), nil
}

// whyMissing returns the error of reading a thread that has no row.
func (s *Store) whyMissing(ctx context.Context, key store.Key) error {
	var erased int
	err := s.read.erased.QueryRowContext(ctx, key.Namespace, key.ThreadID).Scan(&erased)
	if err == nil {
		return store.ErrErased
	}
	return err
}

// PendingApprovals implements [store.Store].
func (s *Store) PendingApprovals(ctx context.Context, namespace string) (store.PendingApprovals, error) {
	var out store.PendingApprovals
	var oldest sql.NullInt64
	if err := s.read.pending.QueryRowContext(ctx, namespace).Scan(&out.Count, &oldest); err != nil {
		return out, fmt.Errorf("sqlite: pending approvals of %q: %w", namespace, classify(err))
	}
	if oldest.Valid {
		out.Oldest = time.UnixMicro(oldest.Int64).UTC()
	}
	return out, nil
}

// ToolLog implements [store.Store].
func (s *Store) ToolLog(ctx context.Context, key store.Key, toolCallID string) (store.ToolLog, error) {
	l, err := scanTool(s.read.tool.QueryRowContext(ctx, key.Namespace, key.ThreadID, toolCallID))
	if err != nil {
		return store.ToolLog{}, fmt.Errorf("sqlite: tool log %q of %s: %w", toolCallID, key, classify(notFound(err)))
	}
	return l, nil
}

// ToolLogs implements [store.Store].
func (s *Store) ToolLogs(ctx context.Context, key store.Key) ([]store.ToolLog, error) {
	logs, err := collect(ctx, s.read.tools, scanTool, key.Namespace, key.ThreadID)
	if err != nil {
		return nil, fmt.Errorf("sqlite: tool logs of %s: %w", key, classify(err))
	}
	return logs, nil
}

type scanner interface{ Scan(dest ...any) error }

func collect[T any](ctx context.Context, stmt *sql.Stmt, scan func(scanner) (T, error), args ...any) ([]T, error) {
	return collectUntil(ctx, func(T) bool { return false }, stmt, scan, args...)
}

func collectUntil[T any](ctx context.Context, enough func(T) bool, stmt *sql.Stmt, scan func(scanner) (T, error), args ...any) ([]T, error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
		if enough(one) {
			break
		}
	}
	return all, rows.Err()
}

func scanRecord(row scanner) (event.Record, error) {
	var (
		r  event.Record
		at int64
	)
	err := row.Scan(&r.ID, &r.Seq, &r.Type, (*[]byte)(&r.Payload), &r.TraceID, &r.ParentEventID, &r.EventID, &at)
	r.CreatedAt = moment(at)
	return r, err
}

func scanThread(row scanner) (store.Thread, error) {
	var (
		t                store.Thread
		agents           []byte
		created, updated int64
		since            sql.NullInt64
	)
	err := row.Scan(&t.Namespace, &t.ID, &t.Title, &t.Status, &t.Activity, &agents, (*[]byte)(&t.Metadata), &t.Parent, &t.Head, &t.Tokens, &created, &updated, &since)
	if err != nil {
		return t, err
	}
	if since.Valid {
		t.ActivitySince = moment(since.Int64)
	}
	t.CreatedAt, t.UpdatedAt = moment(created), moment(updated)
	err = json.Unmarshal(agents, &t.Agents)
	return t, err
}

func scanActivity(row scanner) (a store.Activity, err error) { return a, row.Scan(&a) }

func scanTool(row scanner) (store.ToolLog, error) {
	var (
		l        store.ToolLog
		started  int64
		finished sql.NullInt64
	)
	err := row.Scan(&l.ToolCallID, &l.ToolName, &l.Agent, &l.TraceID, (*[]byte)(&l.Input), (*[]byte)(&l.Output),
		&l.Status, &l.Attempt, &started, &finished)
	l.StartedAt = moment(started)
	if finished.Valid {
		at := moment(finished.Int64)
		l.FinishedAt = &at
	}
	return l, err
}

func moment(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

func micros(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMicro()
}

// text returns a column's value for JSON: NULL for none.
func text(raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return string(raw)
}

// list returns a JSON array of the values that a column can contain.
func list(values []string) string {
	storable := make([]string, 0, len(values))
	for _, v := range values {
		if store.Storable(v) {
			storable = append(storable, v)
		}
	}
	raw, _ := json.Marshal(storable)
	return string(raw)
}

// listOrNull returns [list] of the values, or NULL if there are none.
func listOrNull(values []string) any {
	if len(values) == 0 {
		return nil
	}
	return list(values)
}

func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}
