package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/threadmill/threadmill/store"
)

// Query is a statement.
type Query struct {
	// SQLite and Postgres are its text for each database.
	SQLite, Postgres string

	// Unprepared is a text for one call, which is not worth to be prepared.
	Unprepared bool
}

// both returns a statement that both databases understand. A limit is written as a sum, since SQLite reads the value of a bare
// parameter and prepares the statement again when it changes.
func both(text string) *Query { return &Query{SQLite: text, Postgres: text} }

// word stands in a text for what the databases write differently.
type word struct{ text, sqlite, postgres string }

// variants returns a statement with words.
func variants(text string, words ...word) *Query {
	q := both(text)
	for _, w := range words {
		q.SQLite = strings.ReplaceAll(q.SQLite, w.text, w.sqlite)
		q.Postgres = strings.ReplaceAll(q.Postgres, w.text, w.postgres)
	}
	return q
}

// Querier runs statements. Of their arguments, a time is a column's time and the zero time NULL, a []string is a list without the
// texts that are not [store.Storable], and a nil slice NULL. Columns are read into what [Database] gives.
type Querier interface {
	// Query returns the rows of a result. A text that is not [store.Storable] finds none.
	Query(ctx context.Context, q *Query, args ...any) (Rows, error)

	// Exec returns the number of rows that it has changed. A statement without a text for the database changes none.
	Exec(ctx context.Context, q *Query, args ...any) (int64, error)

	// Run is Exec for each row of arguments, in one round trip. It returns the numbers of rows that each has changed.
	Run(ctx context.Context, q *Query, rows [][]any) ([]int64, error)
}

// Rows are the rows of a result, one after the other.
type Rows interface {
	Row
	Next() bool
	Err() error
	Close() error
}

// Row is a row of a result.
type Row interface {
	Scan(into ...any) error
}

// NoRows returns a result without rows.
func NoRows() Rows { return noRows{} }

type noRows struct{}

func (noRows) Next() bool        { return false }
func (noRows) Scan(...any) error { return store.ErrNotFound }
func (noRows) Err() error        { return nil }
func (noRows) Close() error      { return nil }

// Database is what a driver opens.
type Database struct {
	// Name is the driver's name, with which errors begin.
	Name string

	// Reader and Writer run statements that are transactions of their own.
	Reader, Writer Querier

	// Append is [store.Store].Append with a batch that was checked.
	Append func(ctx context.Context, key store.Key, batch store.Batch) (store.Appended, error)

	// Transaction runs do in a transaction, which takes effect unless do fails. Those with the same lock come one after the
	// other, and see what the ones before them have done. Without a lock, none waits for another.
	Transaction func(ctx context.Context, lock string, do func(Querier) error) error

	// Snapshot runs do in a transaction that sees one state of the database and changes nothing.
	Snapshot func(ctx context.Context, do func(Querier) error) error

	// Knowledge are the full text and the vectors of documents.
	Knowledge KnowledgeIndex

	// Time is where a column's time goes, the zero time for NULL, List where a list goes, and Bytes where bytes go that are not
	// kept after their row.
	Time  func(into *time.Time) any
	List  func(into *[]string) any
	Bytes func(into *[]byte) any

	// Scrub is [store.Erasures].Scrub, and Close [store.Store].Close.
	Scrub func(context.Context) error
	Close func() error

	// Classify returns an error of the database as one of package store, or as it is.
	Classify func(error) error
}

// KnowledgeIndex is what finds the chunks of documents: a database has its own. All but HasVectors run in a transaction, searches in a
// snapshot. The namespace or the embedder may be none that is [store.Storable].
type KnowledgeIndex struct {
	// HasVectors reports whether the database can keep vectors.
	HasVectors func() bool

	// AddChunks adds chunks of the newest revision of a document, and AddContexts gives them contexts.
	AddChunks   func(ctx context.Context, tx Querier, namespace string, d store.KnowledgeDocument, chunks []store.KnowledgeChunk) error
	AddContexts func(ctx context.Context, tx Querier, namespace string, d store.KnowledgeDocument, contexts []store.KnowledgeContext) error

	// DropChunks deletes what finds the chunks of all revisions of a document but one, and the chunks by drop.
	DropChunks func(ctx context.Context, tx Querier, namespace, id string, except int, drop func() (int64, error)) error

	// Show prepares that the chunks of the newest revision are found, and returns how many there are.
	Show func(ctx context.Context, tx Querier, namespace string, d store.KnowledgeDocument) (int, error)

	// Count runs a change by which a revision becomes the only visible one of its document, and counts what that changes.
	Count func(ctx context.Context, tx Querier, namespace, id string, revision int, change func() error) error

	// Compact removes what was deleted from the index of a namespace.
	Compact func(ctx context.Context, tx Querier, namespace string) error

	AddVectors  func(ctx context.Context, tx Querier, namespace, embedder string, vectors []store.KnowledgeVector) error
	DropVectors func(ctx context.Context, tx Querier, namespace, embedder string) error

	// SearchText and SearchVectors find visible chunks, the best first. The vector has the length 1.
	SearchText    func(ctx context.Context, tx Querier, namespace, query string, in store.KnowledgeScope) ([]store.KnowledgeHit, error)
	SearchVectors func(ctx context.Context, tx Querier, namespace, embedder string, unit []float32, in store.KnowledgeScope) ([]store.KnowledgeHit, error)
}

// Storable reports whether all texts of arguments can be in a column.
func Storable(args []any) bool {
	for _, arg := range args {
		if text, ok := arg.(string); ok && !store.Storable(text) {
			return false
		}
	}
	return true
}

// Store implements the subjects of [store.Store] over a database.
type Store struct {
	db     Database
	probed *atomic.Pointer[time.Time] // the last Ping that has written

	// around, if set, runs each call.
	around store.Around
}

// New returns the store in a database.
func New(db Database) *Store { return &Store{db: db, probed: &atomic.Pointer[time.Time]{}} }

// With implements [store.With].
func (s *Store) With(around store.Around) store.Store {
	with := *s
	if with.around = around; s.around != nil {
		with.around = func(ctx context.Context, name string, do func(context.Context) error) error {
			return around(ctx, name, func(ctx context.Context) error { return s.around(ctx, name, do) })
		}
	}
	return &with
}

// Close implements [store.Store]. It waits for running calls. Further ones do nothing.
func (s *Store) Close() error { return s.db.Close() }

// call is what the method of a name does. Its error says what, with these arguments.
func call[T any](ctx context.Context, s *Store, name string, do func(context.Context) (T, error), doing string, args ...any) (T, error) {
	if s.around != nil {
		return surrounded(ctx, s, name, func(ctx context.Context) (T, error) { return explained(ctx, s, do, doing, args) })
	}
	return explained(ctx, s, do, doing, args)
}

// surrounded runs a method of a name within what is around each call. Those that each turn calls use it by themselves if there is
// anything around them: what call is given costs objects.
func surrounded[T any](ctx context.Context, s *Store, name string, do func(context.Context) (T, error)) (out T, err error) {
	err = s.around(ctx, name, func(ctx context.Context) (err error) {
		out, err = do(ctx)
		return err
	})
	return out, err
}

func explained[T any](ctx context.Context, s *Store, do func(context.Context) (T, error), doing string, args []any) (T, error) {
	out, err := do(ctx)
	if err != nil {
		var none T
		return none, s.failed(err, doing, args...)
	}
	return out, nil
}

// do is call without a result.
func (s *Store) do(ctx context.Context, name string, do func(context.Context) error, doing string, args ...any) error {
	_, err := call(ctx, s, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) }, doing, args...)
	return err
}

// failed is the error of a method.
func (s *Store) failed(err error, doing string, args ...any) error {
	return fmt.Errorf("%s: %s: %w", s.db.Name, fmt.Sprintf(doing, args...), s.db.Classify(err))
}

// all returns all rows of a result.
func all[T any](ctx context.Context, s *Store, on Querier, q *Query, scan func(*Store, Row) (T, error), args ...any) ([]T, error) {
	rows, err := on.Query(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		one, err := scan(s, rows)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, rows.Err()
}

// Each calls do with each row of a result, until it fails.
func Each(ctx context.Context, on Querier, q *Query, do func(Row) error, args ...any) error {
	rows, err := on.Query(ctx, q, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one returns the row of a result that has one at most, or [store.ErrNotFound].
func one[T any](ctx context.Context, s *Store, on Querier, q *Query, scan func(*Store, Row) (T, error), args ...any) (T, error) {
	found, err := all(ctx, s, on, q, scan, args...)
	switch {
	case err != nil:
	case len(found) == 0:
		err = store.ErrNotFound
	default:
		return found[0], nil
	}
	var none T
	return none, err
}

// exists reports whether there is a row.
func exists(ctx context.Context, s *Store, on Querier, q *Query, args ...any) (bool, error) {
	found, err := all(ctx, s, on, q, scanned[int], args...)
	return len(found) > 0, err
}

// scanned returns the only column of a row.
func scanned[T any](_ *Store, row Row) (value T, err error) {
	err = row.Scan(&value)
	return value, err
}

// TextOrNull returns a column's value for a text: NULL for none.
func TextOrNull[T ~string | ~[]byte](text T) any {
	if len(text) == 0 {
		return nil
	}
	return string(text)
}
