package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// ofDocument selects what belongs to the document $2.
const ofDocument = `document = (SELECT key FROM knowledge_documents WHERE namespace = $1 AND id = $2)`

var (
	addChunk = only(`INSERT INTO knowledge_chunks (document, revision, idx, overlap, page, tokens, path, context, text)
		SELECT key, $3, $4, $5, $6, $7, $8, $9, $10 FROM knowledge_documents WHERE namespace = $1 AND id = $2 ON CONFLICT DO NOTHING RETURNING id`)
	addContext = only(`UPDATE knowledge_chunks SET context = $5 WHERE ` + ofDocument + ` AND revision = $3 AND idx = $4 AND context = ''
		RETURNING id, text, path`)
	countChunks = only(`SELECT count(*) FROM knowledge_chunks WHERE ` + ofDocument + ` AND revision = $3`)

	textOf   = only(`SELECT id FROM knowledge_texts WHERE namespace = $1`)
	addText  = only(`INSERT INTO knowledge_texts (namespace) VALUES ($1) RETURNING id`)
	anyChunk = only(`SELECT 1 FROM knowledge_documents d JOIN knowledge_chunks c ON c.document = d.key WHERE d.namespace = $1 LIMIT 1`)
	dropText = only(`DELETE FROM knowledge_texts WHERE id = $1`)

	dropVectorsOf = only(`DELETE FROM knowledge_vectors WHERE ` + ofDocument + ` AND revision <> $3`)
	dropUnused    = only(`DELETE FROM knowledge_embedders WHERE namespace = $1 AND NOT EXISTS (SELECT 1 FROM knowledge_vectors v
		WHERE v.id BETWEEN knowledge_embedders.id << 40 AND (knowledge_embedders.id + 1 << 40) - 1)`)
)

// only returns a statement of this driver.
func only(text string) *sqlstore.Query { return &sqlstore.Query{SQLite: text} }

// index returns the full text and the vectors of documents. A namespace with chunks has a full-text index of its own, the table
// knowledge_text_<id>, whose statements are made when they are needed.
func index() sqlstore.KnowledgeIndex {
	return sqlstore.KnowledgeIndex{
		HasVectors: func() bool { return true },
		AddChunks:  addChunks, AddContexts: addContexts, DropChunks: dropFound,
		Show: func(ctx context.Context, tx sqlstore.Querier, namespace string, d store.KnowledgeDocument) (int, error) {
			n, _, err := first[int](ctx, tx, countChunks, namespace, d.ID, d.Revision)
			return n, err
		},
		Count: func(_ context.Context, _ sqlstore.Querier, _, _ string, _ int, change func() error) error {
			return change()
		},
		Compact: optimizeText, AddVectors: addVectors, DropVectors: forgetEmbedder, SearchText: searchText, SearchVectors: searchVectors,
	}
}

// first returns the only column of the first row of a result, and whether it has one.
func first[T any](ctx context.Context, on sqlstore.Querier, q *sqlstore.Query, args ...any) (value T, found bool, err error) {
	err = sqlstore.Each(ctx, on, q, func(row sqlstore.Row) error {
		found = true
		return row.Scan(&value)
	}, args...)
	return value, found, err
}

func addChunks(ctx context.Context, tx sqlstore.Querier, namespace string, d store.KnowledgeDocument, chunks []store.KnowledgeChunk) error {
	text, err := openText(ctx, tx, namespace)
	if err != nil {
		return err
	}
	var rows [][]any
	for _, c := range chunks {
		path, err := json.Marshal(c.Path)
		if err != nil {
			return err
		}
		id, added, err := first[int64](ctx, tx, addChunk, namespace, d.ID, c.Revision, c.Index, c.Overlap, c.Page, c.Tokens, string(path), c.Context, c.Text)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", c.Index, err)
		}
		if added {
			rows = append(rows, textRow(id, d.Collection, c))
		}
	}
	_, err = tx.Run(ctx, text.insert(), rows)
	return err
}

func addContexts(ctx context.Context, tx sqlstore.Querier, namespace string, d store.KnowledgeDocument, contexts []store.KnowledgeContext) error {
	text, err := openText(ctx, tx, namespace)
	if err != nil {
		return err
	}
	var rows [][]any
	for _, given := range contexts {
		err := sqlstore.Each(ctx, tx, addContext, func(row sqlstore.Row) error {
			var (
				id   int64
				c    = store.KnowledgeChunk{Context: given.Context}
				path []byte
			)
			err := row.Scan(&id, &c.Text, &path)
			if err == nil {
				err = json.Unmarshal(path, &c.Path)
			}
			rows = append(rows, textRow(id, d.Collection, c))
			return err
		}, namespace, d.ID, d.Revision, given.Index, given.Context)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", given.Index, err)
		}
	}
	_, err = tx.Run(ctx, text.replace(), rows)
	return err
}

// textRow is the row of a chunk in the full-text index.
func textRow(id int64, collection string, c store.KnowledgeChunk) []any {
	return []any{id, collectionToken(collection), sqlstore.TextWords(c.Text), sqlstore.TextWords(strings.Join(c.Path, "\n")), sqlstore.TextWords(c.Context)}
}

// dropFound deletes chunks, and what no chunk needs any more.
func dropFound(ctx context.Context, tx sqlstore.Querier, namespace, id string, except int, drop func() (int64, error)) error {
	text, found, err := first[textTable](ctx, tx, textOf, namespace)
	if err != nil || !found {
		return err // without an index, the namespace has no chunks
	}
	for _, q := range []*sqlstore.Query{text.remove(), dropVectorsOf} {
		if _, err := tx.Exec(ctx, q, namespace, id, except); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, dropUnused, namespace); err != nil {
		return err
	}
	if removed, err := drop(); err != nil || removed == 0 {
		return err
	}
	return closeText(ctx, tx, namespace, text)
}

// openText returns the full-text index of the namespace, and creates it if necessary.
func openText(ctx context.Context, tx sqlstore.Querier, namespace string) (textTable, error) {
	text, found, err := first[textTable](ctx, tx, textOf, namespace)
	if err != nil || found {
		return text, err
	}
	if text, _, err = first[textTable](ctx, tx, addText, namespace); err != nil {
		return text, err
	}
	_, err = tx.Exec(ctx, text.create())
	return text, err
}

// closeText deletes the full-text index if the namespace has no chunks.
func closeText(ctx context.Context, tx sqlstore.Querier, namespace string, text textTable) error {
	_, needed, err := first[int](ctx, tx, anyChunk, namespace)
	if err != nil || needed {
		return err
	}
	if _, err := tx.Exec(ctx, dropText, int64(text)); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, text.drop())
	return err
}

// optimizeText deletes the words of what was deleted: a deleted row of an index without content only hides them, until its parts are
// merged.
func optimizeText(ctx context.Context, tx sqlstore.Querier, namespace string) error {
	text, found, err := first[textTable](ctx, tx, textOf, namespace)
	if err == nil && found {
		_, err = tx.Exec(ctx, text.optimize())
	}
	return err
}
