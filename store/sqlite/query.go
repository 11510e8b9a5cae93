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

func prepare(ctx context.Context, db *sql.DB, queries map[**sql.Stmt]string) error {
	for stmt, query := range queries {
		var err error
		if *stmt, err = db.PrepareContext(ctx, query); err != nil {
			return fmt.Errorf("preparing %q: %w", query, err)
		}
	}
	return nil
}

type scanner interface{ Scan(dest ...any) error }

func collect[T any](ctx context.Context, stmt *sql.Stmt, scan func(scanner) (T, error), args ...any) ([]T, error) {
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

func scanActivity(row scanner) (a store.Activity, err error) { return a, row.Scan(&a) }

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
