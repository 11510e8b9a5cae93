package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

const (
	recordColumns = `id, seq, type, payload, trace_id, parent_event_id, event_id, created_at`
	selectRecord  = `SELECT ` + recordColumns + ` FROM records`
	selectTool    = `SELECT tool_call_id, tool_name, agent, trace_id, input, output, status, attempt, started_at, finished_at FROM tool_logs`
	ofThread      = ` WHERE namespace = $1 AND thread_id = $2`
)

var (
	// recordsByID looks up one record after another: without statistics, PostgreSQL assumes that a thread has one row, and SQLite would
	// read the whole thread in the order of seq.
	recordsByID = &Query{
		SQLite: selectRecord + ofThread + ` AND id IN (SELECT value FROM json_each($3)) ORDER BY +seq`,
		Postgres: `SELECT r.* FROM (SELECT DISTINCT unnest($3::text[]) AS id) AS wanted, LATERAL (` + selectRecord + ofThread + ` AND records.id = wanted.id LIMIT 1) AS r
			ORDER BY r.seq`,
	}
	oneRecord = both(selectRecord + ofThread + ` AND id = $3`)
	oneTool   = both(selectTool + ofThread + ` AND tool_call_id = $3`)
	allTools  = both(selectTool + ofThread + ` ORDER BY started_at, tool_call_id`)
)

// recordShape is what a query for records has.
type recordShape struct{ types, event, bytes, newest bool }

var recordQueries = func() map[recordShape]*Query {
	queries := map[recordShape]*Query{}
	for shape := range 16 {
		s := recordShape{shape&1 > 0, shape&2 > 0, shape&4 > 0, shape&8 > 0}
		queries[s] = s.query()
	}
	return queries
}()

// query returns the query of a shape. Its arguments are the key, the bounds, what the shape has, the limit and the bytes. SQLite reads
// one row after the other, so that its text has no bound of bytes.
func (s recordShape) query() *Query {
	q := both(selectRecord + ofThread + ` AND seq > $3 AND seq < $4`)
	next := 5
	add := func(condition word) {
		q.SQLite += fmt.Sprintf(condition.sqlite, next)
		q.Postgres += fmt.Sprintf(condition.postgres, next)
		next++
	}
	if s.types {
		add(word{"", ` AND type IN (SELECT value FROM json_each($%d))`, ` AND type = ANY($%d)`})
	}
	if s.event {
		add(word{"", ` AND event_id = $%d`, ` AND event_id = $%d`})
	}
	order := " ORDER BY seq"
	if s.newest {
		order += " DESC"
	}
	add(word{"", order + ` LIMIT $%d + 0`, order + ` LIMIT $%d`})
	if s.bytes { // the sum is that of the payloads before each record
		q.Postgres = fmt.Sprintf(`SELECT %s FROM (
				SELECT *, sum(octet_length(payload::text)) OVER (%s) - octet_length(payload::text) AS bytes FROM (%s) AS page
			) AS counted WHERE bytes < $%d%s`, recordColumns, order, q.Postgres, next, order)
	}
	return q
}

// Append implements [store.Store].
func (s *Store) Append(ctx context.Context, key store.Key, batch store.Batch) (store.Appended, error) {
	if s.around != nil {
		return surrounded(ctx, s, "append", func(ctx context.Context) (store.Appended, error) { return s.append(ctx, key, batch) })
	}
	return s.append(ctx, key, batch)
}

func (s *Store) append(ctx context.Context, key store.Key, batch store.Batch) (appended store.Appended, err error) {
	if batch, err = normalizeBatch(key, batch); err == nil {
		appended, err = s.db.Append(ctx, key, batch)
	}
	if err != nil {
		return store.Appended{}, s.failed(err, "appending to %s", key)
	}
	return appended, nil
}

// Records implements [store.Store].
func (s *Store) Records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	if s.around != nil {
		return surrounded(ctx, s, "records", func(ctx context.Context) ([]event.Record, error) { return s.records(ctx, key, q) })
	}
	return s.records(ctx, key, q)
}

func (s *Store) records(ctx context.Context, key store.Key, q store.Query) ([]event.Record, error) {
	q = q.WithDefaults()
	args := append(make([]any, 0, 8), key.Namespace, key.ThreadID, q.After, q.Before)
	if len(q.Types) > 0 {
		args = append(args, q.Types)
	}
	if q.EventID != "" {
		args = append(args, q.EventID)
	}
	args = append(args, q.Limit)
	if q.MaxBytes > 0 {
		args = append(args, q.MaxBytes)
	}
	shape := recordShape{len(q.Types) > 0, q.EventID != "", q.MaxBytes > 0, q.Newest}
	records, err := s.page(ctx, q.MaxBytes, recordQueries[shape], args...)
	if err != nil {
		return nil, s.failed(err, "records of %s", key)
	}
	return records, nil
}

// page returns the records of a result up to the one with which their payloads have so many bytes; 0 = all.
func (s *Store) page(ctx context.Context, maxBytes int, q *Query, args ...any) (records []event.Record, err error) {
	rows, err := s.db.Reader.Query(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for bytes := 0; rows.Next(); {
		r, err := s.scanRecord(rows)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
		if bytes += len(r.Payload); maxBytes > 0 && bytes >= maxBytes {
			break
		}
	}
	return records, rows.Err()
}

// RecordsByID implements [store.Store].
func (s *Store) RecordsByID(ctx context.Context, key store.Key, ids ...string) ([]event.Record, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if s.around != nil {
		return surrounded(ctx, s, "records_by_id", func(ctx context.Context) ([]event.Record, error) { return s.recordsByID(ctx, key, ids) })
	}
	return s.recordsByID(ctx, key, ids)
}

func (s *Store) recordsByID(ctx context.Context, key store.Key, ids []string) ([]event.Record, error) {
	records, err := all(ctx, s, s.db.Reader, recordsByID, (*Store).scanRecord, key.Namespace, key.ThreadID, ids)
	if err != nil {
		return nil, s.failed(err, "records of %s by id", key)
	}
	return records, nil
}

// RecordIn returns a record in a transaction.
func RecordIn(ctx context.Context, s *Store, tx Querier, key store.Key, id string) (event.Record, error) {
	return one(ctx, s, tx, oneRecord, (*Store).scanRecord, key.Namespace, key.ThreadID, id)
}

// ToolLog implements [store.Store].
func (s *Store) ToolLog(ctx context.Context, key store.Key, toolCallID string) (store.ToolLog, error) {
	return call(ctx, s, "tool_log", func(ctx context.Context) (store.ToolLog, error) {
		return one(ctx, s, s.db.Reader, oneTool, (*Store).scanTool, key.Namespace, key.ThreadID, toolCallID)
	}, "tool log %q of %s", toolCallID, key)
}

// ToolLogs implements [store.Store].
func (s *Store) ToolLogs(ctx context.Context, key store.Key) ([]store.ToolLog, error) {
	return call(ctx, s, "tool_logs", func(ctx context.Context) ([]store.ToolLog, error) {
		return all(ctx, s, s.db.Reader, allTools, (*Store).scanTool, key.Namespace, key.ThreadID)
	}, "tool logs of %s", key)
}

func (s *Store) scanRecord(row Row) (r event.Record, err error) {
	err = row.Scan(&r.ID, &r.Seq, &r.Type, (*[]byte)(&r.Payload), &r.TraceID, &r.ParentEventID, &r.EventID, s.db.Time(&r.CreatedAt))
	return r, err
}

func (s *Store) scanTool(row Row) (l store.ToolLog, err error) {
	var finished time.Time
	err = row.Scan(&l.ToolCallID, &l.ToolName, &l.Agent, &l.TraceID, (*[]byte)(&l.Input), (*[]byte)(&l.Output), (*string)(&l.Status), &l.Attempt,
		s.db.Time(&l.StartedAt), s.db.Time(&finished))
	if !finished.IsZero() {
		l.FinishedAt = &finished
	}
	return l, err
}
