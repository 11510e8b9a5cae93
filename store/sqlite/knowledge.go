package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/threadmill/threadmill/store"
)

const (
	knowledgeColumns = `id, collection, source, title, metadata, status, error, revision, indexed, digest, indexed_digest,
		format, bytes, chunks, thread_id, changed_by, created_at, updated_at, indexed_thread_id, title_thread_id, metadata_thread_id`
	chunkColumns = `d.id, c.revision, c.idx, c.text, c.overlap, c.path, c.page, c.tokens, c.context`

	// selectKnowledge selects a document with its key.
	selectKnowledge = `SELECT ` + knowledgeColumns + `, key FROM knowledge_documents WHERE namespace = ?1 AND id = ?2`
)

// knowledgeReads are the queries for knowledge, knowledgeWrites the statements that change it. A full-text index has a
// table for each namespace: its statements are made when they are needed.
type knowledgeReads struct {
	document, documents, content               *sql.Stmt
	chunks, without, visible                   *sql.Stmt
	counts, embedders, namespaces, collections *sql.Stmt
	text, embedder                             *sql.Stmt
	nearest, nearestIn                         *sql.Stmt
}

type knowledgeWrites struct {
	document, deleted, create, save       *sql.Stmt
	remove, bury, exhume                  *sql.Stmt
	addContent, removeContents            *sql.Stmt
	addChunk, countChunks, removeChunks   *sql.Stmt
	addContext                            *sql.Stmt
	text, addText, anyChunk, removeText   *sql.Stmt
	embedder, addEmbedder, removeEmbedder *sql.Stmt
	chunk, addVector, removeVectors       *sql.Stmt
	dropVectors, removeEmbedders          *sql.Stmt
}

func (r *knowledgeReads) queries() map[**sql.Stmt]string {
	const (
		ofChunk = `SELECT ` + chunkColumns + ` FROM knowledge_documents d CROSS JOIN knowledge_chunks c ON c.document = d.key`
		without = ` AND NOT EXISTS (SELECT 1 FROM knowledge_embedders e JOIN knowledge_vectors v ON v.id = (e.id << 40) + c.id
			WHERE e.namespace = ?1 AND e.name = ?2)`
	)
	return map[**sql.Stmt]string{
		&r.document: selectKnowledge,
		&r.documents: `SELECT ` + knowledgeColumns + `, key FROM knowledge_documents
			WHERE namespace = ?1 AND (collection, source) > (?2, ?3) AND (?4 = '' OR collection = ?4) AND (?5 = '' OR status = ?5)
			AND (?6 = '' OR source LIKE ?6 ESCAPE '\' OR title LIKE ?6 ESCAPE '\') ORDER BY collection, source LIMIT ?7 + 0`,
		&r.content: `SELECT c.name, c.media_type, c.bytes FROM knowledge_documents d JOIN knowledge_contents c ON c.document = d.key
			WHERE d.namespace = ? AND d.id = ? AND c.revision = ?`,
		&r.chunks: ofChunk + ` AND c.revision = ?3 WHERE d.namespace = ?1 AND d.id = ?2 AND c.idx >= ?4 ORDER BY c.idx LIMIT ?5 + 0`,
		&r.without: ofChunk + ` AND c.revision = ?4 WHERE d.namespace = ?1 AND d.id = ?3` + without + `
			ORDER BY c.idx LIMIT ?5 + 0`,
		&r.visible: ofChunk + ` AND c.revision = d.indexed WHERE d.namespace = ?1` + without + `
			ORDER BY d.collection, d.source, c.idx LIMIT ?3 + 0`,
		&r.counts: `SELECT count(*), coalesce(sum(chunks), 0) FROM knowledge_documents WHERE namespace = ? AND indexed > 0`,
		&r.embedders: `SELECT e.name, e.dimension, counted.n FROM knowledge_embedders e JOIN (
				SELECT v.id >> 40 AS embedder, count(*) AS n FROM knowledge_documents d
				CROSS JOIN knowledge_vectors v ON v.document = d.key AND v.revision = d.indexed WHERE d.namespace = ?1 GROUP BY 1
			) counted ON counted.embedder = e.id ORDER BY e.name`,
		&r.namespaces: `SELECT DISTINCT namespace FROM knowledge_documents WHERE chunks > 0 ORDER BY namespace`,
		&r.collections: `SELECT DISTINCT collection FROM knowledge_documents WHERE namespace = ?1
			ORDER BY collection LIMIT ?2 + 0`,
		&r.text:     `SELECT id FROM knowledge_texts WHERE namespace = ?`,
		&r.embedder: `SELECT id FROM knowledge_embedders WHERE namespace = ? AND name = ? AND dimension = ?`,
		&r.nearest:  nearest(`knowledge_vectors v CROSS JOIN knowledge_documents d`, ``),
		&r.nearestIn: nearest(`knowledge_documents d CROSS JOIN knowledge_vectors v`,
			` AND d.namespace = ?4 AND d.collection IN (SELECT value FROM json_each(?5))`),
	}
}

func (w *knowledgeWrites) queries() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&w.document: selectKnowledge,
		&w.deleted:  `SELECT revision FROM knowledge_deleted WHERE namespace = ? AND id = ?`,
		&w.create: `INSERT INTO knowledge_documents (` + knowledgeColumns + `, namespace)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`,
		&w.save:   `UPDATE knowledge_documents SET (` + knowledgeColumns + `) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE key = ?`,
		&w.remove: `DELETE FROM knowledge_documents WHERE key = ?`,
		&w.bury:   `INSERT INTO knowledge_deleted (namespace, id, revision) VALUES (?, ?, ?)`,
		&w.exhume: `DELETE FROM knowledge_deleted WHERE namespace = ? AND id = ?`,

		&w.addContent: `INSERT INTO knowledge_contents (document, revision, name, media_type, bytes) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`,
		&w.removeContents: `DELETE FROM knowledge_contents WHERE document = ? AND revision <> ?`,

		&w.addChunk: `INSERT INTO knowledge_chunks (document, revision, idx, overlap, page, tokens, path, context, text)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id`,
		&w.addContext: `UPDATE knowledge_chunks SET context = ?4 WHERE document = ?1 AND revision = ?2 AND idx = ?3 AND context = ''
			RETURNING id, text, path`,
		&w.countChunks:  `SELECT count(*) FROM knowledge_chunks WHERE document = ? AND revision = ?`,
		&w.removeChunks: `DELETE FROM knowledge_chunks WHERE document = ? AND revision <> ?`,

		&w.text:    `SELECT id FROM knowledge_texts WHERE namespace = ?`,
		&w.addText: `INSERT INTO knowledge_texts (namespace) VALUES (?) RETURNING id`,
		&w.anyChunk: `SELECT EXISTS (SELECT 1 FROM knowledge_documents d JOIN knowledge_chunks c ON c.document = d.key
			WHERE d.namespace = ?)`,
		&w.removeText: `DELETE FROM knowledge_texts WHERE id = ?`,

		&w.embedder:       `SELECT id, dimension FROM knowledge_embedders WHERE namespace = ? AND name = ?`,
		&w.addEmbedder:    `INSERT INTO knowledge_embedders (namespace, name, dimension) VALUES (?, ?, ?) RETURNING id`,
		&w.removeEmbedder: `DELETE FROM knowledge_embedders WHERE id = ?`,
		&w.removeEmbedders: `DELETE FROM knowledge_embedders WHERE namespace = ? AND NOT EXISTS (SELECT 1 FROM knowledge_vectors v
			WHERE v.id BETWEEN knowledge_embedders.id << 40 AND (knowledge_embedders.id + 1 << 40) - 1)`,
		&w.chunk: `SELECT d.key, c.id FROM knowledge_documents d CROSS JOIN knowledge_chunks c ON c.document = d.key
			WHERE d.namespace = ? AND d.id = ? AND c.revision = ? AND c.idx = ?`,
		&w.addVector:     `INSERT INTO knowledge_vectors (id, document, revision, vector) VALUES ((? << 40) + ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		&w.removeVectors: `DELETE FROM knowledge_vectors WHERE document = ? AND revision <> ?`,
		&w.dropVectors:   `DELETE FROM knowledge_vectors WHERE id BETWEEN ?1 << 40 AND (?1 + 1 << 40) - 1`,
	}
}

// BeginKnowledge implements [store.Knowledge].
func (s *Store) BeginKnowledge(ctx context.Context, namespace string, given store.KnowledgeDocument, begin store.KnowledgeBegin) (store.KnowledgeDocument, error) {
	d, err := store.NormalizeKnowledge(namespace, given, begin)
	if err == nil {
		err = s.learning(ctx, namespace, func(l *learning) error {
			d, err = l.begin(ctx, d, begin)
			return err
		})
	}
	if err != nil {
		return store.KnowledgeDocument{}, knowledgeError("beginning", namespace, given.Source, err)
	}
	return d, nil
}

// PutKnowledgeContent implements [store.Knowledge].
func (s *Store) PutKnowledgeContent(ctx context.Context, namespace string, r store.KnowledgeRevision, digest string, c store.KnowledgeContent) error {
	err := store.CheckPut(digest, c)
	if err == nil {
		err = s.learning(ctx, namespace, func(l *learning) error {
			d, processed, err := l.processed(ctx, r)
			if err != nil || !processed {
				return err
			}
			added, err := l.addContent(ctx, r.Number, c)
			if err != nil || !added {
				return err
			}
			d.Digest = digest
			return l.save(ctx, d)
		})
	}
	return knowledgeError("storing the content of", namespace, r.Document, err)
}

// AddChunks implements [store.Knowledge].
func (s *Store) AddChunks(ctx context.Context, namespace string, r store.KnowledgeRevision, chunks []store.KnowledgeChunk) error {
	chunks, err := store.NormalizeChunks(r, chunks)
	if err == nil {
		err = s.learning(ctx, namespace, func(l *learning) error {
			d, processed, err := l.processed(ctx, r)
			if err != nil || !processed || len(chunks) == 0 {
				return err
			}
			return l.addChunks(ctx, d.Collection, chunks)
		})
	}
	return knowledgeError("adding chunks of", namespace, r.Document, err)
}

// AddContexts implements [store.Knowledge].
func (s *Store) AddContexts(ctx context.Context, namespace string, r store.KnowledgeRevision, contexts []store.KnowledgeContext) error {
	contexts, err := store.NormalizeContexts(contexts)
	if err == nil {
		err = s.learning(ctx, namespace, func(l *learning) error {
			d, processed, err := l.processed(ctx, r)
			if err != nil || !processed || len(contexts) == 0 {
				return err
			}
			return l.addContexts(ctx, d, contexts)
		})
	}
	return knowledgeError("adding contexts to chunks of", namespace, r.Document, err)
}

// FinishKnowledge implements [store.Knowledge].
func (s *Store) FinishKnowledge(ctx context.Context, namespace string, r store.KnowledgeRevision, finish store.KnowledgeFinish) (store.KnowledgeDocument, error) {
	var d store.KnowledgeDocument
	err := s.learning(ctx, namespace, func(l *learning) (err error) {
		d, err = l.finish(ctx, r, store.NormalizeFinish(finish))
		return err
	})
	if err != nil {
		return store.KnowledgeDocument{}, knowledgeError("finishing", namespace, r.Document, err)
	}
	return d, nil
}

// DeleteKnowledge implements [store.Knowledge].
func (s *Store) DeleteKnowledge(ctx context.Context, namespace, id string) error {
	err := s.learning(ctx, namespace, func(l *learning) error { return l.remove(ctx, id) })
	return knowledgeError("deleting", namespace, id, err)
}

// KnowledgeDocument implements [store.Knowledge].
func (s *Store) KnowledgeDocument(ctx context.Context, namespace, id string) (store.KnowledgeDocument, error) {
	found, err := scanKnowledge(s.readKnowledge.document.QueryRowContext(ctx, namespace, id))
	if err != nil {
		return store.KnowledgeDocument{}, knowledgeError("reading", namespace, id, notFound(err))
	}
	return found.KnowledgeDocument, nil
}

// KnowledgeDocuments implements [store.Knowledge].
func (s *Store) KnowledgeDocuments(ctx context.Context, namespace string, page store.KnowledgePage) ([]store.KnowledgeDocument, error) {
	pattern := ""
	switch {
	case !store.Storable(page.Search):
		return nil, nil
	case page.Search != "":
		pattern = store.Pattern(page.Search)
	}
	found, err := collect(ctx, s.readKnowledge.documents, func(row scanner) (store.KnowledgeDocument, error) {
		d, err := scanKnowledge(row)
		return d.KnowledgeDocument, err
	}, namespace, page.AfterCollection, page.AfterSource, page.Collection, string(page.Status), pattern, store.KnowledgePageLimit(page.Limit))
	if err != nil {
		return nil, knowledgeError("reading", namespace, "*", err)
	}
	return found, nil
}

// KnowledgeContent implements [store.Knowledge].
func (s *Store) KnowledgeContent(ctx context.Context, namespace string, r store.KnowledgeRevision) (store.KnowledgeContent, error) {
	var c store.KnowledgeContent
	err := s.readKnowledge.content.QueryRowContext(ctx, namespace, r.Document, r.Number).Scan(&c.Name, &c.MediaType, &c.Bytes)
	if err != nil {
		return store.KnowledgeContent{}, knowledgeError("reading the content of", namespace, r.Document, notFound(err))
	}
	return c, nil
}

// KnowledgeNamespaces implements [store.Knowledge].
func (s *Store) KnowledgeNamespaces(ctx context.Context) ([]string, error) {
	found, err := collect(ctx, s.readKnowledge.namespaces, scanText)
	if err != nil {
		return nil, knowledgeError("reading", "*", "*", err)
	}
	return found, nil
}

// KnowledgeCollections implements [store.Knowledge].
func (s *Store) KnowledgeCollections(ctx context.Context, namespace string) ([]string, error) {
	found, err := collect(ctx, s.readKnowledge.collections, scanText, namespace, store.MaxKnowledgeCollections)
	if err != nil {
		return nil, knowledgeError("reading the collections of", namespace, "*", err)
	}
	return found, nil
}

// knowledgeRow is a document with its key.
type knowledgeRow struct {
	store.KnowledgeDocument
	key int64
}

// learning is one transaction that changes what a namespace knows.
type learning struct {
	writing
	*knowledgeWrites
	namespace string

	// key is that of the document.
	key int64
}

func (s *Store) learning(ctx context.Context, namespace string, run func(*learning) error) error {
	return s.writing(ctx, func(w writing) error {
		return run(&learning{writing: w, knowledgeWrites: &s.writeKnowledge, namespace: namespace})
	})
}

// writing is one transaction that changes the store.
type writing struct{ *sql.Tx }

func (s *Store) writing(ctx context.Context, run func(writing) error) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := run(writing{tx}); err != nil {
		return errors.Join(err, rollback(tx))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (w writing) row(ctx context.Context, stmt *sql.Stmt, args ...any) *sql.Row {
	return w.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
}

// exec returns how many rows a statement has changed.
func (w writing) exec(ctx context.Context, stmt *sql.Stmt, args ...any) (int64, error) {
	result, err := w.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// document reads a document and sets the key.
func (l *learning) document(ctx context.Context, id string) (store.KnowledgeDocument, error) {
	found, err := scanKnowledge(l.row(ctx, l.knowledgeWrites.document, l.namespace, id))
	l.key = found.key
	return found.KnowledgeDocument, err
}

func (l *learning) begin(ctx context.Context, d store.KnowledgeDocument, begin store.KnowledgeBegin) (store.KnowledgeDocument, error) {
	before, err := l.document(ctx, d.ID)
	missing := errors.Is(err, sql.ErrNoRows)
	if missing {
		err = l.row(ctx, l.deleted, l.namespace, d.ID).Scan(&before.Revision)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return d, err
	}
	next, begins := store.NextKnowledge(d, begin, before, time.Now())
	if !begins {
		return next, nil
	}
	if missing {
		err = l.add(ctx, next)
	} else {
		err = l.replace(ctx, next)
	}
	if err == nil && begin.Content != nil {
		_, err = l.addContent(ctx, next.Revision, *begin.Content)
	}
	return next, err
}

// add adds a document that does not exist.
func (l *learning) add(ctx context.Context, d store.KnowledgeDocument) error {
	if _, err := l.exec(ctx, l.exhume, l.namespace, d.ID); err != nil {
		return err
	}
	return l.row(ctx, l.create, append(knowledgeValues(d), l.namespace)...).Scan(&l.key)
}

// replace saves a document with a new revision, which supersedes one that is not indexed.
func (l *learning) replace(ctx context.Context, d store.KnowledgeDocument) error {
	if err := l.keepOnly(ctx, d.Indexed); err != nil {
		return err
	}
	return l.save(ctx, d)
}

func (l *learning) save(ctx context.Context, d store.KnowledgeDocument) error {
	_, err := l.exec(ctx, l.knowledgeWrites.save, append(knowledgeValues(d), l.key)...)
	return err
}

// newest reads the document of a revision that must be its newest.
func (l *learning) newest(ctx context.Context, r store.KnowledgeRevision) (store.KnowledgeDocument, error) {
	d, err := l.document(ctx, r.Document)
	if errors.Is(err, sql.ErrNoRows) || err == nil && d.Revision != r.Number {
		err = store.ErrSuperseded
	}
	return d, err
}

// processed is newest, and reports whether the revision is not finished yet.
func (l *learning) processed(ctx context.Context, r store.KnowledgeRevision) (store.KnowledgeDocument, bool, error) {
	d, err := l.newest(ctx, r)
	return d, d.Status == store.KnowledgeProcessing, err
}

func (l *learning) addContent(ctx context.Context, revision int, c store.KnowledgeContent) (bool, error) {
	if c.Bytes == nil {
		c.Bytes = []byte{}
	}
	added, err := l.exec(ctx, l.knowledgeWrites.addContent, l.key, revision, c.Name, c.MediaType, c.Bytes)
	return added > 0, err
}

func (l *learning) addChunks(ctx context.Context, collection string, chunks []store.KnowledgeChunk) error {
	text, err := l.openText(ctx)
	if err != nil {
		return err
	}
	addText, err := l.PrepareContext(ctx, text.insert())
	if err != nil {
		return err
	}
	defer addText.Close()
	for _, c := range chunks {
		path, err := json.Marshal(c.Path)
		if err != nil {
			return err
		}
		var id int64
		err = l.row(ctx, l.addChunk, l.key, c.Revision, c.Index, c.Overlap, c.Page, c.Tokens, string(path), c.Context, c.Text).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err == nil {
			_, err = addText.ExecContext(ctx, id, collectionToken(collection), store.TextWords(c.Text), store.TextWords(strings.Join(c.Path, "\n")), store.TextWords(c.Context))
		}
		if err != nil {
			return fmt.Errorf("chunk %d: %w", c.Index, err)
		}
	}
	return nil
}

func (l *learning) addContexts(ctx context.Context, d store.KnowledgeDocument, contexts []store.KnowledgeContext) error {
	text, err := l.openText(ctx)
	if err != nil {
		return err
	}
	replaceText, err := l.PrepareContext(ctx, text.replace())
	if err != nil {
		return err
	}
	defer replaceText.Close()
	for _, c := range contexts {
		var (
			id         int64
			words      string
			raw        []byte
			path       []string
			collection = collectionToken(d.Collection)
		)
		err := l.row(ctx, l.addContext, l.key, d.Revision, c.Index, c.Context).Scan(&id, &words, &raw)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(raw, &path)
		}
		if err == nil {
			_, err = replaceText.ExecContext(ctx, id, collection, store.TextWords(words), store.TextWords(strings.Join(path, "\n")), store.TextWords(c.Context))
		}
		if err != nil {
			return fmt.Errorf("chunk %d: %w", c.Index, err)
		}
	}
	return nil
}

func (l *learning) finish(ctx context.Context, r store.KnowledgeRevision, f store.KnowledgeFinish) (store.KnowledgeDocument, error) {
	d, processed, err := l.processed(ctx, r)
	if err != nil || !processed {
		return d, err
	}
	var chunks int
	if err := l.row(ctx, l.countChunks, l.key, r.Number).Scan(&chunks); err != nil {
		return d, err
	}
	d = d.Finished(f, chunks, time.Now())
	if err := l.save(ctx, d); err != nil {
		return d, err
	}
	if d.Status == store.KnowledgeFailed {
		return d, l.keepChunks(ctx, d.Indexed)
	}
	return d, l.keepOnly(ctx, d.Indexed)
}

func (l *learning) remove(ctx context.Context, id string) error {
	d, err := l.document(ctx, id)
	if err != nil {
		return notFound(err)
	}
	if err := l.keepOnly(ctx, 0); err != nil {
		return err
	}
	if _, err := l.exec(ctx, l.knowledgeWrites.remove, l.key); err != nil {
		return err
	}
	_, err = l.exec(ctx, l.bury, l.namespace, id, d.Revision)
	return err
}

// keepOnly deletes the content, the chunks and the vectors of all revisions of the document but one.
func (l *learning) keepOnly(ctx context.Context, revision int) error {
	if _, err := l.exec(ctx, l.removeContents, l.key, revision); err != nil {
		return err
	}
	return l.keepChunks(ctx, revision)
}

// keepChunks deletes the chunks and the vectors of all revisions of the document but one. What no chunk needs any more goes
// with them.
func (l *learning) keepChunks(ctx context.Context, revision int) error {
	text, err := l.text(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // the namespace has no chunks
	}
	if err != nil {
		return err
	}
	if _, err := l.ExecContext(ctx, text.remove(), l.key, revision); err != nil {
		return err
	}
	if _, err := l.exec(ctx, l.removeVectors, l.key, revision); err != nil {
		return err
	}
	if _, err := l.exec(ctx, l.removeEmbedders, l.namespace); err != nil {
		return err
	}
	if removed, err := l.exec(ctx, l.removeChunks, l.key, revision); err != nil || removed == 0 {
		return err
	}
	return l.closeText(ctx, text)
}

func knowledgeError(doing, namespace, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %s document %q of %q: %w", doing, name, namespace, classify(err))
}

// knowledgeValues are the values of knowledgeColumns.
func knowledgeValues(d store.KnowledgeDocument) []any {
	var metadata any
	if len(d.Metadata) > 0 {
		metadata = string(d.Metadata)
	}
	return []any{
		d.ID, d.Collection, d.Source, d.Title, metadata, string(d.Status), d.Error, d.Revision, d.Indexed, d.Digest, d.IndexedDigest,
		d.Format, d.Bytes, d.Chunks, d.ThreadID, d.By, d.CreatedAt.UnixMicro(), d.UpdatedAt.UnixMicro(),
		d.IndexedThreadID, d.TitleThreadID, d.MetadataThreadID,
	}
}

func scanKnowledge(row scanner) (knowledgeRow, error) {
	var (
		d                store.KnowledgeDocument
		key              int64
		created, updated int64
	)
	err := row.Scan(&d.ID, &d.Collection, &d.Source, &d.Title, (*[]byte)(&d.Metadata), &d.Status, &d.Error, &d.Revision, &d.Indexed,
		&d.Digest, &d.IndexedDigest, &d.Format, &d.Bytes, &d.Chunks, &d.ThreadID, &d.By, &created, &updated,
		&d.IndexedThreadID, &d.TitleThreadID, &d.MetadataThreadID, &key)
	if err != nil {
		return knowledgeRow{}, err
	}
	d.CreatedAt, d.UpdatedAt = moment(created), moment(updated)
	return knowledgeRow{d, key}, nil
}

func scanText(row scanner) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}
