package sqlite

import (
	"context"
	"fmt"

	_ "modernc.org/sqlite/vec" // the function vec_distance_cosine

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

var (
	embedderOf   = only(`SELECT id, dimension FROM knowledge_embedders WHERE namespace = $1 AND name = $2`)
	addEmbedder  = only(`INSERT INTO knowledge_embedders (namespace, name, dimension) VALUES ($1, $2, $3) RETURNING id`)
	dropEmbedder = only(`DELETE FROM knowledge_embedders WHERE id = $1`)
	chunkOf      = only(`SELECT d.key, c.id FROM knowledge_documents d CROSS JOIN knowledge_chunks c ON c.document = d.key
		WHERE d.namespace = $1 AND d.id = $2 AND c.revision = $3 AND c.idx = $4`)
	addVector   = only(`INSERT INTO knowledge_vectors (id, document, revision, vector) VALUES (($1 << 40) + $2, $3, $4, $5) ON CONFLICT DO NOTHING`)
	dropVectors = only(`DELETE FROM knowledge_vectors WHERE id BETWEEN $1 << 40 AND ($1 + 1 << 40) - 1`)

	nearest   = nearestIn(`knowledge_vectors v CROSS JOIN knowledge_documents d`, ``)
	nearestOf = nearestIn(`knowledge_documents d CROSS JOIN knowledge_vectors v`, ` AND d.namespace = $4 AND d.collection IN (SELECT value FROM json_each($5))`)
)

// nearestIn returns the query for the chunks nearest to the vector $1 of the embedder $2, at most $3, of visible revisions.
// From names the tables in the order in which they are read: CROSS JOIN keeps SQLite from choosing another one.
//
// A table of vec0 would compare as fast, but would write ten times as slowly, and would have to know which revisions are
// visible.
func nearestIn(from, and string) *sqlstore.Query {
	return only(`SELECT ` + sqlstore.ChunkColumnsOfSQLite + `, d.collection, d.source, d.title, max(-1.0, min(1.0, 1.0 - n.distance)) FROM (
			SELECT v.id & (1 << 40) - 1 AS chunk, vec_distance_cosine(v.vector, $1) AS distance
			FROM ` + from + ` ON d.key = v.document AND d.indexed = v.revision
			WHERE v.id BETWEEN $2 << 40 AND ($2 + 1 << 40) - 1` + and + ` ORDER BY distance, v.id LIMIT $3 + 0
		) n CROSS JOIN knowledge_chunks c ON c.id = n.chunk CROSS JOIN knowledge_documents d ON d.key = c.document
		ORDER BY n.distance, c.id`)
}

// embedder returns the id of an embedder and the dimension of its vectors; 0 = there is none.
func embedder(ctx context.Context, tx sqlstore.Querier, namespace, name string) (id int64, dimension int, err error) {
	err = sqlstore.Each(ctx, tx, embedderOf, func(row sqlstore.Row) error { return row.Scan(&id, &dimension) }, namespace, name)
	return id, dimension, err
}

func addVectors(ctx context.Context, tx sqlstore.Querier, namespace, name string, vectors []store.KnowledgeVector) error {
	given := len(vectors[0].Vector)
	id, dimension, err := embedder(ctx, tx, namespace, name)
	if err != nil {
		return err
	}
	if id != 0 && given != dimension {
		return fmt.Errorf("%w: vectors: have the dimension %d, those of the embedder have %d", store.ErrInvalid, given, dimension)
	}
	var rows [][]any
	for _, v := range vectors {
		err := sqlstore.Each(ctx, tx, chunkOf, func(row sqlstore.Row) error {
			var document, chunk int64
			err := row.Scan(&document, &chunk)
			rows = append(rows, []any{id, chunk, document, v.Revision, sqlstore.VectorBytes(v.Vector)})
			return err
		}, namespace, v.Document, v.Revision, v.Index)
		if err != nil {
			return err
		}
	}
	if id == 0 && len(rows) > 0 {
		if id, _, err = first[int64](ctx, tx, addEmbedder, namespace, name, given); err != nil {
			return err
		}
		for _, row := range rows {
			row[0] = id
		}
	}
	_, err = tx.Run(ctx, addVector, rows)
	return err
}

func forgetEmbedder(ctx context.Context, tx sqlstore.Querier, namespace, name string) error {
	id, _, err := embedder(ctx, tx, namespace, name)
	if err != nil || id == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, dropVectors, id); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, dropEmbedder, id)
	return err
}

// searchVectors compares all vectors of the embedder in the collections.
func searchVectors(ctx context.Context, tx sqlstore.Querier, namespace, name string, unit []float32, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	id, dimension, err := embedder(ctx, tx, namespace, name)
	if err != nil || id == 0 || dimension != len(unit) {
		return nil, err
	}
	q, args := nearest, []any{sqlstore.VectorBytes(unit), id, sqlstore.HitLimit(in.Limit)}
	if len(in.Collections) > 0 {
		q, args = nearestOf, append(args, namespace, in.Collections)
	}
	return hits(ctx, tx, q, args...)
}
