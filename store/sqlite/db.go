package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// Functions that PostgreSQL has, so that statements have one text. Times are microseconds since 1970.
func init() {
	sqlite.MustRegisterScalarFunction("clock_timestamp", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMicro(), nil
	})
	sqlite.MustRegisterDeterministicScalarFunction("greatest", -1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		var most driver.Value
		for _, arg := range args {
			switch n := arg.(type) {
			case nil:
			case int64:
				if least, ok := most.(int64); !ok || n > least {
					most = n
				}
			default:
				return nil, fmt.Errorf("greatest: %T is no integer", arg)
			}
		}
		return most, nil
	})
}

// database returns what the methods of both drivers work with.
func (s *Store) database() sqlstore.Database {
	writer := &statements{db: s.writer}
	reader := writer
	if s.reader != s.writer {
		reader = &statements{db: s.reader}
	}
	return sqlstore.Database{
		Name: "sqlite", Reader: &querier{on: reader}, Writer: &querier{on: writer}, Append: s.append,
		Transaction: writer.change, Snapshot: reader.snapshot, Knowledge: index(),
		Time:  func(into *time.Time) any { return (*moments)(into) },
		List:  func(into *[]string) any { return (*texts)(into) },
		Bytes: func(into *[]byte) any { return (*sql.RawBytes)(into) },
		Scrub: s.scrub, Close: s.close, Classify: classify,
	}
}

// statements are those of a pool, each prepared when it is used first.
type statements struct {
	db       *sql.DB
	prepared sync.Map // by *sqlstore.Query
}

func (s *statements) prepare(ctx context.Context, q *sqlstore.Query) (*sql.Stmt, error) {
	if stmt, ok := s.prepared.Load(q); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := s.db.PrepareContext(ctx, numbered(q.SQLite))
	if err != nil {
		return nil, fmt.Errorf("preparing %q: %w", q.SQLite, err)
	}
	s.prepared.Store(q, stmt) // one that another call has just prepared is closed with the database
	return stmt, nil
}

// change implements [sqlstore.Database].Transaction. There is one writer, so that each waits for the others.
func (s *statements) change(ctx context.Context, _ string, do func(sqlstore.Querier) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	q := &querier{on: s, tx: tx}
	if err = do(q); err == nil {
		err = tx.Commit()
	}
	if errors.Is(err, sql.ErrTxDone) {
		err = cmp.Or(ctx.Err(), err)
	}
	if err != nil {
		return errors.Join(err, rollback(tx))
	}
	q.prepareLater(ctx)
	return nil
}

func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// snapshot implements [sqlstore.Database].Snapshot.
func (s *statements) snapshot(ctx context.Context, do func(sqlstore.Querier) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	q := &querier{on: s, tx: tx}
	err = errors.Join(do(q), rollback(tx))
	q.prepareLater(ctx)
	return err
}

// numbered returns a statement whose parameters are $1, $2 and so on as SQLite knows them: without numbers if each comes once and
// in its turn, since the driver asks for the name of each that has one, at each call.
func numbered(text string) string {
	for i, m := range parameter.FindAllString(text, -1) {
		if m != "$"+strconv.Itoa(i+1) {
			return parameter.ReplaceAllString(text, "?$1")
		}
	}
	return parameter.ReplaceAllString(text, "?")
}

var parameter = regexp.MustCompile(`\$(\d+)`)

// querier implements [sqlstore.Querier] on a pool, or in a transaction of it.
type querier struct {
	on *statements
	tx *sql.Tx

	// unprepared are the statements that were not prepared when the transaction first ran them. The pool of the writer has one
	// connection, so that they are prepared for the pool when the transaction has ended.
	unprepared []*sqlstore.Query
}

func (q *querier) stmt(ctx context.Context, query *sqlstore.Query) (*sql.Stmt, error) {
	if q.tx == nil {
		return q.on.prepare(ctx, query)
	}
	if stmt, ok := q.on.prepared.Load(query); ok {
		return q.tx.StmtContext(ctx, stmt.(*sql.Stmt)), nil
	}
	q.unprepared = append(q.unprepared, query)
	return q.tx.PrepareContext(ctx, numbered(query.SQLite))
}

// prepareLater prepares the statements that a transaction has prepared for itself. If it fails, the next transaction tries again.
func (q *querier) prepareLater(ctx context.Context) {
	for _, query := range q.unprepared {
		if _, err := q.on.prepare(ctx, query); err != nil {
			return
		}
	}
}

// Query implements [sqlstore.Querier].
func (q *querier) Query(ctx context.Context, query *sqlstore.Query, args ...any) (sqlstore.Rows, error) {
	if !sqlstore.Storable(args) {
		return sqlstore.NoRows(), nil
	}
	if query.Unprepared {
		return rowsOf(q.runner().QueryContext(ctx, numbered(query.SQLite), bound(args)...))
	}
	stmt, err := q.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return rowsOf(stmt.QueryContext(ctx, bound(args)...))
}

// runner runs statements that are not prepared.
func (q *querier) runner() interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
} {
	if q.tx != nil {
		return q.tx
	}
	return q.on.db
}

// rowsOf returns rows, or an error and nothing.
func rowsOf(rows *sql.Rows, err error) (sqlstore.Rows, error) {
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Exec implements [sqlstore.Querier].
func (q *querier) Exec(ctx context.Context, query *sqlstore.Query, args ...any) (int64, error) {
	if query.SQLite == "" || !sqlstore.Storable(args) {
		return 0, nil
	}
	if query.Unprepared {
		return changed(q.runner().ExecContext(ctx, numbered(query.SQLite), bound(args)...))
	}
	stmt, err := q.stmt(ctx, query)
	if err != nil {
		return 0, err
	}
	return changed(stmt.ExecContext(ctx, bound(args)...))
}

func changed(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Run implements [sqlstore.Querier].
func (q *querier) Run(ctx context.Context, query *sqlstore.Query, rows [][]any) (counts []int64, err error) {
	if len(rows) > 1 && query.Unprepared && q.tx != nil {
		stmt, err := q.tx.PrepareContext(ctx, numbered(query.SQLite))
		if err != nil {
			return nil, err
		}
		defer stmt.Close()
		return each(rows, func(args []any) (int64, error) { return changed(stmt.ExecContext(ctx, bound(args)...)) })
	}
	return each(rows, func(args []any) (int64, error) { return q.Exec(ctx, query, args...) })
}

func each(rows [][]any, run func(args []any) (int64, error)) (counts []int64, err error) {
	counts = make([]int64, len(rows))
	for i, args := range rows {
		if counts[i], err = run(args); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// bound makes the values of arguments what columns have.
func bound(args []any) []any {
	for i, arg := range args {
		switch v := arg.(type) {
		case time.Time:
			args[i] = instant(v)
		case []string:
			if args[i] = nil; v != nil {
				args[i] = list(v)
			}
		}
	}
	return args
}

// moments is where a column's microseconds go.
type moments time.Time

// Scan implements [sql.Scanner].
func (m *moments) Scan(column any) error {
	switch v := column.(type) {
	case nil:
		*m = moments{}
	case int64:
		*m = moments(moment(v))
	default:
		return fmt.Errorf("a time is a %T", column)
	}
	return nil
}

// texts is where a column's JSON array goes.
type texts []string

// Scan implements [sql.Scanner].
func (t *texts) Scan(column any) error {
	text, ok := column.(string)
	if !ok {
		return fmt.Errorf("a list is a %T", column)
	}
	return json.Unmarshal([]byte(text), (*[]string)(t))
}

// instant returns a column's value for a time: NULL for the zero time.
func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
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

func moment(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
