package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// listReads are the queries for lists of threads. threads, threadsOf and threadsIn are those without a filter.
type listReads struct {
	threads, threadsOf, threadsIn *sql.Stmt
	filtered, waiting, failing    *sql.Stmt
	count, countFiltered          *sql.Stmt
	previews, waitingRecords      *sql.Stmt
}

// shown selects the messages that viewers see: records of messages on which hooks have not decided
// otherwise, and those in the records of decisions. r is the record, ?6 the pattern.
const shown = `CASE r.type WHEN 'hook' THEN json_extract(r.payload, '$.outcome') IN ('passed', 'replaced')
		AND json_extract(r.payload, '$.message.content') LIKE ?6 ESCAPE '\'
	ELSE json_extract(r.payload, '$.content') LIKE ?6 ESCAPE '\'
		AND json_extract(r.payload, '$.held') IS NULL AND NOT EXISTS (
		SELECT 1 FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id
		AND h.id IN (r.id || '.hook', r.id || '.withdrawn') AND h.type = 'hook'
		AND (json_extract(h.payload, '$.outcome') <> 'passed' OR json_extract(h.payload, '$.message') IS NOT NULL)) END`

// filters are the conditions of a [store.ThreadGroup], each of which an empty value turns off: see filterArgs. A message is
// searched as hooks left it: what they have decided on is in their own records.
const filters = ` AND (?4 = '' OR status = ?4) AND (?5 = '' OR status = 'open' AND activity = ?5)
	AND (?6 = '' OR threads.id LIKE ?6 ESCAPE '\' OR title LIKE ?6 ESCAPE '\' OR agents LIKE ?7 ESCAPE '\' OR EXISTS (
		SELECT 1 FROM records r WHERE r.namespace = threads.namespace AND r.thread_id = threads.id
		AND r.type IN ('message', 'hook') AND r.payload LIKE ?7 ESCAPE '\' AND ` + shown + `))
	AND (?8 = '' OR ?9 AND agents = '[]' OR EXISTS (SELECT 1 FROM json_each(agents) WHERE value = ?8))
	AND updated_at < ?10 AND updated_at > ?11
	AND (?12 = '' AND ?13 IS NULL OR status = 'open' AND activity = 'waiting' AND ` + callWaits + `)
	AND NOT (?14 AND status = 'open' AND activity IN ('waiting', 'failing')) AND tokens >= ?15`

// callWaits selects threads in which a call waits for a tool, or until a time. A call waits for the newest request that it has made.
const callWaits = `EXISTS (SELECT 1 FROM thread_marks m WHERE m.namespace = threads.namespace AND m.thread_id = threads.id AND m.kind = 'waiting' AND (
		SELECT (?12 = '' OR r.payload ->> 'toolName' = ?12) AND (?13 IS NULL OR julianday(r.payload ->> 'expiresAt') < julianday(?13)) FROM records r
		WHERE r.namespace = m.namespace AND r.thread_id = m.thread_id AND r.event_id = m.event_id
		AND r.type IN ('approval_request', 'input_request') AND r.payload ->> 'toolCallId' = m.id
		ORDER BY r.seq DESC LIMIT 1))`

// byWait walks through the marks of a kind in the order of time, and leaves out those that do not begin the wait of their thread.
const byWait = `SELECT ` + threadColumns + ` FROM (SELECT thread_id AS waits, id AS waits_for, since AS waits_since FROM thread_marks
		WHERE namespace = ?1 AND kind = '%[1]s' AND (since, thread_id) > (?2, ?3)) CROSS JOIN threads
	WHERE namespace = ?1 AND threads.id = waits AND status = 'open' AND activity = '%[1]s' AND NOT EXISTS (
		SELECT 1 FROM thread_marks e WHERE e.namespace = ?1 AND e.thread_id = waits AND e.kind = activity AND (e.since, e.id) < (waits_since, waits_for))` +
	filters + ` ORDER BY waits_since, waits LIMIT ?16 + 0`

// firstMessages reads the beginnings of the first messages that hooks do not hide. In the record of a decision, only a message that
// replaces the stored one counts. A held message needs a decision that shows it, and one that awaits a decision is not shown.
const firstMessages = `SELECT value, (SELECT substr(CASE r.type WHEN 'hook' THEN r.payload -> '$.message.content' ELSE r.payload -> '$.content' END, 1, %d)
		FROM records r WHERE r.namespace = ?1 AND r.thread_id = value AND r.seq <= %d AND r.type IN ('message', 'hook') AND CASE r.type
		WHEN 'hook' THEN r.payload ->> '$.outcome' = 'replaced' AND r.payload ->> '$.message.senderType' IN ('user', 'agent')
			AND length(r.payload -> '$.message.content') > 2
			AND (SELECT 1 FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = replace(r.id, '.hook', '.withdrawn')) IS NULL
		ELSE r.payload ->> '$.senderType' IN ('user', 'agent') AND length(r.payload -> '$.content') > 2
			AND (SELECT 1 FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = r.id || '.withdrawn') IS NULL
			AND coalesce((SELECT h.payload ->> '$.outcome' IS 'passed' AND (r.payload -> '$.held' IS NULL OR h.payload -> '$.message' IS NOT NULL)
				FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = r.id || '.hook' AND h.type = 'hook'),
				r.payload -> '$.held' IS NULL AND coalesce(r.payload -> '$.undecided', '') NOT LIKE '%%"message"%%') END
		ORDER BY r.seq LIMIT 1) FROM json_each(?2)`

// waitingCalls reads the records of the calls that wait, from the turns of the marks. The result of a call has an id of its own.
const waitingCalls = `SELECT t.value, r.id, r.seq, r.type, r.payload, r.trace_id, r.parent_event_id, r.event_id, r.created_at
	FROM json_each(?2) t CROSS JOIN thread_marks m CROSS JOIN records r
	WHERE m.namespace = ?1 AND m.thread_id = t.value AND m.kind IN ('waiting', 'running')
	AND r.namespace = ?1 AND r.thread_id = t.value AND r.event_id = m.event_id AND CASE m.kind
		WHEN 'waiting' THEN r.type IN ('approval_request', 'approval', 'input_request') AND r.payload ->> 'toolCallId' = m.id
		ELSE r.type = 'client_call' AND NOT EXISTS (SELECT 1 FROM records d WHERE d.namespace = ?1 AND d.thread_id = t.value AND d.id = (r.payload ->> 'toolCallId') || '.result') END
	ORDER BY r.seq`

func (r *listReads) queries() map[**sql.Stmt]string {
	const (
		threads = selectThread + ` WHERE namespace = ?1 AND (updated_at, id) < (?2, ?3)`
		active  = ` ORDER BY updated_at DESC, id DESC LIMIT ?`
		counted = `SELECT status, activity, count(*) FROM threads WHERE namespace = ?1`
		grouped = ` GROUP BY status, activity`
	)
	return map[**sql.Stmt]string{
		&r.threads:       threads + active + `4 + 0`,
		&r.threadsOf:     threads + ` AND status = ?4` + active + `5 + 0`,
		&r.threadsIn:     threads + ` AND status = 'open' AND activity = ?4` + active + `5 + 0`,
		&r.filtered:      threads + filters + active + `16 + 0`,
		&r.waiting:       fmt.Sprintf(byWait, store.ActivityWaiting),
		&r.failing:       fmt.Sprintf(byWait, store.ActivityFailing),
		&r.count:         counted + grouped,
		&r.countFiltered: counted + ` AND (updated_at, id) < (?2, ?3)` + filters + grouped,
		&r.previews:      fmt.Sprintf(firstMessages, store.PreviewJSON, store.PreviewRecords),

		&r.waitingRecords: waitingCalls,
	}
}

// Threads implements [store.Store].
func (s *Store) Threads(ctx context.Context, namespace string, page store.ThreadPage) ([]store.Thread, error) {
	page = page.WithDefaults()
	if !store.Storable(page.Search) || page.Activity != "" && page.Status == store.ThreadClosed {
		return nil, nil
	}
	var out []store.Thread
	for _, g := range page.Groups() {
		g.Limit = page.Limit - len(out)
		stmt, args := s.readLists.query(namespace, g)
		threads, err := collect(ctx, stmt, scanThread, append(args, g.Limit)...)
		if err != nil {
			return nil, fmt.Errorf("sqlite: threads of %q: %w", namespace, classify(err))
		}
		for _, t := range threads {
			out = append(out, t.Normalize())
		}
		if len(out) == page.Limit {
			break
		}
	}
	return out, nil
}

// query returns the statement that reads a group, and its arguments without the limit.
func (r *listReads) query(namespace string, g store.ThreadGroup) (*sql.Stmt, []any) {
	args := filterArgs(namespace, g)
	switch plain := args[:3:3]; {
	case g.Longest == store.ActivityWaiting:
		return r.waiting, args
	case g.Longest == store.ActivityFailing:
		return r.failing, args
	case g.Others || g.ThreadFilter != (store.ThreadFilter{}):
		return r.filtered, args
	case g.Activity != "":
		return r.threadsIn, append(plain, string(g.Activity))
	case g.Status != "":
		return r.threadsOf, append(plain, g.Status)
	default:
		return r.threads, plain
	}
}

// filterArgs returns the arguments of filters.
func filterArgs(namespace string, g store.ThreadGroup) []any {
	before, after := int64(math.MaxInt64), int64(math.MinInt64)
	if !g.UpdatedBefore.IsZero() {
		before = g.UpdatedBefore.UnixMicro()
	}
	if !g.UpdatedAfter.IsZero() {
		after = g.UpdatedAfter.UnixMicro()
	}
	from := before
	if g.Longest != "" {
		from = math.MinInt64
	}
	if g.CursorID != "" {
		from = g.CursorUpdatedAt.UnixMicro()
	}
	var pattern, jsonPattern string
	if g.Search != "" {
		pattern, jsonPattern = store.Pattern(g.Search), store.JSONPattern(g.Search)
	}
	var expires any
	if !g.ExpiresBefore.IsZero() {
		expires = g.ExpiresBefore.UTC().Format(time.RFC3339Nano)
	}
	return []any{
		namespace, from, g.CursorID, g.Status, string(g.Activity), pattern, jsonPattern, g.Agent, g.DefaultAgent, before, after, g.Tool, expires, g.Others, g.MinTokens,
	}
}

// CountThreads implements [store.Store].
func (s *Store) CountThreads(ctx context.Context, namespace string, f store.ThreadFilter) (store.ThreadCounts, error) {
	var out store.ThreadCounts
	if !store.Storable(f.Search) {
		return out, nil
	}
	stmt, args := s.readLists.count, []any{namespace}
	if f != (store.ThreadFilter{}) {
		stmt, args = s.readLists.countFiltered, filterArgs(namespace, store.ThreadGroup{ThreadPage: store.ThreadPage{ThreadFilter: f}})
	}
	_, err := collect(ctx, stmt, func(row scanner) (none struct{}, err error) {
		var status, activity string
		var n int
		err = row.Scan(&status, &activity, &n)
		out.Add(status, store.Activity(activity), n)
		return none, err
	}, args...)
	if err != nil {
		return out, fmt.Errorf("sqlite: counting threads of %q: %w", namespace, classify(err))
	}
	return out, nil
}

// Previews implements [store.Store].
func (s *Store) Previews(ctx context.Context, namespace string, threadIDs ...string) (map[string]string, error) {
	out := map[string]string{}
	_, err := collect(ctx, s.readLists.previews, func(row scanner) (none struct{}, err error) {
		var id string
		var text sql.NullString
		err = row.Scan(&id, &text)
		if preview := store.Preview(text.String); preview != "" {
			out[id] = preview
		}
		return none, err
	}, namespace, list(threadIDs))
	if err != nil {
		return nil, fmt.Errorf("sqlite: first messages of threads of %q: %w", namespace, classify(err))
	}
	return out, nil
}

// WaitingRecords implements [store.Store].
func (s *Store) WaitingRecords(ctx context.Context, namespace string, threadIDs ...string) (map[string][]event.Record, error) {
	out := map[string][]event.Record{}
	_, err := collect(ctx, s.readLists.waitingRecords, func(row scanner) (none struct{}, err error) {
		var id string
		r, err := scanRecord(after{row, &id})
		out[id] = append(out[id], r)
		return none, err
	}, namespace, list(threadIDs))
	if err != nil {
		return nil, fmt.Errorf("sqlite: waiting calls of threads of %q: %w", namespace, classify(err))
	}
	return out, nil
}

// after scans a row after its first column.
type after struct {
	scanner
	first any
}

func (a after) Scan(into ...any) error { return a.scanner.Scan(append([]any{a.first}, into...)...) }
