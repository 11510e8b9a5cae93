package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// database returns what the methods of both drivers work with.
func (s *Store) database() sqlstore.Database {
	return sqlstore.Database{
		Name: "postgres", Reader: querier{s.pool}, Writer: querier{s.pool}, Append: s.append,
		Transaction: s.transaction, Snapshot: s.snapshot, Knowledge: s.index(),
		Time:  func(into *time.Time) any { return (*moment)(into) },
		List:  func(into *[]string) any { return into },
		Bytes: func(into *[]byte) any { return (*pgtype.DriverBytes)(into) },
		Scrub: s.scrub, Close: s.close, Classify: classify,
	}
}

// lock serializes the transactions that change the same things, so that they commit in the order in which they were locked. Later
// statements see what was committed before.
const lock = `SELECT pg_advisory_xact_lock(hashtextextended('threadmill ' || coalesce(current_schema(), '') || ' ' || $1, 0))`

// transaction implements [sqlstore.Database].Transaction. It runs again if it was chosen to end a deadlock.
func (s *Store) transaction(ctx context.Context, name string, do func(sqlstore.Querier) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if name != "" && store.Storable(name) { // of another name, there is nothing
				if _, err := tx.Exec(ctx, lock, name); err != nil {
					return err
				}
			}
			return do(querier{tx})
		})
		if err == nil || !rolledBack(err) || try == appendTries {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

const useIndexes = `SET LOCAL enable_seqscan = off`

// snapshot implements [sqlstore.Database].Snapshot. Its queries use indexes: a plan serves all namespaces, and must not read all of them
// because one of them is large.
func (s *Store) snapshot(ctx context.Context, do func(sqlstore.Querier) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, useIndexes); err != nil {
			return err
		}
		return do(querier{tx})
	})
}

// runner is a pool or a transaction.
type runner interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// querier implements [sqlstore.Querier].
type querier struct{ on runner }

// Query implements [sqlstore.Querier].
func (q querier) Query(ctx context.Context, query *sqlstore.Query, args ...any) (sqlstore.Rows, error) {
	if !sqlstore.Storable(args) {
		return sqlstore.NoRows(), nil
	}
	found, err := q.on.Query(ctx, query.Postgres, bound(args)...)
	if err != nil {
		return nil, err
	}
	return rows{found}, nil
}

// rows implements [sqlstore.Rows].
type rows struct{ pgx.Rows }

func (r rows) Close() error {
	r.Rows.Close()
	return nil
}

// Exec implements [sqlstore.Querier].
func (q querier) Exec(ctx context.Context, query *sqlstore.Query, args ...any) (int64, error) {
	if query.Postgres == "" || !sqlstore.Storable(args) {
		return 0, nil
	}
	tag, err := q.on.Exec(ctx, query.Postgres, bound(args)...)
	return tag.RowsAffected(), err
}

// Run implements [sqlstore.Querier].
func (q querier) Run(ctx context.Context, query *sqlstore.Query, rows [][]any) ([]int64, error) {
	changed := make([]int64, len(rows))
	var pipeline pgx.Batch
	for i, args := range rows {
		if !sqlstore.Storable(args) {
			continue
		}
		pipeline.Queue(query.Postgres, bound(args)...).Exec(func(tag pgconn.CommandTag) error {
			changed[i] = tag.RowsAffected()
			return nil
		})
	}
	if pipeline.Len() == 0 {
		return changed, nil
	}
	return changed, q.on.SendBatch(ctx, &pipeline).Close()
}

// bound makes the values of arguments what columns have.
func bound(args []any) []any {
	for i, arg := range args {
		switch v := arg.(type) {
		case time.Time:
			if v.IsZero() {
				args[i] = nil
			}
		case []string:
			if v != nil {
				args[i] = storable(v)
			}
		}
	}
	return args
}

// moment is where a column's time goes.
type moment time.Time

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (m *moment) ScanTimestamptz(column pgtype.Timestamptz) error {
	*m = moment(column.Time.UTC())
	if !column.Valid {
		*m = moment{}
	}
	return nil
}

// storable filters out values that no column can contain, and that therefore match nothing.
func storable(values []string) []string {
	kept := make([]string, 0, len(values))
	for _, v := range values {
		if store.Storable(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
