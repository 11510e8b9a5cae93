package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite/vec" // the function vec_distance_cosine

	"github.com/threadmill/threadmill/store"
)

// nearest returns the query for the chunks nearest to the vector ?1 of the embedder ?2, at most ?3, of visible revisions.
// From names the tables in the order in which they are read: CROSS JOIN keeps SQLite from choosing another one.
//
// A table of vec0 would compare as fast, but would write ten times as slowly, and would have to know which revisions are
// visible.
func nearest(from, and string) string {
	return `SELECT ` + chunkColumns + `, d.collection, d.source, d.title, max(-1.0, min(1.0, 1.0 - n.distance)) FROM (
			SELECT v.id & (1 << 40) - 1 AS chunk, vec_distance_cosine(v.vector, ?1) AS distance
			FROM ` + from + ` ON d.key = v.document AND d.indexed = v.revision
			WHERE v.id BETWEEN ?2 << 40 AND (?2 + 1 << 40) - 1` + and + ` ORDER BY distance, v.id LIMIT ?3 + 0
		) n CROSS JOIN knowledge_chunks c ON c.id = n.chunk CROSS JOIN knowledge_documents d ON d.key = c.document
		ORDER BY n.distance, c.id`
}

// HasVectors implements [store.Knowledge].
func (s *Store) HasVectors() bool { return true }

// AddVectors implements [store.Knowledge].
func (s *Store) AddVectors(ctx context.Context, namespace, embedder string, vectors []store.KnowledgeVector) error {
	vectors, err := store.NormalizeVectors(embedder, vectors)
	if err == nil && len(vectors) > 0 {
		err = s.learning(ctx, namespace, func(l *learning) error { return l.addVectors(ctx, embedder, vectors) })
	}
	return knowledgeError("adding vectors of "+embedder+" of", namespace, "*", err)
}

func (l *learning) addVectors(ctx context.Context, embedder string, vectors []store.KnowledgeVector) error {
	var id int64
	dimension := len(vectors[0].Vector)
	err := l.row(ctx, l.embedder, l.namespace, embedder).Scan(&id, &dimension)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if given := len(vectors[0].Vector); given != dimension {
		return fmt.Errorf("%w: vectors: have the dimension %d, those of the embedder have %d", store.ErrInvalid, given, dimension)
	}
	for _, v := range vectors {
		var document, chunk int64
		err := l.row(ctx, l.chunk, l.namespace, v.Document, v.Revision, v.Index).Scan(&document, &chunk)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err == nil && id == 0 {
			err = l.row(ctx, l.addEmbedder, l.namespace, embedder, dimension).Scan(&id)
		}
		if err == nil {
			_, err = l.exec(ctx, l.addVector, id, chunk, document, v.Revision, store.VectorBytes(v.Vector))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// DropVectors implements [store.Knowledge].
func (s *Store) DropVectors(ctx context.Context, namespace, embedder string) error {
	err := s.learning(ctx, namespace, func(l *learning) error {
		var id int64
		var dimension int
		err := l.row(ctx, l.embedder, namespace, embedder).Scan(&id, &dimension)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			_, err = l.exec(ctx, l.dropVectors, id)
		}
		if err == nil {
			_, err = l.exec(ctx, l.removeEmbedder, id)
		}
		return err
	})
	return knowledgeError("deleting vectors of "+embedder+" of", namespace, "*", err)
}

// SearchVectors implements [store.Knowledge]. It compares all vectors of the embedder in the collections.
func (s *Store) SearchVectors(ctx context.Context, namespace, embedder string, vector []float32, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	unit, ok := store.UnitVector(vector)
	if !ok {
		return nil, ctx.Err()
	}
	var hits []store.KnowledgeHit
	err := s.reading(ctx, func(tx *sql.Tx) error {
		var id int64
		err := tx.StmtContext(ctx, s.readKnowledge.embedder).QueryRowContext(ctx, namespace, embedder, len(unit)).Scan(&id)
		if err != nil {
			return err
		}
		stmt, args := s.readKnowledge.nearest, []any{store.VectorBytes(unit), id, store.HitLimit(in.Limit)}
		if len(in.Collections) > 0 {
			stmt, args = s.readKnowledge.nearestIn, append(args, namespace, list(in.Collections))
		}
		hits, err = collect(ctx, tx.StmtContext(ctx, stmt), scanHit, args...)
		return err
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, knowledgeError("searching", namespace, "*", err)
	}
	return hits, nil
}

// Chunks implements [store.Knowledge].
func (s *Store) Chunks(ctx context.Context, namespace string, r store.KnowledgeRevision, from, limit int) ([]store.KnowledgeChunk, error) {
	found, err := collect(ctx, s.readKnowledge.chunks, scanChunk, namespace, r.Document, r.Number, from, store.ChunkLimit(limit))
	if err != nil {
		return nil, knowledgeError("reading chunks of", namespace, r.Document, err)
	}
	return found, nil
}

// ChunksWithout implements [store.Knowledge].
func (s *Store) ChunksWithout(ctx context.Context, namespace string, r store.KnowledgeRevision, embedder string, limit int) ([]store.KnowledgeChunk, error) {
	stmt, args := s.readKnowledge.visible, []any{namespace, embedder}
	if r != (store.KnowledgeRevision{}) {
		stmt, args = s.readKnowledge.without, append(args, r.Document, r.Number)
	}
	found, err := collect(ctx, stmt, scanChunk, append(args, store.ChunkLimit(limit))...)
	if err != nil {
		return nil, knowledgeError("reading chunks of", namespace, r.Document, err)
	}
	return found, nil
}

// KnowledgeIndex implements [store.Knowledge].
func (s *Store) KnowledgeIndex(ctx context.Context, namespace string) (store.KnowledgeIndex, error) {
	index := store.KnowledgeIndex{Embedders: []store.KnowledgeEmbedder{}}
	err := s.reading(ctx, func(tx *sql.Tx) error {
		counts := tx.StmtContext(ctx, s.readKnowledge.counts).QueryRowContext(ctx, namespace)
		if err := counts.Scan(&index.Documents, &index.Chunks); err != nil {
			return err
		}
		found, err := collect(ctx, tx.StmtContext(ctx, s.readKnowledge.embedders), scanEmbedder, namespace)
		index.Embedders = append(index.Embedders, found...)
		return err
	})
	if err != nil {
		return store.KnowledgeIndex{}, knowledgeError("counting", namespace, "*", err)
	}
	return index, nil
}

func scanEmbedder(row scanner) (e store.KnowledgeEmbedder, err error) {
	err = row.Scan(&e.Name, &e.Dimension, &e.Chunks)
	return e, err
}
