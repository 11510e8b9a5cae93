// Package sqlstoretest has what the drivers' tests of plans share.
package sqlstoretest

import (
	"context"

	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// Record returns a database that calls seen with each statement before it runs.
func Record(d sqlstore.Database, seen func(q *sqlstore.Query, args []any)) sqlstore.Database {
	change, snapshot := d.Transaction, d.Snapshot
	d.Reader, d.Writer = recording{d.Reader, seen}, recording{d.Writer, seen}
	d.Transaction = func(ctx context.Context, lock string, do func(sqlstore.Querier) error) error {
		return change(ctx, lock, func(q sqlstore.Querier) error { return do(recording{q, seen}) })
	}
	d.Snapshot = func(ctx context.Context, do func(sqlstore.Querier) error) error {
		return snapshot(ctx, func(q sqlstore.Querier) error { return do(recording{q, seen}) })
	}
	return d
}

type recording struct {
	sqlstore.Querier
	seen func(q *sqlstore.Query, args []any)
}

func (r recording) Query(ctx context.Context, q *sqlstore.Query, args ...any) (sqlstore.Rows, error) {
	r.seen(q, args)
	return r.Querier.Query(ctx, q, args...)
}

func (r recording) Exec(ctx context.Context, q *sqlstore.Query, args ...any) (int64, error) {
	r.seen(q, args)
	return r.Querier.Exec(ctx, q, args...)
}

func (r recording) Run(ctx context.Context, q *sqlstore.Query, rows [][]any) ([]int64, error) {
	for _, args := range rows {
		r.seen(q, args)
	}
	return r.Querier.Run(ctx, q, rows)
}
