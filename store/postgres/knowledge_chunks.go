package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/store"
)

const (
	chunkColumns = `c.document, c.revision, c.index, c.text, c.overlap, c.path, c.page, c.tokens, c.context`

	addChunks = `INSERT INTO knowledge_chunks (namespace, document, revision, index, text, overlap, path, page, tokens, context, lexemes)
		SELECT $1, $2, $3, c.index, c.text, c.overlap, c.path::json, c.page, c.tokens, c.context, to_tsvector('pg_catalog.english', c.words)
		FROM unnest($4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::text[], $11::text[])
			AS c(index, text, overlap, path, page, tokens, context, words)
		ON CONFLICT DO NOTHING`

	// What is searched of a chunk does not depend on the order of its words.
	addContexts = `UPDATE knowledge_chunks c SET context = a.context, lexemes = c.lexemes || to_tsvector('pg_catalog.english', a.words)
		FROM unnest($4::bigint[], $5::text[], $6::text[]) AS a(index, context, words)
		WHERE c.namespace = $1 AND c.document = $2 AND c.revision = $3 AND c.index = a.index AND c.context = ''`

	revisionChunks = `SELECT ` + chunkColumns + ` FROM knowledge_chunks c WHERE c.namespace = $1 AND c.document = $2 AND c.revision = $3`
	chunksFrom     = revisionChunks + ` AND c.index >= $4 ORDER BY c.index LIMIT $5`
	visibleChunks  = `SELECT ` + chunkColumns + ` FROM knowledge_documents d JOIN knowledge_chunks c
		ON c.namespace = d.namespace AND c.document = d.id AND c.revision = d.indexed WHERE d.namespace = $1`
	chunksInOrder = ` ORDER BY c.document, c.index LIMIT $%d`

	// The visible ones of these chunks.
	hitChunks = `SELECT c.id, d.collection, d.source, d.title, ` + chunkColumns + ` FROM knowledge_chunks c JOIN knowledge_documents d
		ON d.namespace = c.namespace AND d.id = c.document WHERE c.id = ANY($1::bigint[])`
)

// AddChunks implements [store.Knowledge].
func (s *Store) AddChunks(ctx context.Context, namespace string, r store.KnowledgeRevision, chunks []store.KnowledgeChunk) error {
	chunks, err := store.NormalizeChunks(r, chunks)
	if err == nil {
		err = s.changeChunks(ctx, namespace, r, addChunks, chunkArgs(namespace, r, chunks))
	}
	return revisionError("adding chunks to", namespace, r, err)
}

// AddContexts implements [store.Knowledge].
func (s *Store) AddContexts(ctx context.Context, namespace string, r store.KnowledgeRevision, contexts []store.KnowledgeContext) error {
	contexts, err := store.NormalizeContexts(contexts)
	if err == nil {
		indexes, texts, words := make([]int, len(contexts)), make([]string, len(contexts)), make([]string, len(contexts))
		for i, c := range contexts {
			indexes[i], texts[i], words[i] = c.Index, c.Context, store.TextWords(c.Context)
		}
		err = s.changeChunks(ctx, namespace, r, addContexts, []any{namespace, r.Document, r.Number, indexes, texts, words})
	}
	return revisionError("adding contexts to chunks of", namespace, r, err)
}

// changeChunks runs a statement that changes chunks of a revision, unless the revision is finished.
func (s *Store) changeChunks(ctx context.Context, namespace string, r store.KnowledgeRevision, statement string, args []any) error {
	return s.change(ctx, func(tx pgx.Tx) error {
		status, err := shareRevision(ctx, tx, namespace, r)
		if err != nil || status != store.KnowledgeProcessing {
			return err
		}
		_, err = tx.Exec(ctx, statement, args...)
		return err
	})
}

// shareRevision keeps a revision from ending during the transaction, or returns [store.ErrSuperseded].
func shareRevision(ctx context.Context, tx pgx.Tx, namespace string, r store.KnowledgeRevision) (status store.KnowledgeStatus, err error) {
	if !storableRevision(namespace, r) {
		return "", store.ErrSuperseded
	}
	err = tx.QueryRow(ctx, lockRevision, namespace, r.Document, r.Number).Scan((*string)(&status))
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrSuperseded
	}
	return status, err
}

// chunkArgs are the arguments of addChunks: the revision, and a list for each column.
func chunkArgs(namespace string, r store.KnowledgeRevision, chunks []store.KnowledgeChunk) []any {
	n := len(chunks)
	indexes, overlaps, pages, tokens := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	texts, paths, contexts, words := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, c := range chunks {
		indexes[i], overlaps[i], pages[i], tokens[i] = c.Index, c.Overlap, c.Page, c.Tokens
		texts[i], paths[i], contexts[i] = c.Text, jsonList(c.Path), c.Context
		words[i] = store.TextWords(strings.Join(c.Path, " ") + " " + c.Context + " " + c.Text)
	}
	return []any{namespace, r.Document, r.Number, indexes, texts, overlaps, paths, pages, tokens, contexts, words}
}

// Chunks implements [store.Knowledge].
func (s *Store) Chunks(ctx context.Context, namespace string, r store.KnowledgeRevision, from, limit int) ([]store.KnowledgeChunk, error) {
	if !storableRevision(namespace, r) {
		return nil, nil
	}
	found, err := collectRows(ctx, s.pool, scanChunk, chunksFrom, namespace, r.Document, r.Number, from, store.ChunkLimit(limit))
	return found, revisionError("reading chunks of", namespace, r, err)
}

// ChunksWithout implements [store.Knowledge].
func (s *Store) ChunksWithout(
	ctx context.Context, namespace string, r store.KnowledgeRevision, embedder string, limit int,
) ([]store.KnowledgeChunk, error) {
	if !storableRevision(namespace, r) {
		return nil, nil
	}
	query, args := visibleChunks, []any{namespace}
	if r != (store.KnowledgeRevision{}) {
		query, args = revisionChunks, append(args, r.Document, r.Number)
	}
	if s.vectors != nil && store.Storable(embedder) {
		args = append(args, embedder)
		query += fmt.Sprintf(withoutVector, len(args))
	}
	args = append(args, store.ChunkLimit(limit))
	found, err := collectRows(ctx, s.pool, scanChunk, query+fmt.Sprintf(chunksInOrder, len(args)), args...)
	return found, revisionError("reading chunks without vectors of", namespace, r, err)
}

// scored is a chunk that a search found.
type scored struct {
	chunk int64
	score float64
}

// hits returns what was found, in its order.
func hits(ctx context.Context, tx pgx.Tx, found []scored) ([]store.KnowledgeHit, error) {
	if len(found) == 0 {
		return nil, nil
	}
	place := make(map[int64]int, len(found))
	ids := make([]int64, len(found))
	for i, f := range found {
		place[f.chunk], ids[i] = i, f.chunk
	}
	all := make([]store.KnowledgeHit, len(found))
	var chunk int64
	var hit store.KnowledgeHit
	rows, err := tx.Query(ctx, hitChunks, ids)
	if err != nil {
		return nil, err
	}
	var path []byte
	into := append([]any{&chunk, &hit.Collection, &hit.Source, &hit.Title}, chunkFields(&hit.KnowledgeChunk, &path)...)
	_, err = pgx.ForEachRow(rows, into, func() error {
		i := place[chunk]
		hit.Score, hit.Path = found[i].score, nil
		all[i] = hit
		return json.Unmarshal(path, &all[i].Path)
	})
	return slices.DeleteFunc(all, func(h store.KnowledgeHit) bool { return h.Document == "" }), err
}

func scanChunk(row pgx.CollectableRow) (c store.KnowledgeChunk, err error) {
	var path []byte
	if err = row.Scan(chunkFields(&c, &path)...); err == nil {
		err = json.Unmarshal(path, &c.Path)
	}
	return c, err
}

func chunkFields(c *store.KnowledgeChunk, path *[]byte) []any {
	return []any{&c.Document, &c.Revision, &c.Index, &c.Text, &c.Overlap, path, &c.Page, &c.Tokens, &c.Context}
}

// best sorts what was found, the best first, and cuts it.
func best(found []scored, limit int) []scored {
	slices.SortFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.chunk, b.chunk))
	})
	return found[:min(limit, len(found))]
}

// jsonList returns a list as JSON.
func jsonList(list []string) string {
	raw, err := json.Marshal(list)
	if err != nil {
		panic("postgres: a list of texts has no JSON form: " + err.Error())
	}
	return string(raw)
}
