package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// writes are the statements of an append.
type writes struct {
	thread, addThread, setThread, setNumber *sql.Stmt
	erased                                  *sql.Stmt
	record, addRecord                       *sql.Stmt
	tool, addTool, setTool                  *sql.Stmt
	addMark, endMarks, marks                *sql.Stmt
	queue                                   *sql.Stmt
}

func (w *writes) prepare(ctx context.Context, db *sql.DB) error {
	return prepare(ctx, db, map[**sql.Stmt]string{
		&w.thread: `SELECT ` + threadFields + `, replaced FROM threads WHERE namespace = ? AND id = ?`,
		&w.erased: selectErased,
		&w.addThread: `INSERT INTO threads (title, status, activity, agents, metadata, parent_id, head, updated_at, created_at, update_number, namespace, id)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		&w.setThread: `UPDATE threads SET title = ?, status = ?, activity = ?, agents = ?, metadata = ?, parent_id = ?, head = ?, updated_at = ?
			WHERE namespace = ? AND id = ?`,
		&w.setNumber: `UPDATE threads SET update_number = ?1 WHERE namespace = ?2 AND id = ?3 AND update_number < ?1`,
		&w.record:    selectRecord + ` WHERE namespace = ? AND thread_id = ? AND id = ?`,
		&w.addRecord: `INSERT INTO records (namespace, thread_id, seq, id, type, trace_id, parent_event_id, event_id, created_at, payload)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (namespace, thread_id, id) DO NOTHING`,
		&w.tool: selectTool + ` WHERE namespace = ? AND thread_id = ? AND tool_call_id = ?`,
		&w.addTool: `INSERT INTO tool_logs (namespace, thread_id, tool_call_id, tool_name, agent, trace_id, input,
			output, status, attempt, started_at, finished_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		&w.setTool: `UPDATE tool_logs SET output = ?, status = ?, attempt = ?, finished_at = ?
			WHERE namespace = ? AND thread_id = ? AND tool_call_id = ?`,
		&w.addMark: `INSERT INTO thread_marks (namespace, thread_id, kind, id, event_id) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		&w.endMarks: `DELETE FROM thread_marks WHERE namespace = ? AND thread_id = ? AND kind = ?
			AND iif(?4 = '', ?5 IN ('', event_id), id = ?4)`,
		&w.queue: addExtraction,
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
	a := appending{Tx: tx, writes: &s.write, key: key, added: map[string]bool{}}
	if err := a.run(ctx, batch); err != nil {
		return store.Appended{}, errors.Join(fmt.Errorf("sqlite: appending to %s: %w", key, classify(err)), rollback(tx))
	}
	if err := tx.Commit(); err != nil {
		return store.Appended{}, fmt.Errorf("sqlite: appending to %s: commit: %w", key, classify(err))
	}
	return a.result, nil
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// appending is one transaction of [Store.Append].
type appending struct {
	*sql.Tx
	*writes
	key    store.Key
	row    store.Thread
	result store.Appended

	// number is the number of the update.
	number int64

	// added are the ids of the new records.
	added map[string]bool

	// missing means that the thread has no row yet, changed that its row must be written.
	missing, changed bool
}

func (a *appending) run(ctx context.Context, b store.Batch) error {
	if err := a.load(ctx); err != nil {
		return err
	}
	records, err := a.standing(ctx, b)
	if err != nil {
		return err
	}
	if err := a.addRecords(ctx, records); err != nil {
		return err
	}
	if err := a.changeMarks(ctx, records); err != nil {
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

func (a *appending) load(ctx context.Context) error {
	row, err := scanThreadAnd(a.StmtContext(ctx, a.thread).QueryRowContext(ctx, a.key.Namespace, a.key.ThreadID), &a.result.Replaced)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if err := a.StmtContext(ctx, a.erased).QueryRowContext(ctx, a.key.Namespace, a.key.ThreadID).Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
			return errors.Join(err, store.ErrErased)
		}
		a.missing = true
		a.row = store.Thread{Namespace: a.key.Namespace, ID: a.key.ThreadID, Status: store.ThreadOpen, Activity: store.ActivityIdle, Agents: []string{}}
	case err != nil:
		return fmt.Errorf("reading the thread: %w", err)
	default:
		a.row = row
	}
	return nil
}

// standing returns the records to append: the stored ones if a batch that is stored only once
// already exists, otherwise all.
func (a *appending) standing(ctx context.Context, b store.Batch) ([]event.Record, error) {
	if b.Once == "" {
		return b.Records, nil
	}
	switch _, err := a.stored(ctx, b.Once); {
	case errors.Is(err, sql.ErrNoRows):
		return b.Records, nil
	case err != nil:
		return nil, err
	}
	var there []event.Record
	for _, r := range b.Records {
		switch _, err := a.stored(ctx, r.ID); {
		case err == nil:
			there = append(there, r)
		case !errors.Is(err, sql.ErrNoRows):
			return nil, err
		}
	}
	return there, nil
}

// stored returns a stored record, or an error that wraps [sql.ErrNoRows].
func (a *appending) stored(ctx context.Context, id string) (event.Record, error) {
	r, err := scanRecord(a.StmtContext(ctx, a.record).QueryRowContext(ctx, a.key.Namespace, a.key.ThreadID, id))
	if err != nil {
		return r, fmt.Errorf("reading the stored record %q: %w", id, err)
	}
	return r, nil
}

func (a *appending) addRecords(ctx context.Context, records []event.Record) error {
	add := a.StmtContext(ctx, a.addRecord)
	for _, r := range records {
		r.Seq = a.row.Head + 1
		res, err := add.ExecContext(ctx, a.key.Namespace, a.key.ThreadID, r.Seq, r.ID, r.Type,
			r.TraceID, r.ParentEventID, r.EventID, r.CreatedAt.UnixMicro(), string(r.Payload))
		if err != nil {
			return fmt.Errorf("record %q: %w", r.ID, err)
		}
		added, err := res.RowsAffected()
		if err != nil {
			return fmt.Errorf("record %q: %w", r.ID, err)
		}
		if added == 0 {
			if r, err = a.stored(ctx, r.ID); err != nil {
				return err
			}
		} else {
			a.row.Head, a.changed, a.added[r.ID] = r.Seq, true, true
		}
		a.result.Records = append(a.result.Records, r)
	}
	return nil
}

// changeMarks applies the changes of marks by new records, and derives the thread's activity. The
// activity is the first kind of the marks of the thread, so it also tells which kinds there are none of.
func (a *appending) changeMarks(ctx context.Context, records []event.Record) error {
	ended := false
	for _, c := range store.MarkChanges(records) {
		with := store.ActivityOf([]store.Activity{a.row.Activity, c.Kind})
		if !a.added[c.RecordID] || c.Ends && with != a.row.Activity {
			continue
		}
		stmt := a.addMark
		if c.Ends {
			stmt = a.endMarks
		}
		_, err := a.StmtContext(ctx, stmt).ExecContext(ctx, a.key.Namespace, a.key.ThreadID, string(c.Kind), c.ID, c.EventID)
		if err != nil {
			return fmt.Errorf("marking what record %q begins or ends: %w", c.RecordID, err)
		}
		if ended = ended || c.Ends; !c.Ends {
			a.row.Activity = with
		}
	}
	if !ended {
		return nil
	}
	kinds, err := collect(ctx, a.StmtContext(ctx, a.marks), scanActivity, a.key.Namespace, a.key.ThreadID)
	if err != nil {
		return fmt.Errorf("reading the marks of the thread: %w", err)
	}
	a.row.Activity = store.ActivityOf(kinds)
	return nil
}

// extract queues texts, whether this append has stored its records or an earlier one has.
func (a *appending) extract(ctx context.Context, texts []store.Extraction) error {
	for _, x := range texts {
		if _, err := a.StmtContext(ctx, a.queue).ExecContext(ctx, extractionValues(a.key.Namespace, x)...); err != nil {
			return fmt.Errorf("queueing the extraction %q: %w", x.ID, err)
		}
	}
	return nil
}

func (a *appending) startTool(ctx context.Context, l *store.ToolLog) error {
	if l == nil {
		return nil
	}
	stored, err := a.toolLog(ctx, l.ToolCallID)
	if err != nil {
		return err
	}
	switch {
	case stored == nil:
		if err := a.insertTool(ctx, l); err != nil {
			return err
		}
		a.result.Started, stored = true, l
	case stored.Status == store.ToolWaiting:
		stored.Output, stored.Status, stored.FinishedAt, stored.Attempt = nil, l.Status, nil, l.Attempt
		if err := a.updateTool(ctx, stored); err != nil {
			return err
		}
		a.result.Started = true
	}
	a.result.ToolLog = stored
	return nil
}

func (a *appending) finishTool(ctx context.Context, l *store.ToolLog) error {
	if l == nil {
		return nil
	}
	stored, err := a.toolLog(ctx, l.ToolCallID)
	switch {
	case err != nil:
		return err
	case stored == nil:
		if err := a.insertTool(ctx, l); err != nil {
			return err
		}
		stored = l
	case stored.FinishedAt == nil:
		stored.Output, stored.Status, stored.FinishedAt = l.Output, l.Status, l.FinishedAt
		stored.Attempt = max(stored.Attempt, l.Attempt)
		if err := a.updateTool(ctx, stored); err != nil {
			return err
		}
	}
	a.result.ToolLog = stored
	return nil
}

func (a *appending) toolLog(ctx context.Context, id string) (*store.ToolLog, error) {
	l, err := scanTool(a.StmtContext(ctx, a.tool).QueryRowContext(ctx, a.key.Namespace, a.key.ThreadID, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading tool log %q: %w", id, err)
	}
	return &l, nil
}

func (a *appending) updateTool(ctx context.Context, l *store.ToolLog) error {
	_, err := a.StmtContext(ctx, a.setTool).ExecContext(ctx, text(l.Output), string(l.Status), l.Attempt,
		micros(l.FinishedAt), a.key.Namespace, a.key.ThreadID, l.ToolCallID)
	if err != nil {
		return fmt.Errorf("updating tool log %q: %w", l.ToolCallID, err)
	}
	a.changed = true
	return nil
}

func (a *appending) insertTool(ctx context.Context, l *store.ToolLog) error {
	_, err := a.StmtContext(ctx, a.addTool).ExecContext(ctx, a.key.Namespace, a.key.ThreadID, l.ToolCallID, l.ToolName,
		l.Agent, l.TraceID, string(l.Input), text(l.Output), string(l.Status), l.Attempt, l.StartedAt.UnixMicro(), micros(l.FinishedAt))
	if err != nil {
		return fmt.Errorf("storing tool log %q: %w", l.ToolCallID, err)
	}
	a.changed = true
	return nil
}

func (a *appending) update(ctx context.Context, u *store.ThreadUpdate) error {
	if u == nil {
		return nil
	}
	if fresh, err := a.numbered(ctx, u.Number); err != nil || !fresh {
		return err
	}
	before := a.row
	if u.Title != nil {
		a.row.Title = *u.Title
	}
	if u.Status != "" {
		a.row.Status = u.Status
	}
	if len(u.Agents) > 0 {
		a.row.Agents = u.Agents
	}
	if len(u.Metadata) > 0 {
		a.row.Metadata = u.Metadata
	}
	if u.Parent != "" {
		a.row.Parent = u.Parent
	}
	a.changed = a.changed || before.Title != a.row.Title || before.Status != a.row.Status || before.Parent != a.row.Parent ||
		!slices.Equal(before.Agents, a.row.Agents) || string(before.Metadata) != string(a.row.Metadata)
	return nil
}

// numbered sets the number of an update. It reports whether the update must be written: the row may
// have this update already, or a later one.
func (a *appending) numbered(ctx context.Context, number int64) (bool, error) {
	a.number = number
	if number == 0 || a.missing {
		return true, nil
	}
	res, err := a.StmtContext(ctx, a.setNumber).ExecContext(ctx, number, a.key.Namespace, a.key.ThreadID)
	if err != nil {
		return false, fmt.Errorf("numbering the update of the thread: %w", err)
	}
	set, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("numbering the update of the thread: %w", err)
	}
	a.changed = a.changed || set > 0
	return set > 0, nil
}

func (a *appending) save(ctx context.Context) error {
	a.result.Head = a.row.Head
	if !a.missing && !a.changed {
		return nil
	}
	agents, err := json.Marshal(a.row.Agents)
	if err != nil {
		return err
	}
	now := max(time.Now().UnixMicro(), a.row.UpdatedAt.UnixMicro())
	args := []any{a.row.Title, a.row.Status, string(a.row.Activity), string(agents), text(a.row.Metadata), a.row.Parent, a.row.Head, now}
	stmt := a.setThread
	if a.missing {
		stmt = a.addThread
		args = append(args, now, a.number)
	}
	args = append(args, a.key.Namespace, a.key.ThreadID)
	if _, err := a.StmtContext(ctx, stmt).ExecContext(ctx, args...); err != nil {
		return fmt.Errorf("writing the thread: %w", err)
	}
	return nil
}
