package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

const addTool = `INSERT INTO tool_logs (namespace, thread_id, tool_call_id, tool_name, agent, trace_id, input, output, status, attempt, started_at, finished_at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (namespace, thread_id, tool_call_id) DO UPDATE SET `

// The statements of an append.
var (
	threadRow = only(`SELECT head, replaced, (SELECT coalesce(max(seq), 0) FROM agent_versions v WHERE v.namespace = threads.namespace), activity, updated_at
		FROM threads WHERE namespace = $1 AND id = $2`)
	isErased     = only(`SELECT 1 FROM erased_threads WHERE namespace = $1 AND id = $2`)
	addThread    = only(`INSERT INTO threads (namespace, id, created_at, updated_at) VALUES ($1, $2, $3, $3)`)
	setThread    = only(`UPDATE threads SET head = $1, activity = $2, updated_at = $3, tokens = tokens + $4 WHERE namespace = $5 AND id = $6`)
	updateThread = only(`UPDATE threads SET title = n.title, status = n.status, agents = n.agents, metadata = n.metadata, parent_id = n.parent_id, update_number = n.number
		FROM (
			SELECT coalesce($3, title) AS title, coalesce($4, status) AS status, coalesce($5, agents) AS agents, coalesce($6, metadata) AS metadata,
				coalesce($7, parent_id) AS parent_id, max($8, update_number) AS number
			FROM threads WHERE namespace = $1 AND id = $2
		) n
		WHERE namespace = $1 AND id = $2 AND ($8 = 0 OR update_number < $8)
			AND (threads.title, threads.status, threads.agents, threads.metadata, threads.parent_id, update_number)
				IS NOT (n.title, n.status, n.agents, n.metadata, n.parent_id, n.number)`)
	hasRecord = only(`SELECT 1 FROM records WHERE namespace = $1 AND thread_id = $2 AND id = $3`)
	addRecord = only(`INSERT INTO records (namespace, thread_id, seq, id, type, trace_id, parent_event_id, event_id, created_at, payload)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (namespace, thread_id, id) DO NOTHING`)
	startTool  = only(addTool + `output = NULL, status = excluded.status, finished_at = NULL, attempt = excluded.attempt WHERE status = 'waiting'`)
	finishTool = only(addTool + `output = excluded.output, status = excluded.status, finished_at = excluded.finished_at,
		attempt = max(attempt, excluded.attempt) WHERE finished_at IS NULL`)
	addMark  = only(`INSERT INTO thread_marks (namespace, thread_id, kind, id, event_id) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`)
	endMarks = only(`DELETE FROM thread_marks WHERE namespace = $1 AND thread_id = $2 AND kind = $3
		AND iif($4 = '', $5 IN ('', event_id), id = $4)`)
	marksOf = only(`SELECT DISTINCT kind FROM thread_marks WHERE namespace = $1 AND thread_id = $2`)
)

// append implements [sqlstore.Database].Append.
func (s *Store) append(ctx context.Context, key store.Key, batch store.Batch) (store.Appended, error) {
	a := appending{key: key, now: time.Now().UnixMicro()}
	err := s.db.Transaction(ctx, "", func(tx sqlstore.Querier) error {
		a.Querier, a.s = tx, s
		// The statements wait for nobody, and one that can be interrupted costs a goroutine. The end of ctx still ends the transaction.
		return a.run(context.WithoutCancel(ctx), batch)
	})
	return a.result, err
}

// appending is one transaction of [store.Store].Append.
type appending struct {
	sqlstore.Querier
	s      *Store
	key    store.Key
	result store.Appended

	// head, activity and updated are those of the thread's row, which must be written if changed.
	head         int64
	activity     store.Activity
	now, updated int64
	changed      bool

	// tokens are those of the new records.
	tokens int64
}

func (a *appending) run(ctx context.Context, b store.Batch) error {
	if err := a.load(ctx); err != nil {
		return err
	}
	records, err := a.standing(ctx, b)
	if err != nil {
		return err
	}
	added, err := a.addRecords(ctx, records)
	if err != nil {
		return err
	}
	if err := a.changeMarks(ctx, records, added); err != nil {
		return err
	}
	if err := sqlstore.Extract(ctx, a, a.key.Namespace, b.Extract); err != nil {
		return err
	}
	if l := b.ToolStart; l != nil {
		changed, err := a.putTool(ctx, startTool, l)
		if a.result.Started = changed > 0; err != nil {
			return err
		}
	}
	if l := b.ToolFinish; l != nil {
		if _, err := a.putTool(ctx, finishTool, l); err != nil {
			return err
		}
	}
	if err := a.update(ctx, b.Thread); err != nil {
		return err
	}
	return a.save(ctx)
}

// load reads the thread's row, and makes it if necessary.
func (a *appending) load(ctx context.Context) error {
	if found, err := a.readRow(ctx); found || err != nil {
		return err
	}
	if _, erased, err := first[int](ctx, a, isErased, a.key.Namespace, a.key.ThreadID); erased || err != nil {
		return cmp.Or(err, store.ErrErased)
	}
	if _, err := a.Exec(ctx, addThread, a.key.Namespace, a.key.ThreadID, a.now); err != nil {
		return fmt.Errorf("making the thread: %w", err)
	}
	_, err := a.readRow(ctx)
	return err
}

func (a *appending) readRow(ctx context.Context) (found bool, err error) {
	rows, err := a.Query(ctx, threadRow, a.key.Namespace, a.key.ThreadID)
	if err != nil {
		return false, fmt.Errorf("reading the thread: %w", err)
	}
	defer rows.Close()
	if found = rows.Next(); found {
		err = rows.Scan(&a.head, &a.result.Replaced, &a.result.AgentChange, (*string)(&a.activity), &a.updated)
	}
	if err = cmp.Or(err, rows.Err()); err != nil {
		return false, fmt.Errorf("reading the thread: %w", err)
	}
	return found, nil
}

// standing returns the records to append: the stored ones if a batch that is stored only once
// already exists, otherwise all.
func (a *appending) standing(ctx context.Context, b store.Batch) ([]event.Record, error) {
	if b.Once == "" {
		return b.Records, nil
	}
	if exists, err := a.exists(ctx, b.Once); err != nil || !exists {
		return b.Records, err
	}
	var there []event.Record
	for _, r := range b.Records {
		exists, err := a.exists(ctx, r.ID)
		if err != nil {
			return nil, err
		}
		if exists {
			there = append(there, r)
		}
	}
	return there, nil
}

func (a *appending) exists(ctx context.Context, id string) (bool, error) {
	_, found, err := first[int](ctx, a, hasRecord, a.key.Namespace, a.key.ThreadID, id)
	if err != nil {
		return false, fmt.Errorf("looking for the record %q: %w", id, err)
	}
	return found, nil
}

// addRecords returns the ids of those records that are new.
func (a *appending) addRecords(ctx context.Context, records []event.Record) (added map[string]bool, err error) {
	added = make(map[string]bool, len(records))
	for _, r := range records {
		r.Seq = a.head + 1
		inserted, err := a.Exec(ctx, addRecord, a.key.Namespace, a.key.ThreadID, r.Seq, r.ID, r.Type, r.TraceID, r.ParentEventID, r.EventID,
			r.CreatedAt.UnixMicro(), string(r.Payload))
		if err != nil {
			return nil, fmt.Errorf("record %q: %w", r.ID, err)
		}
		if inserted > 0 {
			a.head, a.changed = r.Seq, true
			a.tokens += sqlstore.TokensOf(r)
			added[r.ID] = true
		} else if r, err = sqlstore.RecordIn(ctx, a.s.sqlStore, a, a.key, r.ID); err != nil {
			return nil, fmt.Errorf("reading the stored record %q: %w", r.ID, err)
		}
		a.result.Records = append(a.result.Records, r)
	}
	a.result.Head = a.head
	return added, nil
}

// changeMarks applies the changes of marks by new records, and derives the thread's activity. The
// activity is the first kind of the marks of the thread, so it also tells which kinds there are none of.
func (a *appending) changeMarks(ctx context.Context, records []event.Record, added map[string]bool) error {
	ended := false
	for _, c := range store.MarkChanges(records) {
		with := sqlstore.ActivityOf([]store.Activity{a.activity, c.Kind})
		if !added[c.RecordID] || c.Ends && with != a.activity {
			continue
		}
		change := addMark
		if c.Ends {
			change = endMarks
		}
		if _, err := a.Exec(ctx, change, a.key.Namespace, a.key.ThreadID, string(c.Kind), c.ID, c.EventID); err != nil {
			return fmt.Errorf("marking what record %q begins or ends: %w", c.RecordID, err)
		}
		if ended = ended || c.Ends; !c.Ends {
			a.activity = with
		}
	}
	if !ended {
		return nil
	}
	var kinds []store.Activity
	err := sqlstore.Each(ctx, a, marksOf, func(row sqlstore.Row) error {
		var kind string
		err := row.Scan(&kind)
		kinds = append(kinds, store.Activity(kind))
		return err
	}, a.key.Namespace, a.key.ThreadID)
	if err != nil {
		return fmt.Errorf("reading the marks of the thread: %w", err)
	}
	a.activity = sqlstore.ActivityOf(kinds)
	return nil
}

func (a *appending) putTool(ctx context.Context, q *sqlstore.Query, l *store.ToolLog) (int64, error) {
	var finished time.Time
	if l.FinishedAt != nil {
		finished = *l.FinishedAt
	}
	changed, err := a.Exec(ctx, q, a.key.Namespace, a.key.ThreadID, l.ToolCallID, l.ToolName, l.Agent, l.TraceID, string(l.Input), sqlstore.TextOrNull(l.Output),
		string(l.Status), l.Attempt, l.StartedAt.UnixMicro(), finished)
	if err != nil {
		return 0, fmt.Errorf("storing tool log %q: %w", l.ToolCallID, err)
	}
	return changed, nil
}

func (a *appending) update(ctx context.Context, u *store.ThreadUpdate) error {
	if u == nil {
		return nil
	}
	var agents []byte
	if len(u.Agents) > 0 {
		agents, _ = json.Marshal(u.Agents)
	}
	changed, err := a.Exec(ctx, updateThread, a.key.Namespace, a.key.ThreadID, u.Title, sqlstore.TextOrNull(u.Status), sqlstore.TextOrNull(agents), sqlstore.TextOrNull(u.Metadata),
		sqlstore.TextOrNull(u.Parent), u.Number)
	if err != nil {
		return fmt.Errorf("updating the thread: %w", err)
	}
	a.changed = a.changed || changed > 0
	return nil
}

// save writes the thread's row.
func (a *appending) save(ctx context.Context) error {
	if !a.changed {
		return nil
	}
	if _, err := a.Exec(ctx, setThread, a.head, string(a.activity), max(a.now, a.updated), a.tokens, a.key.Namespace, a.key.ThreadID); err != nil {
		return fmt.Errorf("writing the thread: %w", err)
	}
	return nil
}
