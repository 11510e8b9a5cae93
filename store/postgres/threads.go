package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

const (
	// ofRecord and ofDecision are payloads without NUL characters, since a field of JSON with one cannot be read.
	ofRecord   = `(replace(r.payload::text, '\u0000', '\ufffd')::json)`
	ofDecision = `(replace(h.payload::text, '\u0000', '\ufffd')::json)`

	// found selects threads by text. A message is searched as hooks left it: what they have decided on is in their own records.
	// The patterns are of texts and of JSON.
	found = `(id ILIKE %[1]s OR title ILIKE %[1]s OR array_to_string(agents, ' ') ILIKE %[1]s OR EXISTS (
		SELECT 1 FROM records r WHERE r.namespace = threads.namespace AND r.thread_id = threads.id
		AND r.type IN ('message', 'hook') AND r.payload::text ILIKE %[2]s AND ` + shown + `))`

	// shown selects the messages that viewers see: records of messages on which hooks have not
	// decided otherwise, and those in the records of decisions.
	shown = `CASE r.type WHEN 'hook' THEN (` + ofRecord + `->'outcome')::text IN ('"passed"', '"replaced"')
			AND (` + ofRecord + `->'message'->'content')::text ILIKE %[2]s
		ELSE (` + ofRecord + `->'content')::text ILIKE %[2]s AND ` + ofRecord + `->'held' IS NULL AND NOT EXISTS (
			SELECT 1 FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id
			AND h.id IN (r.id || '.hook', r.id || '.withdrawn') AND h.type = 'hook'
			AND ((` + ofDecision + `->'outcome')::text <> '"passed"' OR ` + ofDecision + `->'message' IS NOT NULL)) END`

	// callWaits selects threads in which a call waits that a condition selects. A call waits for the newest request that it has made.
	// An aggregate cannot become a join, which would go through the marks of all threads for each thread.
	callWaits = `status = 'open' AND activity = 'waiting' AND (
		SELECT bool_or((SELECT %s FROM records r
			WHERE r.namespace = m.namespace AND r.thread_id = m.thread_id AND r.event_id = m.event_id
			AND r.type IN ('approval_request', 'input_request') AND r.payload ->> 'toolCallId' = m.id
			ORDER BY r.seq DESC LIMIT 1))
		FROM thread_marks m WHERE m.namespace = threads.namespace AND m.thread_id = threads.id AND m.kind = activity)`

	// byUpdate orders threads by their last change. The first page has a cursor too, so that it uses the same index.
	byUpdate = selectThread + ` WHERE namespace = $1 AND (updated_at, id) < (coalesce($2, 'infinity'::timestamptz), $3)`

	// byWait walks through the marks of a kind in the order of time, and leaves out those that do not begin the wait of their thread.
	// It looks up one thread after another: without statistics, a join would go through all waiting threads for each one.
	byWait = `SELECT ` + threadColumns + ` FROM (SELECT thread_id AS waits, id AS waits_for, since AS waits_since FROM thread_marks
			WHERE namespace = $1 AND kind = '%[1]s' AND (since, thread_id) > (coalesce($2, '-infinity'::timestamptz), $3)) AS marks,
		LATERAL (SELECT * FROM threads WHERE namespace = $1 AND id = waits LIMIT 1) AS threads
		WHERE status = 'open' AND activity = '%[1]s' AND (waits_since, waits_for) = (
			SELECT e.since, e.id FROM thread_marks e WHERE e.namespace = $1 AND e.thread_id = waits AND e.kind = activity ORDER BY e.since, e.id LIMIT 1)`

	counted = `SELECT status, activity, count(*) FROM threads WHERE namespace = $1`

	// firstMessages reads the beginnings of the first messages that hooks do not hide. In the record of a decision, only a message
	// that replaces the stored one counts. A held message needs a decision that shows it, and one that awaits a decision is not shown.
	// Records are looked up by id one after another: see addRecords.
	firstMessages = `SELECT thread, (SELECT left((CASE r.type WHEN 'hook' THEN ` + ofRecord + `->'message'->'content' ELSE ` + ofRecord + `->'content' END)::text, %d)
		FROM records r WHERE r.namespace = $1 AND r.thread_id = thread AND r.seq <= %d AND r.type IN ('message', 'hook') AND CASE r.type
		WHEN 'hook' THEN (` + ofRecord + `->'outcome')::text = '"replaced"' AND (` + ofRecord + `->'message'->'senderType')::text IN ('"user"', '"agent"')
			AND length((` + ofRecord + `->'message'->'content')::text) > 2
			AND (SELECT h.seq FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = replace(r.id, '.hook', '.withdrawn')) IS NULL
		ELSE (` + ofRecord + `->'senderType')::text IN ('"user"', '"agent"') AND length((` + ofRecord + `->'content')::text) > 2
			AND (SELECT h.seq FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = r.id || '.withdrawn') IS NULL
			AND coalesce((SELECT coalesce((` + ofDecision + `->'outcome')::text, '') = '"passed"' AND (` + ofRecord + `->'held' IS NULL OR ` + ofDecision + `->'message' IS NOT NULL)
				FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = r.id || '.hook' AND h.type = 'hook'),
				` + ofRecord + `->'held' IS NULL AND coalesce((` + ofRecord + `->'undecided')::text, '') NOT LIKE '%%"message"%%') END
		ORDER BY r.seq LIMIT 1) FROM unnest($2::text[]) AS thread`

	// waitingCalls reads the records of the calls that wait, from the turns of the marks. The result of a call has an id of its own.
	waitingCalls = `SELECT thread, r.* FROM unnest($2::text[]) AS thread,
		LATERAL (SELECT kind, id, event_id FROM thread_marks WHERE namespace = $1 AND thread_id = thread AND kind IN ('waiting', 'running') OFFSET 0) AS m,
		LATERAL (SELECT ` + recordColumns + ` FROM records WHERE namespace = $1 AND thread_id = thread AND event_id = m.event_id AND CASE m.kind
			WHEN 'waiting' THEN type IN ('approval_request', 'approval', 'input_request') AND payload ->> 'toolCallId' = m.id
			ELSE type = 'client_call' END OFFSET 0) AS r
		WHERE r.type <> 'client_call' OR (SELECT d.seq FROM records d WHERE d.namespace = $1 AND d.thread_id = thread AND d.id = (r.payload ->> 'toolCallId') || '.result') IS NULL
		ORDER BY r.seq`
)

// listQuery is a query for threads.
type listQuery struct {
	sql  strings.Builder
	args []any
}

// groupQuery returns the query for a group, without its limit.
func groupQuery(namespace string, g store.ThreadGroup) *listQuery {
	q := &listQuery{args: []any{namespace, timeOrNull(g.CursorUpdatedAt), g.CursorID}}
	if g.CursorID == "" {
		q.args[1] = nil
	}
	order := ` ORDER BY updated_at DESC, id DESC`
	if g.Longest != "" {
		fmt.Fprintf(&q.sql, byWait, g.Longest)
		order = ` ORDER BY waits_since, waits`
	} else {
		q.sql.WriteString(byUpdate)
	}
	if g.Others {
		q.and(`NOT (status = 'open' AND activity = ANY(%s))`, store.Attention)
	}
	if g.Status != "" {
		q.and(`status = %s`, g.Status)
	}
	if g.Activity != "" {
		q.and(`status = 'open' AND activity = %s`, string(g.Activity))
	}
	q.filter(g.ThreadFilter)
	q.sql.WriteString(order)
	return q
}

// and adds a condition on values.
func (q *listQuery) and(condition string, values ...any) {
	places := make([]any, len(values))
	for i, value := range values {
		q.args = append(q.args, value)
		places[i] = "$" + strconv.Itoa(len(q.args))
	}
	q.sql.WriteString(" AND ")
	fmt.Fprintf(&q.sql, condition, places...)
}

func (q *listQuery) filter(f store.ThreadFilter) {
	if f.Search != "" {
		q.and(found, store.Pattern(f.Search), store.JSONPattern(f.Search))
	}
	if f.Agent != "" {
		q.and(`(%s = ANY(agents) OR %s AND agents = '{}')`, f.Agent, f.DefaultAgent)
	}
	if !f.UpdatedBefore.IsZero() {
		q.and(`updated_at < %s`, f.UpdatedBefore)
	}
	if !f.UpdatedAfter.IsZero() {
		q.and(`updated_at > %s`, f.UpdatedAfter)
	}
	if f.MinTokens > 0 {
		q.and(`tokens >= %s`, f.MinTokens)
	}
	const ofTool, until = `r.payload ->> 'toolName' = %s`, `(r.payload ->> 'expiresAt')::timestamptz < %s`
	switch {
	case f.Tool != "" && !f.ExpiresBefore.IsZero():
		q.and(fmt.Sprintf(callWaits, ofTool+` AND `+until), f.Tool, f.ExpiresBefore)
	case f.Tool != "":
		q.and(fmt.Sprintf(callWaits, ofTool), f.Tool)
	case !f.ExpiresBefore.IsZero():
		q.and(fmt.Sprintf(callWaits, until), f.ExpiresBefore)
	}
}

// storableFilter reports whether the texts of a filter can match anything.
func storableFilter(f store.ThreadFilter) bool {
	return store.Storable(f.Search) && store.Storable(f.Agent) && store.Storable(f.Tool)
}

// Threads implements [store.Store].
func (s *Store) Threads(ctx context.Context, namespace string, page store.ThreadPage) ([]store.Thread, error) {
	page = page.WithDefaults()
	if !store.Storable(namespace) || !store.Storable(page.Status) || !store.Storable(page.CursorID) || !storableFilter(page.ThreadFilter) {
		return nil, nil
	}
	var out []store.Thread
	for _, g := range page.Groups() {
		q := groupQuery(namespace, g)
		q.args = append(q.args, page.Limit-len(out))
		rows, err := s.pool.Query(ctx, q.sql.String()+" LIMIT $"+strconv.Itoa(len(q.args)), q.args...)
		if err != nil {
			return nil, fmt.Errorf("postgres: threads of %q: %w", namespace, classify(err))
		}
		threads, err := pgx.CollectRows(rows, scanThread)
		if err != nil {
			return nil, fmt.Errorf("postgres: threads of %q: %w", namespace, classify(err))
		}
		if out = append(out, threads...); len(out) == page.Limit {
			break
		}
	}
	return out, nil
}

// CountThreads implements [store.Store].
func (s *Store) CountThreads(ctx context.Context, namespace string, f store.ThreadFilter) (store.ThreadCounts, error) {
	var out store.ThreadCounts
	if !store.Storable(namespace) || !storableFilter(f) {
		return out, nil
	}
	q := &listQuery{args: []any{namespace}}
	q.sql.WriteString(counted)
	q.filter(f)
	rows, err := s.pool.Query(ctx, q.sql.String()+` GROUP BY status, activity`, q.args...)
	if err == nil {
		var status string
		var activity store.Activity
		var n int
		_, err = pgx.ForEachRow(rows, []any{&status, &activity, &n}, func() error {
			out.Add(status, activity, n)
			return nil
		})
	}
	if err != nil {
		return out, fmt.Errorf("postgres: counting threads of %q: %w", namespace, classify(err))
	}
	return out, nil
}

// Previews implements [store.Store].
func (s *Store) Previews(ctx context.Context, namespace string, threadIDs ...string) (map[string]string, error) {
	out := map[string]string{}
	if !store.Storable(namespace) {
		return out, nil
	}
	rows, err := s.pool.Query(ctx, fmt.Sprintf(firstMessages, store.PreviewJSON, store.PreviewRecords), namespace, storable(threadIDs))
	if err == nil {
		var id string
		var beginning *string
		_, err = pgx.ForEachRow(rows, []any{&id, &beginning}, func() error {
			if beginning == nil {
				return nil
			}
			if preview := store.Preview(*beginning); preview != "" {
				out[id] = preview
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: first messages of threads of %q: %w", namespace, classify(err))
	}
	return out, nil
}

// WaitingRecords implements [store.Store].
func (s *Store) WaitingRecords(ctx context.Context, namespace string, threadIDs ...string) (map[string][]event.Record, error) {
	out := map[string][]event.Record{}
	if !store.Storable(namespace) {
		return out, nil
	}
	_, err := collectRows(ctx, s.pool, func(row pgx.CollectableRow) (none struct{}, err error) {
		var id string
		var r event.Record
		err = row.Scan(append([]any{&id}, recordFields(&r)...)...)
		r.CreatedAt = r.CreatedAt.UTC()
		out[id] = append(out[id], r)
		return none, err
	}, waitingCalls, namespace, storable(threadIDs))
	if err != nil {
		return nil, fmt.Errorf("postgres: waiting calls of threads of %q: %w", namespace, classify(err))
	}
	return out, nil
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
