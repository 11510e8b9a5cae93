package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/threadmill/threadmill/store"
)

const (
	knowledgeColumns = `id, coalesce(collection, ''), source, title, metadata, status, error, revision, indexed, digest, indexed_digest,
		format, bytes, chunks, thread_id, REQUESTED, created_at, updated_at, indexed_thread_id, title_thread_id, metadata_thread_id`
	oneOfKnowledge = ` FROM knowledge_documents WHERE namespace = $1 AND id = $2`

	// What was deleted has no collection, in PostgreSQL. SQLite keeps its revision in a table of its own.
	existingKnowledge = `SELECT ` + knowledgeColumns + ` FROM knowledge_documents WHERE namespace = $1 AND collection IS NOT NULL`
)

var (
	// requested is the column of who asked for a revision.
	requested = word{"REQUESTED", "changed_by", "requested_by"}

	// ofDocument selects what belongs to the document $2.
	ofDocument = word{"OF_DOCUMENT", "document = (SELECT key" + oneOfKnowledge + ")", "namespace = $1 AND document = $2"}

	oneKnowledge  = variants(existingKnowledge+` AND id = $2`, requested)
	lockKnowledge = variants(existingKnowledge+` AND id = $2LOCK`, requested, word{"LOCK", "", " FOR UPDATE"})

	// shareKnowledge lets other steps of a revision go on, but not its end.
	shareKnowledge = variants(existingKnowledge+` AND id = $2LOCK`, requested, word{"LOCK", "", " FOR SHARE"})

	// reserveKnowledge makes a row to lock, even if the document is new or was deleted, and lockReserved reads it.
	reserveKnowledge = &Query{Postgres: `INSERT INTO knowledge_documents (namespace, id) VALUES ($1, $2) ON CONFLICT DO NOTHING`}
	lockReserved     = variants(`SELECT `+knowledgeColumns+oneOfKnowledge+`REST`, requested, word{
		"REST", ` UNION ALL SELECT id, '', '', '', NULL, '', '', revision, 0, '', '', '', 0, 0, '', '', NULL, NULL, '', '', ''
			FROM knowledge_deleted WHERE namespace = $1 AND id = $2`, ` FOR UPDATE`,
	})

	saveKnowledge = []*Query{
		{SQLite: `DELETE FROM knowledge_deleted WHERE namespace = $1 AND id = $2`},
		variants(`INSERT INTO knowledge_documents (namespace, id, collection, source, title, metadata, status, error, revision, indexed, digest, indexed_digest,
				format, bytes, chunks, thread_id, REQUESTED, created_at, updated_at, indexed_thread_id, title_thread_id, metadata_thread_id)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
			ON CONFLICT (namespace, id) DO UPDATE SET collection = excluded.collection, source = excluded.source, title = excluded.title,
				metadata = excluded.metadata, status = excluded.status, error = excluded.error, revision = excluded.revision, indexed = excluded.indexed,
				digest = excluded.digest, indexed_digest = excluded.indexed_digest, format = excluded.format, bytes = excluded.bytes,
				chunks = excluded.chunks, thread_id = excluded.thread_id, REQUESTED = excluded.REQUESTED, created_at = excluded.created_at,
				updated_at = excluded.updated_at, indexed_thread_id = excluded.indexed_thread_id, title_thread_id = excluded.title_thread_id,
				metadata_thread_id = excluded.metadata_thread_id`, requested),
	}
	deleteKnowledge = []*Query{
		{SQLite: `INSERT INTO knowledge_deleted (namespace, id, revision) SELECT namespace, id, revision` + oneOfKnowledge},
		{
			SQLite: `DELETE` + oneOfKnowledge,
			Postgres: `UPDATE knowledge_documents SET collection = NULL, source = '', title = '', metadata = NULL, status = '', error = '',
				indexed = 0, digest = '', indexed_digest = '', format = '', bytes = 0, chunks = 0, thread_id = '', requested_by = '',
				indexed_thread_id = '', title_thread_id = '', metadata_thread_id = ''
				WHERE namespace = $1 AND id = $2`,
		},
	}

	// eraseFromKnowledge leaves the thread to a statement of its own, since a trigger refuses the threads that are erased.
	eraseFromKnowledge = variants(`UPDATE knowledge_documents SET title = $3, metadata = $4, status = $5, error = $6, revision = $7, indexed = $8,
			digest = $9, indexed_digest = $10, format = $11, bytes = $12, chunks = $13, REQUESTED = $14, updated_at = $15,
			indexed_thread_id = $16, title_thread_id = $17, metadata_thread_id = $18
		WHERE namespace = $1 AND id = $2`, requested)
	setKnowledgeThread = both(`UPDATE knowledge_documents SET thread_id = $3 WHERE namespace = $1 AND id = $2`)

	addContent = &Query{
		SQLite: `INSERT INTO knowledge_contents (document, revision, name, media_type, bytes)
			SELECT key, $3, $4, $5, $6` + oneOfKnowledge + ` ON CONFLICT DO NOTHING`,
		Postgres: `INSERT INTO knowledge_contents (namespace, document, revision, name, media_type, bytes) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT DO NOTHING`,
	}
	setDigest    = both(`UPDATE knowledge_documents SET digest = $3 WHERE namespace = $1 AND id = $2`)
	oneContent   = variants(`SELECT name, media_type, bytes FROM knowledge_contents WHERE OF_DOCUMENT AND revision = $3`, ofDocument)
	dropContents = variants(`DELETE FROM knowledge_contents WHERE OF_DOCUMENT AND revision <> $3`, ofDocument)
	dropChunks   = variants(`DELETE FROM knowledge_chunks WHERE OF_DOCUMENT AND revision <> $3`, ofDocument)

	knowledgePage = variants(existingKnowledge+` AND (collection, source) > ($2, $3)`, requested)
	inCollection  = both(` AND collection = $1`)
	ofStatus      = both(` AND status = $1`)
	containing    = &Query{SQLite: ` AND (source LIKE $1 ESCAPE '\' OR title LIKE $1 ESCAPE '\')`, Postgres: ` AND (source ILIKE $1 OR title ILIKE $1)`}
	bySource      = both(` ORDER BY collection, source LIMIT $1 + 0`)

	visibleKnowledge    = both(`SELECT count(*), CAST(coalesce(sum(chunks), 0) AS bigint) FROM knowledge_documents WHERE namespace = $1 AND indexed > 0`)
	knowledgeNamespaces = &Query{
		SQLite:   `SELECT DISTINCT namespace FROM knowledge_documents WHERE chunks > 0 ORDER BY namespace`,
		Postgres: `SELECT namespace FROM knowledge_indexes WHERE chunks > 0 ORDER BY namespace`,
	}
	knowledgeCollections = both(`SELECT DISTINCT collection FROM knowledge_documents WHERE namespace = $1 AND collection IS NOT NULL
		ORDER BY collection LIMIT $2 + 0`)

	chunksFrom = &Query{
		SQLite:   chunksOfSQLite + ` AND c.revision = $3 WHERE d.namespace = $1 AND d.id = $2`,
		Postgres: `SELECT ` + ChunkColumnsOfPostgres + ` FROM knowledge_chunks c WHERE c.namespace = $1 AND c.document = $2 AND c.revision = $3`,
	}
	fromIndex     = variants(` AND c.INDEX >= $1`, chunkIndex)
	byIndex       = variants(` ORDER BY c.INDEX LIMIT $1 + 0`, chunkIndex)
	visibleChunks = &Query{
		SQLite: chunksOfSQLite + ` AND c.revision = d.indexed WHERE d.namespace = $1`,
		Postgres: `SELECT ` + ChunkColumnsOfPostgres + ` FROM knowledge_documents d JOIN knowledge_chunks c
			ON c.namespace = d.namespace AND c.document = d.id AND c.revision = d.indexed WHERE d.namespace = $1`,
	}
	byDocument     = &Query{SQLite: ` ORDER BY d.collection, d.source, c.idx LIMIT $1 + 0`, Postgres: ` ORDER BY c.document, c.index LIMIT $1`}
	withoutVectors = &Query{
		SQLite: ` AND NOT EXISTS (SELECT 1 FROM knowledge_embedders e JOIN knowledge_vectors v ON v.id = (e.id << 40) + c.id
			WHERE e.namespace = d.namespace AND e.name = $1)`,
		Postgres: ` AND NOT EXISTS (SELECT FROM knowledge_vectors v WHERE v.chunk = c.id AND v.embedder = $1)`,
	}
	embedders = &Query{
		SQLite: `SELECT e.name, e.dimension, counted.n FROM knowledge_embedders e JOIN (
				SELECT v.id >> 40 AS embedder, count(*) AS n FROM knowledge_documents d
				CROSS JOIN knowledge_vectors v ON v.document = d.key AND v.revision = d.indexed WHERE d.namespace = $1 GROUP BY 1
			) counted ON counted.embedder = e.id ORDER BY e.name`,
		Postgres: `SELECT embedder, max(dimension), count(*) FROM knowledge_vectors WHERE namespace = $1 AND visible GROUP BY embedder ORDER BY embedder`,
	}
)

var chunkIndex = word{"INDEX", "idx", "index"}

// ChunkColumns are the columns of a chunk c, in SQLite of a document d, that [ChunkFields] reads.
const (
	ChunkColumnsOfSQLite   = `d.id, c.revision, c.idx, c.text, c.overlap, c.path, c.page, c.tokens, c.context`
	ChunkColumnsOfPostgres = `c.document, c.revision, c.index, c.text, c.overlap, c.path, c.page, c.tokens, c.context`
)

const chunksOfSQLite = `SELECT ` + ChunkColumnsOfSQLite + ` FROM knowledge_documents d CROSS JOIN knowledge_chunks c ON c.document = d.key`

// noRevision is the number of no revision.
const noRevision = -1

// BeginKnowledge implements [store.Knowledge].
func (s *Store) BeginKnowledge(ctx context.Context, namespace string, given store.KnowledgeDocument, begin store.KnowledgeBegin) (store.KnowledgeDocument, error) {
	return call(ctx, s, "begin_knowledge", func(ctx context.Context) (begun store.KnowledgeDocument, err error) {
		d, err := normalizeKnowledge(namespace, given, begin)
		if err != nil {
			return d, err
		}
		err = s.learning(ctx, namespace, d.ID, func(l learning) error {
			begun, err = l.begin(ctx, d, begin)
			return err
		})
		return begun, err
	}, "beginning document %q of %q", given.Source, namespace)
}

// PutKnowledgeContent implements [store.Knowledge].
func (s *Store) PutKnowledgeContent(ctx context.Context, namespace string, r store.KnowledgeRevision, digest string, c store.KnowledgeContent) error {
	return s.do(ctx, "put_knowledge_content", func(ctx context.Context) error {
		if err := checkPut(digest, c); err != nil {
			return err
		}
		return s.learning(ctx, namespace, r.Document, func(l learning) error {
			d, err := l.newest(ctx, lockKnowledge, r)
			if err != nil || d.Status != store.KnowledgeProcessing {
				return err
			}
			added, err := l.addContent(ctx, r.Number, c)
			if err != nil || !added {
				return err
			}
			return l.run(ctx, setDigest, digest)
		})
	}, "storing the content of %s", revision{namespace, r})
}

// KnowledgeContent implements [store.Knowledge].
func (s *Store) KnowledgeContent(ctx context.Context, namespace string, r store.KnowledgeRevision) (store.KnowledgeContent, error) {
	return call(ctx, s, "knowledge_content", func(ctx context.Context) (store.KnowledgeContent, error) {
		return one(ctx, s, s.db.Reader, oneContent, func(_ *Store, row Row) (c store.KnowledgeContent, err error) {
			err = row.Scan(&c.Name, &c.MediaType, &c.Bytes)
			return c, err
		}, namespace, r.Document, r.Number)
	}, "reading the content of %s", revision{namespace, r})
}

// AddChunks implements [store.Knowledge].
func (s *Store) AddChunks(ctx context.Context, namespace string, r store.KnowledgeRevision, chunks []store.KnowledgeChunk) error {
	return s.do(ctx, "add_chunks", func(ctx context.Context) error {
		chunks, err := normalizeChunks(r, chunks)
		if err != nil {
			return err
		}
		return s.processing(ctx, namespace, r, len(chunks), func(l learning, d store.KnowledgeDocument) error {
			return s.db.Knowledge.AddChunks(ctx, l.Querier, namespace, d, chunks)
		})
	}, "adding chunks of %s", revision{namespace, r})
}

// AddContexts implements [store.Knowledge].
func (s *Store) AddContexts(ctx context.Context, namespace string, r store.KnowledgeRevision, contexts []store.KnowledgeContext) error {
	return s.do(ctx, "add_contexts", func(ctx context.Context) error {
		contexts, err := normalizeContexts(contexts)
		if err != nil {
			return err
		}
		return s.processing(ctx, namespace, r, len(contexts), func(l learning, d store.KnowledgeDocument) error {
			return s.db.Knowledge.AddContexts(ctx, l.Querier, namespace, d, contexts)
		})
	}, "adding contexts to chunks of %s", revision{namespace, r})
}

// processing changes a revision to which so many things are added, unless it is finished.
func (s *Store) processing(ctx context.Context, namespace string, r store.KnowledgeRevision, things int, change func(learning, store.KnowledgeDocument) error) error {
	return s.learning(ctx, namespace, r.Document, func(l learning) error {
		d, err := l.newest(ctx, shareKnowledge, r)
		if err != nil || d.Status != store.KnowledgeProcessing || things == 0 {
			return err
		}
		return change(l, d)
	})
}

// FinishKnowledge implements [store.Knowledge].
func (s *Store) FinishKnowledge(ctx context.Context, namespace string, r store.KnowledgeRevision, finish store.KnowledgeFinish) (store.KnowledgeDocument, error) {
	return call(ctx, s, "finish_knowledge", func(ctx context.Context) (d store.KnowledgeDocument, err error) {
		err = s.learning(ctx, namespace, r.Document, func(l learning) error {
			d, err = l.finish(ctx, r, normalizeFinish(finish))
			return err
		})
		return d, err
	}, "finishing %s", revision{namespace, r})
}

// DeleteKnowledge implements [store.Knowledge].
func (s *Store) DeleteKnowledge(ctx context.Context, namespace, id string) error {
	return s.do(ctx, "delete_knowledge", func(ctx context.Context) error {
		return s.learning(ctx, namespace, id, func(l learning) error {
			if _, err := l.document(ctx, lockKnowledge); err != nil {
				return err
			}
			return l.remove(ctx)
		})
	}, "deleting document %q of %q", id, namespace)
}

// KnowledgeDocument implements [store.Knowledge].
func (s *Store) KnowledgeDocument(ctx context.Context, namespace, id string) (store.KnowledgeDocument, error) {
	return call(ctx, s, "knowledge_document", func(ctx context.Context) (store.KnowledgeDocument, error) {
		return one(ctx, s, s.db.Reader, oneKnowledge, (*Store).scanKnowledge, namespace, id)
	}, "document %q of %q", id, namespace)
}

// KnowledgeDocuments implements [store.Knowledge].
func (s *Store) KnowledgeDocuments(ctx context.Context, namespace string, page store.KnowledgePage) ([]store.KnowledgeDocument, error) {
	return call(ctx, s, "knowledge_documents", func(ctx context.Context) ([]store.KnowledgeDocument, error) {
		var q selection
		q.add(knowledgePage, namespace, page.AfterCollection, page.AfterSource)
		if page.Collection != "" {
			q.add(inCollection, page.Collection)
		}
		if page.Status != "" {
			q.add(ofStatus, string(page.Status))
		}
		if page.Search != "" {
			q.add(containing, pattern(page.Search))
		}
		q.add(bySource, knowledgePageLimit(page.Limit))
		return all(ctx, s, s.db.Reader, q.query(true), (*Store).scanKnowledge, q.args...)
	}, "documents of %q", namespace)
}

// Chunks implements [store.Knowledge].
func (s *Store) Chunks(ctx context.Context, namespace string, r store.KnowledgeRevision, from, limit int) ([]store.KnowledgeChunk, error) {
	return call(ctx, s, "chunks", func(ctx context.Context) ([]store.KnowledgeChunk, error) {
		var q selection
		q.add(chunksFrom, namespace, r.Document, r.Number)
		q.add(fromIndex, from)
		q.add(byIndex, chunkLimit(limit))
		return all(ctx, s, s.db.Reader, q.query(true), scanChunk, q.args...)
	}, "reading chunks of %s", revision{namespace, r})
}

// ChunksWithout implements [store.Knowledge].
func (s *Store) ChunksWithout(ctx context.Context, namespace string, r store.KnowledgeRevision, embedder string, limit int) ([]store.KnowledgeChunk, error) {
	return call(ctx, s, "chunks_without", func(ctx context.Context) ([]store.KnowledgeChunk, error) {
		var q selection
		order := byDocument
		if r == (store.KnowledgeRevision{}) {
			q.add(visibleChunks, namespace)
		} else {
			q.add(chunksFrom, namespace, r.Document, r.Number)
			order = byIndex
		}
		if s.db.Knowledge.HasVectors() && store.Storable(embedder) {
			q.add(withoutVectors, embedder)
		}
		q.add(order, chunkLimit(limit))
		return all(ctx, s, s.db.Reader, q.query(true), scanChunk, q.args...)
	}, "reading chunks without vectors of %s", revision{namespace, r})
}

// KnowledgeIndex implements [store.Knowledge].
func (s *Store) KnowledgeIndex(ctx context.Context, namespace string) (store.KnowledgeIndex, error) {
	return call(ctx, s, "knowledge_index", func(ctx context.Context) (store.KnowledgeIndex, error) {
		index := store.KnowledgeIndex{Embedders: []store.KnowledgeEmbedder{}}
		err := s.db.Snapshot(ctx, func(tx Querier) error {
			err := Each(ctx, tx, visibleKnowledge, func(row Row) error { return row.Scan(&index.Documents, &index.Chunks) }, namespace)
			if err != nil || !s.db.Knowledge.HasVectors() {
				return err
			}
			return Each(ctx, tx, embedders, func(row Row) error {
				var e store.KnowledgeEmbedder
				err := row.Scan(&e.Name, &e.Dimension, &e.Chunks)
				index.Embedders = append(index.Embedders, e)
				return err
			}, namespace)
		})
		return index, err
	}, "index of %q", namespace)
}

// KnowledgeNamespaces implements [store.Knowledge].
func (s *Store) KnowledgeNamespaces(ctx context.Context) ([]string, error) {
	return call(ctx, s, "knowledge_namespaces", func(ctx context.Context) ([]string, error) {
		return all(ctx, s, s.db.Reader, knowledgeNamespaces, scanned[string])
	}, "namespaces with documents")
}

// KnowledgeCollections implements [store.Knowledge].
func (s *Store) KnowledgeCollections(ctx context.Context, namespace string) ([]string, error) {
	return call(ctx, s, "knowledge_collections", func(ctx context.Context) ([]string, error) {
		return all(ctx, s, s.db.Reader, knowledgeCollections, scanned[string], namespace, store.MaxKnowledgeCollections)
	}, "collections of %q", namespace)
}

// HasVectors implements [store.Knowledge].
func (s *Store) HasVectors() bool { return s.db.Knowledge.HasVectors() }

// AddVectors implements [store.Knowledge].
func (s *Store) AddVectors(ctx context.Context, namespace, embedder string, vectors []store.KnowledgeVector) error {
	return s.do(ctx, "add_vectors", func(ctx context.Context) error {
		vectors, err := normalizeVectors(embedder, vectors)
		switch {
		case err != nil || len(vectors) == 0:
			return err
		case !s.HasVectors():
			return fmt.Errorf("%w: the database keeps no vectors", store.ErrInvalid)
		}
		return s.db.Transaction(ctx, "", func(tx Querier) error {
			return s.db.Knowledge.AddVectors(ctx, tx, namespace, embedder, vectors)
		})
	}, "adding vectors of %q to %q", embedder, namespace)
}

// DropVectors implements [store.Knowledge].
func (s *Store) DropVectors(ctx context.Context, namespace, embedder string) error {
	return s.do(ctx, "drop_vectors", func(ctx context.Context) error {
		if !s.HasVectors() {
			return ctx.Err()
		}
		return s.db.Transaction(ctx, "", func(tx Querier) error {
			return s.db.Knowledge.DropVectors(ctx, tx, namespace, embedder)
		})
	}, "deleting vectors of %q in %q", embedder, namespace)
}

// SearchText implements [store.Knowledge].
func (s *Store) SearchText(ctx context.Context, namespace, query string, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	return call(ctx, s, "search_text", func(ctx context.Context) (hits []store.KnowledgeHit, err error) {
		err = s.db.Snapshot(ctx, func(tx Querier) error {
			hits, err = s.db.Knowledge.SearchText(ctx, tx, namespace, query, in)
			return err
		})
		return hits, err
	}, "searching %q", namespace)
}

// SearchVectors implements [store.Knowledge]. It compares all vectors of the embedder in the collections, or all of their signs.
func (s *Store) SearchVectors(ctx context.Context, namespace, embedder string, vector []float32, in store.KnowledgeScope) ([]store.KnowledgeHit, error) {
	return call(ctx, s, "search_vectors", func(ctx context.Context) (hits []store.KnowledgeHit, err error) {
		unit, ok := unitVector(vector)
		if !ok || !s.HasVectors() || len(unit) > store.MaxKnowledgeDimension {
			return nil, ctx.Err()
		}
		err = s.db.Snapshot(ctx, func(tx Querier) error {
			hits, err = s.db.Knowledge.SearchVectors(ctx, tx, namespace, embedder, unit, in)
			return err
		})
		return hits, err
	}, "searching vectors of %q in %q", embedder, namespace)
}

// revision is a revision in errors.
type revision struct {
	namespace string
	store.KnowledgeRevision
}

// String implements [fmt.Stringer].
func (r revision) String() string {
	return fmt.Sprintf("revision %d of document %q of %q", r.Number, r.Document, r.namespace)
}

func (s *Store) scanKnowledge(row Row) (d store.KnowledgeDocument, err error) {
	err = row.Scan(&d.ID, &d.Collection, &d.Source, &d.Title, (*[]byte)(&d.Metadata), (*string)(&d.Status), &d.Error, &d.Revision, &d.Indexed,
		&d.Digest, &d.IndexedDigest, &d.Format, &d.Bytes, &d.Chunks, &d.ThreadID, &d.By, s.db.Time(&d.CreatedAt), s.db.Time(&d.UpdatedAt),
		&d.IndexedThreadID, &d.TitleThreadID, &d.MetadataThreadID)
	return d, err
}

// ChunkFields are where the columns of a chunk go.
func ChunkFields(c *store.KnowledgeChunk, path *[]byte) []any {
	return []any{&c.Document, &c.Revision, &c.Index, &c.Text, &c.Overlap, path, &c.Page, &c.Tokens, &c.Context}
}

func scanChunk(_ *Store, row Row) (c store.KnowledgeChunk, err error) {
	var path []byte
	if err = row.Scan(ChunkFields(&c, &path)...); err == nil {
		err = json.Unmarshal(path, &c.Path)
	}
	return c, err
}
