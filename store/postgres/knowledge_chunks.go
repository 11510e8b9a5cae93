package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

const (
	addChunks = `INSERT INTO knowledge_chunks (namespace, document, revision, index, text, overlap, path, page, tokens, context, lexemes)
		SELECT $1, $2, $3, c.index, c.text, c.overlap, c.path::json, c.page, c.tokens, c.context, to_tsvector('pg_catalog.english', c.words)
		FROM unnest($4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[], $10::text[], $11::text[])
			AS c(index, text, overlap, path, page, tokens, context, words)
		ON CONFLICT DO NOTHING`

	// What is searched of a chunk does not depend on the order of its words.
	addContexts = `UPDATE knowledge_chunks c SET context = a.context, lexemes = c.lexemes || to_tsvector('pg_catalog.english', a.words)
		FROM unnest($4::bigint[], $5::text[], $6::text[]) AS a(index, context, words)
		WHERE c.namespace = $1 AND c.document = $2 AND c.revision = $3 AND c.index = a.index AND c.context = ''`

	// The visible ones of these chunks.
	hitChunks = `SELECT c.id, d.collection, d.source, d.title, ` + sqlstore.ChunkColumnsOfPostgres + ` FROM knowledge_chunks c JOIN knowledge_documents d
		ON d.namespace = c.namespace AND d.id = c.document WHERE c.id = ANY($1::bigint[])`
)

// addLexemes adds chunks with what is searched of them.
func addLexemes(ctx context.Context, tx sqlstore.Querier, namespace string, d store.KnowledgeDocument, chunks []store.KnowledgeChunk) error {
	n := len(chunks)
	indexes, overlaps, pages, tokens := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	texts, paths, contexts, words := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, c := range chunks {
		indexes[i], overlaps[i], pages[i], tokens[i] = c.Index, c.Overlap, c.Page, c.Tokens
		texts[i], paths[i], contexts[i] = c.Text, jsonList(c.Path), c.Context
		words[i] = sqlstore.TextWords(strings.Join(c.Path, " ") + " " + c.Context + " " + c.Text)
	}
	_, err := native(tx).Exec(ctx, addChunks, namespace, d.ID, d.Revision, indexes, texts, overlaps, paths, pages, tokens, contexts, words)
	return err
}

func addContextLexemes(ctx context.Context, tx sqlstore.Querier, namespace string, d store.KnowledgeDocument, contexts []store.KnowledgeContext) error {
	indexes, texts, words := make([]int, len(contexts)), make([]string, len(contexts)), make([]string, len(contexts))
	for i, c := range contexts {
		indexes[i], texts[i], words[i] = c.Index, c.Context, sqlstore.TextWords(c.Context)
	}
	_, err := native(tx).Exec(ctx, addContexts, namespace, d.ID, d.Revision, indexes, texts, words)
	return err
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
	into := append([]any{&chunk, &hit.Collection, &hit.Source, &hit.Title}, sqlstore.ChunkFields(&hit.KnowledgeChunk, &path)...)
	_, err = pgx.ForEachRow(rows, into, func() error {
		i := place[chunk]
		hit.Score, hit.Path = found[i].score, nil
		all[i] = hit
		return json.Unmarshal(path, &all[i].Path)
	})
	return slices.DeleteFunc(all, func(h store.KnowledgeHit) bool { return h.Document == "" }), err
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
