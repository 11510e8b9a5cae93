-- +goose Up
-- The threads that were erased. Nothing is stored for them again: not by a worker that comes late, and not by a program of
-- the previous version.
CREATE TABLE erased_threads (
    namespace TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    erased_at INTEGER NOT NULL,
    parent_id TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER erased_threads_stay BEFORE INSERT ON threads
WHEN EXISTS (SELECT 1 FROM erased_threads e WHERE e.namespace = NEW.namespace AND e.id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the thread was erased'); END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER erased_threads_queue_nothing BEFORE INSERT ON entity_extractions
WHEN EXISTS (SELECT 1 FROM erased_threads e WHERE e.namespace = NEW.namespace AND e.id = NEW.thread_id)
BEGIN SELECT RAISE(ABORT, 'the thread was erased'); END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER erased_threads_teach_nothing BEFORE INSERT ON knowledge_documents
WHEN EXISTS (SELECT 1 FROM erased_threads e WHERE e.namespace = NEW.namespace AND e.id = NEW.thread_id)
BEGIN SELECT RAISE(ABORT, 'the thread was erased'); END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER erased_threads_change_nothing BEFORE UPDATE OF thread_id ON knowledge_documents
WHEN EXISTS (SELECT 1 FROM erased_threads e WHERE e.namespace = NEW.namespace AND e.id = NEW.thread_id)
BEGIN SELECT RAISE(ABORT, 'the thread was erased'); END;
-- +goose StatementEnd

-- The thread for which one works, if it is that of a sub-agent. It comes from that thread, and never from a client. It
-- stays with what was erased, so that an erasure that was stopped half way finds the rest.
ALTER TABLE threads ADD COLUMN parent_id TEXT NOT NULL DEFAULT '';
CREATE INDEX threads_by_parent ON threads (namespace, parent_id, id) WHERE parent_id <> '';
CREATE INDEX erased_threads_by_parent ON erased_threads (namespace, parent_id, id) WHERE parent_id <> '';
CREATE INDEX entity_extractions_by_thread ON entity_extractions (thread_id, namespace) WHERE ended = 0;

-- Two threads may have messages of the same id, each with its mention.
CREATE TABLE entity_mentions_of_threads (
    key         INTEGER PRIMARY KEY,
    namespace   TEXT    NOT NULL,
    entity      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    thread_id   TEXT    NOT NULL,
    source_type TEXT    NOT NULL,
    source_id   TEXT    NOT NULL,
    text        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    UNIQUE (namespace, entity, source_type, source_id, thread_id)
) STRICT;
INSERT INTO entity_mentions_of_threads SELECT * FROM entity_mentions;
DROP TABLE entity_mentions;
ALTER TABLE entity_mentions_of_threads RENAME TO entity_mentions;
CREATE INDEX entity_mentions_by_time ON entity_mentions (namespace, entity, at DESC, source_type, source_id, thread_id);
CREATE INDEX entity_mentions_by_thread ON entity_mentions (namespace, thread_id, source_type, source_id, entity);

-- The threads that gave a document what is found of it: thread_id is that of its newest revision only.
ALTER TABLE knowledge_documents ADD COLUMN indexed_thread_id TEXT NOT NULL DEFAULT '';
ALTER TABLE knowledge_documents ADD COLUMN title_thread_id TEXT NOT NULL DEFAULT '';
ALTER TABLE knowledge_documents ADD COLUMN metadata_thread_id TEXT NOT NULL DEFAULT '';
UPDATE knowledge_documents SET indexed_thread_id = CASE WHEN indexed > 0 THEN thread_id ELSE '' END, title_thread_id = thread_id,
    metadata_thread_id = thread_id;
CREATE INDEX knowledge_documents_by_indexed ON knowledge_documents (namespace, indexed_thread_id) WHERE indexed_thread_id <> '';
CREATE INDEX knowledge_documents_by_title ON knowledge_documents (namespace, title_thread_id) WHERE title_thread_id <> '';
CREATE INDEX knowledge_documents_by_metadata ON knowledge_documents (namespace, metadata_thread_id) WHERE metadata_thread_id <> '';
CREATE INDEX knowledge_documents_by_thread ON knowledge_documents (namespace, thread_id) WHERE thread_id <> '';

-- +goose Down
DROP INDEX knowledge_documents_by_indexed;
ALTER TABLE knowledge_documents DROP COLUMN indexed_thread_id;
DROP INDEX knowledge_documents_by_title;
ALTER TABLE knowledge_documents DROP COLUMN title_thread_id;
DROP INDEX knowledge_documents_by_metadata;
ALTER TABLE knowledge_documents DROP COLUMN metadata_thread_id;
DROP INDEX knowledge_documents_by_thread;
CREATE TABLE entity_mentions_of_sources (
    key         INTEGER PRIMARY KEY,
    namespace   TEXT    NOT NULL,
    entity      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    thread_id   TEXT    NOT NULL,
    source_type TEXT    NOT NULL,
    source_id   TEXT    NOT NULL,
    text        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    UNIQUE (namespace, entity, source_type, source_id)
) STRICT;
INSERT OR IGNORE INTO entity_mentions_of_sources SELECT * FROM entity_mentions;
DROP TABLE entity_mentions;
ALTER TABLE entity_mentions_of_sources RENAME TO entity_mentions;
CREATE INDEX entity_mentions_by_time ON entity_mentions (namespace, entity, at DESC, source_type, source_id);
DROP INDEX entity_extractions_by_thread;
DROP INDEX erased_threads_by_parent;
DROP INDEX threads_by_parent;
ALTER TABLE threads DROP COLUMN parent_id;
DROP TRIGGER erased_threads_change_nothing;
DROP TRIGGER erased_threads_teach_nothing;
DROP TRIGGER erased_threads_queue_nothing;
DROP TRIGGER erased_threads_stay;
DROP TABLE erased_threads;
