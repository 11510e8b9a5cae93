package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// The statements of an append, in order. $1 and $2 are the key. The first locks the row; each later
// statement sees what was committed before the lock was acquired.
//
// Records are looked up by id one after another, in a form that forces the planner to use the
// index: without statistics it assumes that a thread has one row, and would read the whole thread.
const (
	makeThread = `INSERT INTO threads (namespace, id, created_at, updated_at) VALUES ($1, $2, now(), now())
		ON CONFLICT DO NOTHING`

	lockThread = `SELECT head, replaced, (SELECT coalesce(max(seq), 0) FROM agent_versions WHERE namespace = $1) FROM threads WHERE namespace = $1 AND id = $2 FOR UPDATE`

	addRecords = `WITH given AS (
			SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::text[], $16::bigint[])
				WITH ORDINALITY AS g (id, type, trace_id, parent_event_id, event_id, created_at, payload, tokens, place)
		), fresh AS (
			SELECT given.*, row_number() OVER (ORDER BY place) AS n FROM given WHERE (
				SELECT r.seq FROM records r WHERE r.namespace = $1 AND r.thread_id = $2 AND r.id = given.id) IS NULL
				AND (SELECT r.seq FROM records r WHERE r.namespace = $1 AND r.thread_id = $2 AND r.id = $10) IS NULL
		), added AS (
			INSERT INTO records (namespace, thread_id, seq, id, type, trace_id, parent_event_id, event_id, created_at, payload)
			SELECT t.namespace, t.id, t.head + f.n, f.id, f.type, f.trace_id, f.parent_event_id, f.event_id, f.created_at, f.payload::json
			FROM fresh f, threads t WHERE t.namespace = $1 AND t.id = $2
			RETURNING id, seq
		), moved AS (
			UPDATE threads SET head = head + (SELECT count(*) FROM added), tokens = tokens + (SELECT sum(given.tokens) FROM given JOIN added USING (id)), updated_at = greatest(updated_at, now())
			WHERE namespace = $1 AND id = $2 AND EXISTS (SELECT FROM added)
		), changes AS (
			SELECT c.* FROM unnest($11::text[], $12::text[], $13::text[], $14::text[], $15::bool[]) AS c (record, kind, id, event_id, ends)
			JOIN added ON added.id = c.record
		), begun AS (
			INSERT INTO thread_marks (namespace, thread_id, kind, id, event_id)
			SELECT $1, $2, kind, id, event_id FROM changes WHERE NOT ends ON CONFLICT DO NOTHING
		), ended AS (
			DELETE FROM thread_marks m USING changes c WHERE c.ends AND m.namespace = $1 AND m.thread_id = $2 AND m.kind = c.kind
				AND CASE WHEN c.id = '' THEN c.event_id IN ('', m.event_id) ELSE m.id = c.id END
		)
		SELECT id, seq FROM added`

	// Activities come in the order of [sqlstore.ActivityOf].
	setActivity = `UPDATE threads SET activity = n.activity FROM (SELECT coalesce(
			(SELECT kind FROM thread_marks WHERE namespace = $1 AND thread_id = $2 ORDER BY array_position($3::text[], kind) LIMIT 1), 'idle'
		) AS activity) n
		WHERE namespace = $1 AND id = $2 AND threads.activity <> n.activity`

	updateThread = `UPDATE threads t SET title = n.title, status = n.status, agents = n.agents, metadata = n.metadata, parent_id = n.parent_id,
			update_number = n.update_number, updated_at = greatest(t.updated_at, now())
		FROM (
			SELECT coalesce($3, title) AS title, coalesce($4, status) AS status, coalesce(nullif($5::text[], '{}'), agents) AS agents,
				coalesce($6::text::json, metadata) AS metadata, greatest($7::bigint, update_number) AS update_number,
				coalesce($8, parent_id) AS parent_id
			FROM threads WHERE namespace = $1 AND id = $2
		) n
		WHERE t.namespace = $1 AND t.id = $2 AND ($7::bigint = 0 OR t.update_number < $7)
			AND (t.title, t.status, t.agents, t.metadata::text, t.update_number, t.parent_id)
				IS DISTINCT FROM (n.title, n.status, n.agents, n.metadata::text, n.update_number, n.parent_id)`

	addTool = `INSERT INTO tool_logs (namespace, thread_id, tool_call_id, tool_name, agent, trace_id, input, output,
			status, attempt, started_at, finished_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7::text::json, $8::text::json, $9, $10, $11, $12)
		ON CONFLICT (namespace, thread_id, tool_call_id) `

	// startTool starts the log of a call that waited for input again.
	startTool = addTool + `DO UPDATE SET output = NULL, status = excluded.status, finished_at = NULL, attempt = excluded.attempt
		WHERE tool_logs.status = 'waiting'`

	finishTool = addTool + `DO UPDATE SET output = excluded.output, status = excluded.status, finished_at = excluded.finished_at,
			attempt = greatest(tool_logs.attempt, excluded.attempt)
		WHERE tool_logs.finished_at IS NULL`
)

// addExtractions queues texts whose ids were not queued before. Whoever adds the same ones at once does so in the same order.
const addExtractions = `INSERT INTO entity_extractions (namespace, id, ended, thread_id, event_id, content, source_type, source_id, queued_at)
		SELECT $1, x.id, false, x.thread_id, x.event_id, x.content, x.source_type, x.source_id, x.queued_at
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
			AS x(id, thread_id, event_id, content, source_type, source_id, queued_at)
		ORDER BY x.id COLLATE "C" ON CONFLICT DO NOTHING`

const uniqueViolation = "23505"

// appendTries is the number of attempts of an append that conflicts with others.
const appendTries = 6

// append implements [sqlstore.Database].Append.
func (s *Store) append(ctx context.Context, key store.Key, batch store.Batch) (store.Appended, error) {
	for try := 1; ; try++ {
		a := newAppending(key, batch)
		err := s.pool.SendBatch(ctx, &a.pipeline).Close()
		if err == nil {
			return s.result(ctx, a, batch)
		}
		if !rolledBack(err) || try == appendTries {
			return store.Appended{}, err
		}
		if err := pause(ctx, try); err != nil {
			return store.Appended{}, err
		}
	}
}

// rolledBack reports whether the append certainly did not happen and may succeed when retried. A
// lost connection does not count: the append may have happened, and a retry would then not report
// that it started its tool call.
func rolledBack(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return pgconn.SafeToRetry(err)
	}
	switch pgErr.Code {
	case uniqueViolation, "40001", "40P01": // serialization failure, deadlock
		return true
	}
	return false
}

func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(rand.N(time.Duration(try) * 10 * time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// appending is one attempt: its statements, which the server runs as one transaction because they
// come in one pipeline, and their results.
type appending struct {
	key      store.Key
	pipeline pgx.Batch

	// ids are those of the records, and added the numbers of those that are new. The head in done is that before the append.
	ids   []string
	added map[string]int64
	done  store.Appended
}

func newAppending(key store.Key, b store.Batch) *appending {
	a := &appending{key: key, added: map[string]int64{}}
	a.queue(makeThread)
	a.queue(lockThread).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&a.done.Head, &a.done.Replaced, &a.done.AgentChange)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrErased // since the first statement, and the others find no thread
		}
		return err
	})
	a.addRecords(b.Records, b.Once)
	if u := b.Thread; u != nil {
		a.queue(updateThread, u.Title, sqlstore.TextOrNull(u.Status), u.Agents, sqlstore.TextOrNull(u.Metadata), u.Number, sqlstore.TextOrNull(u.Parent))
	}
	if len(b.Extract) > 0 {
		a.pipeline.Queue(addExtractions, extractionArgs(key.Namespace, b.Extract...)...)
	}
	if b.ToolStart != nil {
		a.putTool(startTool, b.ToolStart).Exec(func(tag pgconn.CommandTag) error {
			a.done.Started = tag.RowsAffected() > 0
			return nil
		})
	}
	if b.ToolFinish != nil {
		a.putTool(finishTool, b.ToolFinish)
	}
	return a
}

func (a *appending) queue(sql string, args ...any) *pgx.QueuedQuery {
	return a.pipeline.Queue(sql, append([]any{a.key.Namespace, a.key.ThreadID}, args...)...)
}

func (a *appending) addRecords(records []event.Record, once string) {
	var ids, types, traces, parents, events, payloads []string
	var times []time.Time
	var tokens []int64
	given := make(map[string]bool, len(records))
	for _, r := range records {
		if given[r.ID] {
			continue
		}
		given[r.ID] = true
		ids, types = append(ids, r.ID), append(types, r.Type)
		traces, parents = append(traces, r.TraceID), append(parents, r.ParentEventID)
		events = append(events, r.EventID)
		times, payloads, tokens = append(times, r.CreatedAt), append(payloads, string(r.Payload)), append(tokens, sqlstore.TokensOf(r))
	}
	if a.ids = ids; len(ids) == 0 {
		return
	}
	var marks marks
	for _, c := range store.MarkChanges(records) {
		marks.add(c)
	}
	a.queue(addRecords, ids, types, traces, parents, events, times, payloads, once,
		marks.records, marks.kinds, marks.ids, marks.events, marks.ends, tokens).Query(func(rows pgx.Rows) error {
		var id string
		var seq int64
		_, err := pgx.ForEachRow(rows, []any{&id, &seq}, func() error {
			a.added[id] = seq
			return nil
		})
		return err
	})
	if len(marks.records) > 0 {
		a.queue(setActivity, sqlstore.Activities)
	}
}

// marks are changes of marks as columns.
type marks struct {
	records, kinds, ids, events []string
	ends                        []bool
}

func (m *marks) add(c store.MarkChange) {
	m.records, m.kinds = append(m.records, c.RecordID), append(m.kinds, string(c.Kind))
	m.ids, m.events, m.ends = append(m.ids, c.ID), append(m.events, c.EventID), append(m.ends, c.Ends)
}

func (a *appending) putTool(sql string, l *store.ToolLog) *pgx.QueuedQuery {
	return a.queue(sql, l.ToolCallID, l.ToolName, l.Agent, l.TraceID, string(l.Input), sqlstore.TextOrNull(l.Output),
		string(l.Status), l.Attempt, l.StartedAt, l.FinishedAt)
}

// result returns the result of an append that is committed. It reads the records that were already stored: they only come with retries.
func (s *Store) result(ctx context.Context, a *appending, b store.Batch) (store.Appended, error) {
	stored := map[string]event.Record{}
	if len(a.added) < len(a.ids) {
		found, err := s.RecordsByID(ctx, a.key, a.ids...)
		if err != nil {
			return store.Appended{}, err
		}
		for _, r := range found {
			stored[r.ID] = r
		}
	}
	result := a.done
	result.Head += int64(len(a.added))
	first := make(map[string]event.Record, len(b.Records))
	for _, r := range b.Records {
		if known, twice := first[r.ID]; twice {
			r = known
		} else if seq, added := a.added[r.ID]; added {
			r.Seq = seq
		} else if old, exists := stored[r.ID]; exists {
			r = old
		} else if _, done := stored[b.Once]; done {
			continue
		} else {
			return store.Appended{}, fmt.Errorf("record %q is neither new nor stored", r.ID)
		}
		first[r.ID] = r
		result.Records = append(result.Records, r)
	}
	return result, nil
}

// extractionArgs are the arguments of addExtractions.
func extractionArgs(namespace string, texts ...store.Extraction) []any {
	var ids, threads, events, contents, types, sources []string
	var times []time.Time
	for _, x := range texts {
		ids, threads, events, contents = append(ids, x.ID), append(threads, x.ThreadID), append(events, x.EventID), append(contents, x.Content)
		types, sources, times = append(types, x.SourceType), append(sources, x.SourceID), append(times, x.QueuedAt)
	}
	return []any{namespace, ids, threads, events, contents, types, sources, times}
}
