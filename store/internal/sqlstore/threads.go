package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

const (
	// The last column is the time since which the thread has its activity.
	threadColumns = `namespace, id, title, status, activity, agents, metadata, parent_id, head, tokens, created_at, updated_at,
		(SELECT min(a.since) FROM thread_marks a WHERE a.namespace = threads.namespace AND a.thread_id = threads.id AND a.kind = threads.activity)`
	selectThread = `SELECT ` + threadColumns + ` FROM threads`
)

var (
	oneThread    = both(selectThread + ` WHERE namespace = $1 AND id = $2`)
	erasedThread = both(`SELECT 1 FROM erased_threads WHERE namespace = $1 AND id = $2`)

	// A call waits for the newest request that it has made. Reminders repeat a request.
	pendingApprovals = both(`SELECT count(since), min(since) FROM (
		SELECT (SELECT CASE r.type WHEN 'approval_request' THEN r.created_at END FROM records r
			WHERE r.namespace = m.namespace AND r.thread_id = m.thread_id AND r.event_id = m.event_id
			AND r.type IN ('approval_request', 'input_request') AND r.payload ->> 'toolCallId' = m.id AND r.payload ->> 'reminder' IS NULL
			ORDER BY r.seq DESC LIMIT 1) AS since
		FROM threads t JOIN thread_marks m ON m.namespace = t.namespace AND m.thread_id = t.id AND m.kind = 'waiting'
		WHERE t.namespace = $1 AND t.status = 'open' AND t.activity = 'waiting' AND t.parent_id = '') AS waiting`)

	// threadsByUpdate orders threads by their last change. The first page has a cursor too, so that it uses the same index.
	threadsByUpdate = both(selectThread + ` WHERE namespace = $1 AND (updated_at, id) < ($2, $3)`)
	newestThreads   = both(` ORDER BY updated_at DESC, id DESC LIMIT $1 + 0`)

	// threadsByWait walk through the marks of a kind in the order of time, and leave out those that do not begin the wait of their thread.
	threadsByWait  = map[store.Activity]*Query{store.ActivityWaiting: byWait(store.ActivityWaiting), store.ActivityFailing: byWait(store.ActivityFailing)}
	longestWaiting = both(` ORDER BY waits_since, waits LIMIT $1 + 0`)

	countedThreads = both(`SELECT status, activity, count(*) FROM threads WHERE namespace = $1`)
	byActivity     = both(` GROUP BY status, activity`)

	withStatus    = both(` AND status = $1`)
	withActivity  = both(` AND status = 'open' AND activity = $1`)
	withoutWait   = both(` AND NOT (status = 'open' AND activity IN ('waiting', 'failing'))`)
	updatedBefore = both(` AND updated_at < $1`)
	updatedAfter  = both(` AND updated_at > $1`)
	minTokens     = both(` AND tokens >= $1`)

	withAgent = &Query{
		SQLite:   ` AND (EXISTS (SELECT 1 FROM json_each(agents) WHERE value = $1) OR $2 AND agents = '[]')`,
		Postgres: ` AND ($1 = ANY(agents) OR $2 AND agents = '{}')`,
	}

	// withText selects threads by patterns of a text and of the text in JSON. A message is searched as hooks left it: what they have
	// decided on is in their own records.
	withText = &Query{
		SQLite: ` AND (threads.id LIKE $1 ESCAPE '\' OR title LIKE $1 ESCAPE '\' OR agents LIKE $2 ESCAPE '\' OR EXISTS (
			SELECT 1 FROM records r WHERE r.namespace = threads.namespace AND r.thread_id = threads.id
			AND r.type IN ('message', 'hook') AND r.payload LIKE $2 ESCAPE '\' AND ` + fmt.Sprintf(visible.SQLite, `LIKE $1 ESCAPE '\'`) + `))`,
		Postgres: ` AND (id ILIKE $1 OR title ILIKE $1 OR array_to_string(agents, ' ') ILIKE $1 OR EXISTS (
			SELECT 1 FROM records r WHERE r.namespace = threads.namespace AND r.thread_id = threads.id
			AND r.type IN ('message', 'hook') AND r.payload::text ILIKE $2 AND ` + fmt.Sprintf(visible.Postgres, `ILIKE $2`) + `))`,
	}

	// Calls that wait for a tool, or until a time. SQLite compares milliseconds, of texts that are alike.
	waitFor = &Query{
		SQLite:   `r.payload ->> 'toolName' = $1`,
		Postgres: `r.payload ->> 'toolName' = $1`,
	}
	waitUntil = &Query{
		SQLite:   `julianday(r.payload ->> 'expiresAt') < julianday($1)`,
		Postgres: `(r.payload ->> 'expiresAt')::timestamptz < $1::text::timestamptz`,
	}
	waitForUntil = &Query{
		SQLite:   waitFor.SQLite + ` AND ` + shifted(waitUntil.SQLite, 1),
		Postgres: waitFor.Postgres + ` AND ` + shifted(waitUntil.Postgres, 1),
	}
	withCall = map[*Query]*Query{waitFor: callWaits(waitFor), waitUntil: callWaits(waitUntil), waitForUntil: callWaits(waitForUntil)}

	// waitingCalls reads the records of the calls that wait, from the turns of the marks. The result of a call has an id of its own.
	waitingCalls = &Query{
		SQLite: `SELECT t.value, r.id, r.seq, r.type, r.payload, r.trace_id, r.parent_event_id, r.event_id, r.created_at
			FROM json_each($2) t CROSS JOIN thread_marks m CROSS JOIN records r
			WHERE m.namespace = $1 AND m.thread_id = t.value AND m.kind IN ('waiting', 'running')
			AND r.namespace = $1 AND r.thread_id = t.value AND r.event_id = m.event_id AND CASE m.kind
				WHEN 'waiting' THEN r.type IN ('approval_request', 'approval', 'input_request') AND r.payload ->> 'toolCallId' = m.id
				ELSE r.type = 'client_call' AND NOT EXISTS (SELECT 1 FROM records d WHERE d.namespace = $1 AND d.thread_id = t.value AND d.id = (r.payload ->> 'toolCallId') || '.result') END
			ORDER BY r.seq`,
		Postgres: `SELECT thread, r.* FROM unnest($2::text[]) AS thread,
			LATERAL (SELECT kind, id, event_id FROM thread_marks WHERE namespace = $1 AND thread_id = thread AND kind IN ('waiting', 'running') OFFSET 0) AS m,
			LATERAL (SELECT ` + recordColumns + ` FROM records WHERE namespace = $1 AND thread_id = thread AND event_id = m.event_id AND CASE m.kind
				WHEN 'waiting' THEN type IN ('approval_request', 'approval', 'input_request') AND payload ->> 'toolCallId' = m.id
				ELSE type = 'client_call' END OFFSET 0) AS r
			WHERE r.type <> 'client_call' OR (SELECT d.seq FROM records d WHERE d.namespace = $1 AND d.thread_id = thread AND d.id = (r.payload ->> 'toolCallId') || '.result') IS NULL
			ORDER BY r.seq`,
	}
)

func byWait(kind store.Activity) *Query {
	return &Query{
		SQLite: fmt.Sprintf(`SELECT `+threadColumns+` FROM (SELECT thread_id AS waits, id AS waits_for, since AS waits_since FROM thread_marks
				WHERE namespace = $1 AND kind = '%[1]s' AND (since, thread_id) > ($2, $3)) CROSS JOIN threads
			WHERE namespace = $1 AND threads.id = waits AND status = 'open' AND activity = '%[1]s' AND NOT EXISTS (
				SELECT 1 FROM thread_marks e WHERE e.namespace = $1 AND e.thread_id = waits AND e.kind = activity AND (e.since, e.id) < (waits_since, waits_for))`, kind),
		// One thread is looked up after another: without statistics, a join would go through all waiting threads for each one.
		Postgres: fmt.Sprintf(`SELECT `+threadColumns+` FROM (SELECT thread_id AS waits, id AS waits_for, since AS waits_since FROM thread_marks
				WHERE namespace = $1 AND kind = '%[1]s' AND (since, thread_id) > ($2, $3)) AS marks,
			LATERAL (SELECT * FROM threads WHERE namespace = $1 AND id = waits LIMIT 1) AS threads
			WHERE status = 'open' AND activity = '%[1]s' AND (waits_since, waits_for) = (
				SELECT e.since, e.id FROM thread_marks e WHERE e.namespace = $1 AND e.thread_id = waits AND e.kind = activity ORDER BY e.since, e.id LIMIT 1)`, kind),
	}
}

// callWaits selects threads in which a call waits that a condition selects. A call waits for the newest request that it has made.
func callWaits(condition *Query) *Query {
	return &Query{
		SQLite: ` AND status = 'open' AND activity = 'waiting' AND EXISTS (
			SELECT 1 FROM thread_marks m WHERE m.namespace = threads.namespace AND m.thread_id = threads.id AND m.kind = 'waiting' AND (SELECT ` + condition.SQLite + `
				FROM records r WHERE r.namespace = m.namespace AND r.thread_id = m.thread_id AND r.event_id = m.event_id
				AND r.type IN ('approval_request', 'input_request') AND r.payload ->> 'toolCallId' = m.id
				ORDER BY r.seq DESC LIMIT 1))`,
		// An aggregate cannot become a join, which would go through the marks of all threads for each thread.
		Postgres: ` AND status = 'open' AND activity = 'waiting' AND (
			SELECT bool_or((SELECT ` + condition.Postgres + ` FROM records r
				WHERE r.namespace = m.namespace AND r.thread_id = m.thread_id AND r.event_id = m.event_id
				AND r.type IN ('approval_request', 'input_request') AND r.payload ->> 'toolCallId' = m.id
				ORDER BY r.seq DESC LIMIT 1))
			FROM thread_marks m WHERE m.namespace = threads.namespace AND m.thread_id = threads.id AND m.kind = activity)`,
	}
}

// Thread implements [store.Store].
func (s *Store) Thread(ctx context.Context, key store.Key) (store.Thread, error) {
	if s.around != nil {
		return surrounded(ctx, s, "thread", func(ctx context.Context) (store.Thread, error) { return s.thread(ctx, key) })
	}
	return s.thread(ctx, key)
}

func (s *Store) thread(ctx context.Context, key store.Key) (store.Thread, error) {
	t, err := one(ctx, s, s.db.Reader, oneThread, (*Store).scanThread, key.Namespace, key.ThreadID)
	if errors.Is(err, store.ErrNotFound) {
		if erased, looking := exists(ctx, s, s.db.Reader, erasedThread, key.Namespace, key.ThreadID); erased || looking != nil {
			err = cmp.Or(looking, store.ErrErased)
		}
	}
	if err != nil {
		return store.Thread{}, s.failed(err, "thread %s", key)
	}
	return t, nil
}

// PendingApprovals implements [store.Store].
func (s *Store) PendingApprovals(ctx context.Context, namespace string) (store.PendingApprovals, error) {
	return call(ctx, s, "pending_approvals", func(ctx context.Context) (out store.PendingApprovals, err error) {
		err = Each(ctx, s.db.Reader, pendingApprovals, func(row Row) error {
			return row.Scan(&out.Count, s.db.Time(&out.Oldest))
		}, namespace)
		return out, err
	}, "pending approvals of %q", namespace)
}

// Threads implements [store.Store].
func (s *Store) Threads(ctx context.Context, namespace string, page store.ThreadPage) ([]store.Thread, error) {
	return call(ctx, s, "threads", func(ctx context.Context) (out []store.Thread, err error) {
		page := threadPageDefaults(page)
		for _, g := range threadGroups(page) {
			g.Limit = page.Limit - len(out)
			query, args := groupQuery(namespace, g)
			threads, err := all(ctx, s, s.db.Reader, query, (*Store).scanThread, args...)
			if err != nil {
				return nil, err
			}
			if out = append(out, threads...); len(out) == page.Limit {
				break
			}
		}
		return out, nil
	}, "threads of %q", namespace)
}

// groupQuery returns the query for a group of threads.
func groupQuery(namespace string, g threadGroup) (*Query, []any) {
	var q selection
	from, order := afterAll, newestThreads
	if g.Longest != "" {
		from, order = beforeAll, longestWaiting
	}
	if g.CursorID != "" {
		from = g.CursorUpdatedAt
	}
	if g.Longest != "" {
		q.add(threadsByWait[g.Longest], namespace, from, g.CursorID)
	} else {
		q.add(threadsByUpdate, namespace, from, g.CursorID)
	}
	if g.Others {
		q.add(withoutWait)
	}
	if g.Status != "" {
		q.add(withStatus, g.Status)
	}
	if g.Activity != "" {
		q.add(withActivity, string(g.Activity))
	}
	q.filter(g.ThreadFilter)
	q.add(order, g.Limit)
	return q.query(g.ThreadFilter == store.ThreadFilter{}), q.args
}

// Times before and after all others. The zero time is none.
var (
	beforeAll = time.Unix(0, 0)
	afterAll  = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (q *selection) filter(f store.ThreadFilter) {
	if f.Search != "" {
		q.add(withText, pattern(f.Search), jsonPattern(f.Search))
	}
	if f.Agent != "" {
		q.add(withAgent, f.Agent, f.DefaultAgent)
	}
	if !f.UpdatedBefore.IsZero() {
		q.add(updatedBefore, f.UpdatedBefore)
	}
	if !f.UpdatedAfter.IsZero() {
		q.add(updatedAfter, f.UpdatedAfter)
	}
	if f.MinTokens > 0 {
		q.add(minTokens, f.MinTokens)
	}
	until := f.ExpiresBefore.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
	switch {
	case f.Tool != "" && !f.ExpiresBefore.IsZero():
		q.add(withCall[waitForUntil], f.Tool, until)
	case f.Tool != "":
		q.add(withCall[waitFor], f.Tool)
	case !f.ExpiresBefore.IsZero():
		q.add(withCall[waitUntil], until)
	}
}

// CountThreads implements [store.Store].
func (s *Store) CountThreads(ctx context.Context, namespace string, f store.ThreadFilter) (store.ThreadCounts, error) {
	return call(ctx, s, "count_threads", func(ctx context.Context) (out store.ThreadCounts, err error) {
		var q selection
		q.add(countedThreads, namespace)
		q.filter(f)
		q.add(byActivity)
		err = Each(ctx, s.db.Reader, q.query(f == store.ThreadFilter{}), func(row Row) error {
			var status, activity string
			var n int
			err := row.Scan(&status, &activity, &n)
			out.Add(status, store.Activity(activity), n)
			return err
		}, q.args...)
		return out, err
	}, "counting threads of %q", namespace)
}

// Previews implements [store.Store].
func (s *Store) Previews(ctx context.Context, namespace string, threadIDs ...string) (map[string]string, error) {
	return call(ctx, s, "previews", func(ctx context.Context) (map[string]string, error) {
		out := map[string]string{}
		err := Each(ctx, s.db.Reader, firstMessages, func(row Row) error {
			var id string
			var beginning *string
			err := row.Scan(&id, &beginning)
			if beginning == nil || err != nil {
				return err
			}
			if preview := preview(*beginning); preview != "" {
				out[id] = preview
			}
			return nil
		}, namespace, threadIDs)
		return out, err
	}, "first messages of threads of %q", namespace)
}

// WaitingRecords implements [store.Store].
func (s *Store) WaitingRecords(ctx context.Context, namespace string, threadIDs ...string) (map[string][]event.Record, error) {
	return call(ctx, s, "waiting_records", func(ctx context.Context) (map[string][]event.Record, error) {
		out := map[string][]event.Record{}
		err := Each(ctx, s.db.Reader, waitingCalls, func(row Row) error {
			var id string
			r, err := s.scanRecord(after{row, &id})
			out[id] = append(out[id], r)
			return err
		}, namespace, threadIDs)
		return out, err
	}, "waiting calls of threads of %q", namespace)
}

// after scans a row after its first column.
type after struct {
	Row
	first any
}

func (a after) Scan(into ...any) error { return a.Row.Scan(append([]any{a.first}, into...)...) }

func (s *Store) scanThread(row Row) (t store.Thread, err error) {
	err = row.Scan(&t.Namespace, &t.ID, &t.Title, &t.Status, (*string)(&t.Activity), s.db.List(&t.Agents), (*[]byte)(&t.Metadata), &t.Parent, &t.Head, &t.Tokens,
		s.db.Time(&t.CreatedAt), s.db.Time(&t.UpdatedAt), s.db.Time(&t.ActivitySince))
	return normalizeThread(t), err
}

const (
	// previewJSON is how many characters of a message's JSON string drivers read: enough for a preview of escaped characters.
	previewJSON = 4000
)

// threadGroup is a part of a page, in one order.
type threadGroup struct {
	store.ThreadPage

	// Longest selects open threads with this activity, one of [store.Attention], in the order of ActivitySince. Empty: the group is in
	// the order of OrderActive.
	Longest store.Activity

	// Others leaves out open threads with an activity of [store.Attention].
	Others bool
}

// threadGroups returns the parts of a page, which are read one after the other until they have p.Limit threads.
func threadGroups(p store.ThreadPage) []threadGroup {
	if p.Order != store.OrderAttention {
		return []threadGroup{{ThreadPage: p}}
	}
	from := 0
	if p.CursorID != "" {
		from = groupOf(p.CursorActivity)
	}
	var out []threadGroup
	for i := from; i <= len(store.Attention); i++ {
		g := threadGroup{ThreadPage: p}
		if i > from {
			g.CursorID, g.CursorUpdatedAt = "", time.Time{}
		}
		if i < len(store.Attention) {
			g.Longest = store.Attention[i]
		} else {
			g.Others = true
		}
		if p.Activity != "" && groupOf(p.Activity) != i || p.Status == store.ThreadClosed && !g.Others {
			continue
		}
		out = append(out, g)
	}
	return out
}

// preview returns the beginning of a text on one line without NUL characters, from the first [previewJSON] characters of its JSON string.
func preview(beginning string) string {
	text := strings.ReplaceAll(decodeBeginning(beginning), "\x00", "\uFFFD")
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= store.PreviewLength {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:store.PreviewLength-1])) + "…"
}

// decodeBeginning decodes a JSON string, or the beginning of one, which may end within an escaped character.
func decodeBeginning(beginning string) (text string) {
	if json.Unmarshal([]byte(beginning), &text) == nil {
		return text
	}
	const longest = len(`\ud83e\uddf5`)
	for cut := range min(longest, len(beginning)) {
		if json.Unmarshal([]byte(beginning[:len(beginning)-cut]+`"`), &text) == nil {
			return strings.TrimRight(text, "\uFFFD")
		}
	}
	return ""
}

// groupOf returns the place of an activity among those of [store.Attention], or the one after them.
func groupOf(a store.Activity) int {
	if i := slices.Index(store.Attention, a); i >= 0 {
		return i
	}
	return len(store.Attention)
}
