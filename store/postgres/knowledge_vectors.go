package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

const (
	vectorSchema = `SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'`
	hasPgvector  = `SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')`

	// A schema of its own would take the extension, and the vectors of all other schemas, with it when it is dropped.
	createPgvector = `CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public`

	hasVectorTable = `SELECT to_regclass('knowledge_vectors') IS NOT NULL`

	// Vectors have the length 1. signs has a bit for each number: 1 if it is positive. collection and visible are those of the
	// chunk's document and revision.
	createVectorTable = `CREATE TABLE knowledge_vectors (
			chunk      bigint      NOT NULL REFERENCES knowledge_chunks ON DELETE CASCADE,
			embedder   text        NOT NULL COLLATE "C",
			namespace  text        NOT NULL COLLATE "C",
			collection text        NOT NULL COLLATE "C",
			visible    boolean     NOT NULL,
			dimension  bigint      NOT NULL,
			signs      bit varying NOT NULL,
			vector     %[1]s.vector NOT NULL,
			PRIMARY KEY (chunk, embedder)
		)`
	createVectorIndex = `CREATE INDEX knowledge_vectors_by_embedder ON knowledge_vectors (namespace, embedder, visible, dimension)`

	vectorDimension = `SELECT dimension FROM knowledge_vectors WHERE namespace = $1 AND embedder = $2 LIMIT 1`
	lockDimension   = `SELECT pg_advisory_xact_lock(hashtextextended('threadmill vectors ' || coalesce(current_schema(), '') || ' ' || $1
		|| ' ' || $2, 0))`
	shareDocuments = `SELECT FROM knowledge_documents WHERE namespace = $1 AND id = ANY($2::text[]) ORDER BY id FOR SHARE`

	// addVectors stores the vectors of chunks that are visible or processed.
	addVectors = `INSERT INTO knowledge_vectors (chunk, embedder, namespace, collection, visible, dimension, signs, vector)
		SELECT c.id, $2, $1, d.collection, c.revision = d.indexed, $3, v.signs::bit varying, v.vector::%[1]s.vector
		FROM unnest($4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[]) AS v(document, revision, index, signs, vector)
		JOIN knowledge_documents d ON d.namespace = $1 AND d.id = v.document AND v.revision IN (d.indexed, d.revision) AND d.collection IS NOT NULL
		JOIN knowledge_chunks c ON c.namespace = $1 AND c.document = v.document AND c.revision = v.revision AND c.index = v.index
		ON CONFLICT DO NOTHING`

	showVisible = `UPDATE knowledge_vectors SET visible = true WHERE chunk IN
		(SELECT id FROM knowledge_chunks WHERE namespace = $1 AND document = $2 AND revision = $3)`

	// The product of vectors of length 1 is their cosine, <#> its negative.
	nearest = `SELECT chunk, -(vector OPERATOR(%[1]s.<#>) (SELECT $3::real[]::%[1]s.vector)) AS cosine
		FROM %[2]s AS v ORDER BY cosine DESC, chunk LIMIT $6`
	ofEmbedder = `SELECT * FROM knowledge_vectors WHERE namespace = $1 AND embedder = $2 AND visible AND dimension = $4
		AND ($5::text[] IS NULL OR collection = ANY($5))`

	// The more signs two vectors have in common, the greater is their cosine, about.
	likelyNearest = ofEmbedder + ` ORDER BY bit_count(signs # $7::bit varying), chunk LIMIT $8`
)

var dropVectors = sqlstore.Query{Postgres: `DELETE FROM knowledge_vectors WHERE namespace = $1 AND embedder = $2`}

// From signsFrom numbers on, vectors are chosen by their signs first: a search then reads 32 times less. Fewer numbers have too few
// signs.
const (
	signsFrom  = 256
	likelyHits = 2000
)

// vectorQueries are the queries that name the schema of the extension.
type vectorQueries struct{ add, nearest, likely string }

func newVectorQueries(schema string) *vectorQueries {
	schema = quoted(schema)
	return &vectorQueries{
		add:     fmt.Sprintf(addVectors, schema),
		nearest: fmt.Sprintf(nearest, schema, "("+ofEmbedder+")"),
		likely:  fmt.Sprintf(nearest, schema, "("+likelyNearest+")"),
	}
}

// prepareVectors makes the table of vectors, if the extension exists or can be created. Otherwise, the store has no vectors,
// and prepareVectors returns nil.
func prepareVectors(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) (*vectorQueries, error) {
	schema, err := extensionSchema(ctx, pool)
	if err == nil {
		err = createVectors(ctx, pool, schema)
	}
	var refused *pgconn.PgError
	switch {
	case errors.Is(err, errNoVectors), errors.As(err, &refused) && (refused.Code == readOnly || !unavailable(err)):
		logger.DebugContext(ctx, "the store keeps no vectors", "reason", err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("vectors: %w", err)
	}
	return newVectorQueries(schema), nil
}

var errNoVectors = errors.New("the extension pgvector is not installed")

// extensionSchema returns the schema that has the types and operators of the extension.
func extensionSchema(ctx context.Context, pool *pgxpool.Pool) (schema string, err error) {
	err = pool.QueryRow(ctx, vectorSchema).Scan(&schema)
	if !errors.Is(err, pgx.ErrNoRows) {
		return schema, err
	}
	var available bool
	if err := pool.QueryRow(ctx, hasPgvector).Scan(&available); err != nil {
		return "", err
	}
	if !available {
		return "", errNoVectors
	}
	_, creating := pool.Exec(ctx, createPgvector)
	err = pool.QueryRow(ctx, vectorSchema).Scan(&schema) // another process may have created it
	if errors.Is(err, pgx.ErrNoRows) {
		err = errors.Join(errNoVectors, creating)
	}
	return schema, err
}

func createVectors(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	var exists bool
	if err := pool.QueryRow(ctx, hasVectorTable).Scan(&exists); err != nil || exists {
		return err
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+migrationLockID+`)`); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, hasVectorTable).Scan(&exists); err != nil || exists {
			return err
		}
		for _, query := range []string{fmt.Sprintf(createVectorTable, quoted(schema)), createVectorIndex} {
			if _, err := tx.Exec(ctx, query); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) insertVectors(ctx context.Context, q sqlstore.Querier, namespace, embedder string, vectors []store.KnowledgeVector) error {
	if !store.Storable(namespace) {
		return nil
	}
	tx, dimension := native(q), len(vectors[0].Vector)
	if err := checkDimension(ctx, tx, namespace, embedder, dimension); err != nil {
		return err
	}
	var (
		documents, signs, texts []string
		revisions, indexes      []int
	)
	for _, v := range vectors {
		if store.Storable(v.Document) {
			documents, revisions, indexes = append(documents, v.Document), append(revisions, v.Revision), append(indexes, v.Index)
			signs, texts = append(signs, signsOf(v.Vector)), append(texts, vectorText(v.Vector))
		}
	}
	if _, err := tx.Exec(ctx, shareDocuments, namespace, documents); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, s.vectors.add, namespace, embedder, dimension, documents, revisions, indexes, signs, texts)
	return err
}

// checkDimension returns an error if the embedder has vectors of another dimension. Transactions that may add its first vectors
// wait for each other.
func checkDimension(ctx context.Context, tx pgx.Tx, namespace, embedder string, dimension int) error {
	var known int
	err := tx.QueryRow(ctx, vectorDimension, namespace, embedder).Scan(&known)
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err := tx.Exec(ctx, lockDimension, namespace, embedder); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, vectorDimension, namespace, embedder).Scan(&known)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err == nil && known != dimension:
		return fmt.Errorf("%w: the vectors have the dimension %d, those that exist %d", store.ErrInvalid, dimension, known)
	}
	return err
}

// showVectors makes the vectors of the newest revision of a document visible. Other processes may have added them, even if this one
// was started before the server had the extension.
func showVectors(ctx context.Context, tx pgx.Tx, namespace string, d store.KnowledgeDocument) error {
	var exist bool
	if err := tx.QueryRow(ctx, hasVectorTable).Scan(&exist); err != nil || !exist {
		return err
	}
	_, err := tx.Exec(ctx, showVisible, namespace, d.ID, d.Revision)
	return err
}

func deleteVectors(ctx context.Context, tx sqlstore.Querier, namespace, embedder string) error {
	_, err := tx.Exec(ctx, &dropVectors, namespace, embedder)
	return err
}

// searchVectors compares all vectors, or their signs if they are long, and then the most likely ones.
func (s *Store) searchVectors(ctx context.Context, q sqlstore.Querier, namespace, embedder string, unit []float32, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	if !store.Storable(namespace) || !store.Storable(embedder) {
		return nil, nil
	}
	query, args := s.vectors.nearest, []any{namespace, embedder, unit, len(unit), collectionsOf(in), sqlstore.HitLimit(in.Limit)}
	if len(unit) >= signsFrom {
		query, args = s.vectors.likely, append(args, signsOf(unit), likelyHits)
	}
	tx := native(q)
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	best, err := pgx.CollectRows(rows, scanScored)
	if err != nil {
		return nil, err
	}
	return hits(ctx, tx, best)
}

func scanScored(row pgx.CollectableRow) (scored, error) {
	var f scored
	err := row.Scan(&f.chunk, &f.score)
	f.score = max(-1, min(f.score, 1))
	return f, err
}

// vectorText returns a vector as the extension reads it.
func vectorText(vector []float32) string {
	text := []byte{'['}
	for i, x := range vector {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendFloat(text, float64(x), 'g', -1, 32)
	}
	return string(append(text, ']'))
}

// signsOf returns a bit for each number of a vector.
func signsOf(vector []float32) string {
	signs := make([]byte, len(vector))
	for i, x := range vector {
		signs[i] = '0'
		if x > 0 {
			signs[i] = '1'
		}
	}
	return string(signs)
}
