package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// agentChange is the newest change of the agents of the namespace ?1.
const agentChange = `(SELECT coalesce(max(seq), 0) FROM agent_versions WHERE namespace = ?1)`

// writes are the statements of an append.
type writes struct {
	thread, addThread, setThread, updateThread *sql.Stmt
	erased                                     *sql.Stmt
	record, hasRecord, addRecord               *sql.Stmt
	putStart, putFinish                        *sql.Stmt
	addMark, endMarks, marks                   *sql.Stmt
	queue                                      *sql.Stmt
}

func (w *writes) prepare(ctx context.Context, db *sql.DB) error {
	const addTool = `INSERT INTO tool_logs (namespace, thread_id, tool_call_id, tool_name, agent, trace_id, input, output, status, attempt, started_at, finished_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (namespace, thread_id, tool_call_id) DO UPDATE SET `
	return prepare(ctx, db, map[**sql.Stmt]string{
		&w.thread:    `SELECT head, replaced, ` + agentChange + `, activity, updated_at FROM threads WHERE namespace = ?1 AND id = ?2`,
		&w.erased:    `SELECT 1 FROM erased_threads WHERE namespace = ? AND id = ?`,
		&w.addThread: `INSERT INTO threads (namespace, id, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)`,
		&w.setThread: `UPDATE threads SET head = ?3, activity = ?4, updated_at = ?5, tokens = tokens + ?6 WHERE namespace = ?1 AND id = ?2`,
		&w.updateThread: `UPDATE threads SET title = n.title, status = n.status, agents = n.agents, metadata = n.metadata, parent_id = n.parent_id, update_number = n.number
			FROM (
				SELECT coalesce(?3, title) AS title, coalesce(?4, status) AS status, coalesce(?5, agents) AS agents, coalesce(?6, metadata) AS metadata,
					coalesce(?7, parent_id) AS parent_id, max(?8, update_number) AS number
				FROM threads WHERE namespace = ?1 AND id = ?2
			) n
			WHERE namespace = ?1 AND id = ?2 AND (?8 = 0 OR update_number < ?8)
				AND (threads.title, threads.status, threads.agents, threads.metadata, threads.parent_id, update_number)
					IS NOT (n.title, n.status, n.agents, n.metadata, n.parent_id, n.number)`,
		&w.record: `SELECT id, seq, type, payload, trace_id, parent_event_id, event_id, created_at FROM records
			WHERE namespace = ? AND thread_id = ? AND id = ?`,
		&w.hasRecord: `SELECT count(*) FROM records WHERE namespace = ? AND thread_id = ? AND id = ?`,
		&w.addRecord: `INSERT INTO records (namespace, thread_id, seq, id, type, trace_id, parent_event_id, event_id, created_at, payload)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (namespace, thread_id, id) DO NOTHING`,
		&w.putStart: addTool + `output = NULL, status = excluded.status, finished_at = NULL, attempt = excluded.attempt WHERE status = 'waiting'`,
		&w.putFinish: addTool + `output = excluded.output, status = excluded.status, finished_at = excluded.finished_at,
			attempt = max(attempt, excluded.attempt) WHERE finished_at IS NULL`,
		&w.addMark: `INSERT INTO thread_marks (namespace, thread_id, kind, id, event_id) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		&w.endMarks: `DELETE FROM thread_marks WHERE namespace = ? AND thread_id = ? AND kind = ?
			AND iif(?4 = '', ?5 IN ('', event_id), id = ?4)`,
		&w.queue: `INSERT INTO entity_extractions (namespace, id, thread_id, event_id, content, source_type, source_id, queued_at, ended)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT DO NOTHING`,
		&w.marks: `SELECT DISTINCT kind FROM thread_marks WHERE namespace = ? AND thread_id = ?`,
	})
}

// Append implements [store.Store].
func (s *Store) Append(ctx context.Context, key store.Key, batch store.Batch) (store.Appended, error) {
	batch, err := store.NormalizeBatch(key, batch)
	if err != nil {
		return store.Appended{}, fmt.Errorf("sqlite: appending to %s: %w", key, classify(err))
	}
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return store.Appended{}, fmt.Errorf("sqlite: appending to %s: %w", key, classify(err))
	}
	a := appending{Tx: tx, writes: &s.write, key: key, now: time.Now().UnixMicro()}
	// The statements wait for nobody, and one that can be interrupted costs a goroutine. The end of ctx still ends the transaction.
	if err = a.run(context.WithoutCancel(ctx), batch); err == nil {
		err = tx.Commit()
	}
	if errors.Is(err, sql.ErrTxDone) {
		err = cmp.Or(ctx.Err(), err)
	}
	if err != nil {
		return store.Appended{}, errors.Join(fmt.Errorf("sqlite: appending to %s: %w", key, classify(err)), rollback(tx))
	}
	return a.result, nil
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// appending is one transaction of [store.Store].Append.
type appending struct {
	*sql.Tx
	*writes
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
	if err := a.extract(ctx, b.Extract); err != nil {
		return err
	}
	if err := a.startTool(ctx, b.ToolStart); err != nil {
		return err
	}
	if err := a.finishTool(ctx, b.ToolFinish); err != nil {
		return err
	}
	if err := a.update(ctx, b.Thread); err != nil {
		return err
	}
	return a.save(ctx)
}

// exec runs a statement whose first arguments are the key, and returns the number of rows that it has changed.
func (a *appending) exec(ctx context.Context, stmt *sql.Stmt, args ...any) (int64, error) {
	res, err := a.StmtContext(ctx, stmt).ExecContext(ctx, append([]any{a.key.Namespace, a.key.ThreadID}, args...)...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// load reads the thread's row, and makes it if necessary.
func (a *appending) load(ctx context.Context) error {
	err := a.readRow(ctx)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err := a.StmtContext(ctx, a.erased).QueryRowContext(ctx, a.key.Namespace, a.key.ThreadID).Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
		return errors.Join(err, store.ErrErased)
	}
	if _, err := a.exec(ctx, a.addThread, a.now); err != nil {
		return fmt.Errorf("making the thread: %w", err)
	}
	return a.readRow(ctx)
}

func (a *appending) readRow(ctx context.Context) error {
	err := a.StmtContext(ctx, a.thread).QueryRowContext(ctx, a.key.Namespace, a.key.ThreadID).
		Scan(&a.head, &a.result.Replaced, &a.result.AgentChange, &a.activity, &a.updated)
	if err != nil {
		return fmt.Errorf("reading the thread: %w", err)
	}
	return nil
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

func (a *appending) exists(ctx context.Context, id string) (exists bool, err error) {
	err = a.StmtContext(ctx, a.hasRecord).QueryRowContext(ctx, a.key.Namespace, a.key.ThreadID, id).Scan(&exists)
	if err != nil {
		return false, fmt.Errorf("looking for the record %q: %w", id, err)
	}
	return exists, nil
}

// addRecords returns the ids of those records that are new.
func (a *appending) addRecords(ctx context.Context, records []event.Record) (added map[string]bool, err error) {
	added = make(map[string]bool, len(records))
	for _, r := range records {
		r.Seq = a.head + 1
		inserted, err := a.exec(ctx, a.addRecord, r.Seq, r.ID, r.Type, r.TraceID, r.ParentEventID, r.EventID, r.CreatedAt.UnixMicro(), string(r.Payload))
		if err != nil {
			return nil, fmt.Errorf("record %q: %w", r.ID, err)
		}
		if inserted > 0 {
			a.head, a.changed = r.Seq, true
			a.tokens += store.TokensOf(r)
			added[r.ID] = true
		} else if r, err = scanRecord(a.StmtContext(ctx, a.record).QueryRowContext(ctx, a.key.Namespace, a.key.ThreadID, r.ID)); err != nil {
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
		with := store.ActivityOf([]store.Activity{a.activity, c.Kind})
		if !added[c.RecordID] || c.Ends && with != a.activity {
			continue
		}
		stmt := a.addMark
		if c.Ends {
			stmt = a.endMarks
		}
		if _, err := a.exec(ctx, stmt, string(c.Kind), c.ID, c.EventID); err != nil {
			return fmt.Errorf("marking what record %q begins or ends: %w", c.RecordID, err)
		}
		if ended = ended || c.Ends; !c.Ends {
			a.activity = with
		}
	}
	if !ended {
		return nil
	}
	kinds, err := collect(ctx, a.StmtContext(ctx, a.marks), scanActivity, a.key.Namespace, a.key.ThreadID)
	if err != nil {
		return fmt.Errorf("reading the marks of the thread: %w", err)
	}
	a.activity = store.ActivityOf(kinds)
	return nil
}

// extract queues texts, whether this append has stored its records or an earlier one has.
func (a *appending) extract(ctx context.Context, texts []store.Extraction) error {
	for _, x := range texts {
		if _, err := a.StmtContext(ctx, a.queue).ExecContext(ctx, a.key.Namespace, x.ID, x.ThreadID, x.EventID, x.Content, x.SourceType, x.SourceID, x.QueuedAt.UnixMicro()); err != nil {
			return fmt.Errorf("queueing the extraction %q: %w", x.ID, err)
		}
	}
	return nil
}

func (a *appending) startTool(ctx context.Context, l *store.ToolLog) error {
	if l == nil {
		return nil
	}
	changed, err := a.putTool(ctx, a.putStart, l)
	a.result.Started = changed > 0
	return err
}

func (a *appending) finishTool(ctx context.Context, l *store.ToolLog) error {
	if l == nil {
		return nil
	}
	_, err := a.putTool(ctx, a.putFinish, l)
	return err
}

func (a *appending) putTool(ctx context.Context, stmt *sql.Stmt, l *store.ToolLog) (int64, error) {
	changed, err := a.exec(ctx, stmt, l.ToolCallID, l.ToolName, l.Agent, l.TraceID, string(l.Input), text(l.Output), string(l.Status), l.Attempt,
		l.StartedAt.UnixMicro(), micros(l.FinishedAt))
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
	changed, err := a.exec(ctx, a.updateThread, u.Title, textOrNull(u.Status), textOrNull(string(agents)), textOrNull(string(u.Metadata)), textOrNull(u.Parent), u.Number)
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
	if _, err := a.exec(ctx, a.setThread, a.head, string(a.activity), max(a.now, a.updated), a.tokens); err != nil {
		return fmt.Errorf("writing the thread: %w", err)
	}
	return nil
}

// textOrNull returns a column's value for a text: NULL for none.
func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
