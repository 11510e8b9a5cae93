-- +goose Up
-- The threads that were erased. Nothing is stored for them again: not by a worker that comes late, and not by a program of
-- the previous version.
CREATE TABLE erased_threads (
    namespace text        NOT NULL COLLATE "C",
    id        text        NOT NULL COLLATE "C",
    erased_at timestamptz NOT NULL,
    parent_id text        NOT NULL DEFAULT '' COLLATE "C",
    PRIMARY KEY (namespace, id)
);

-- The triggers come after the row: an insertion that waited for the erasure sees it.
-- +goose StatementBegin
CREATE FUNCTION threadmill_refuse_erased() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    erased text;
BEGIN
    IF TG_TABLE_NAME = 'threads' THEN
        erased := NEW.id;
    ELSE
        erased := NEW.thread_id;
    END IF;
    IF EXISTS (SELECT FROM erased_threads e WHERE e.namespace = NEW.namespace AND e.id = erased) THEN
        RAISE EXCEPTION 'the thread was erased' USING ERRCODE = 'TM001';
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER refuse_erased AFTER INSERT ON threads FOR EACH ROW EXECUTE FUNCTION threadmill_refuse_erased();
CREATE TRIGGER refuse_erased AFTER INSERT ON tool_logs FOR EACH ROW EXECUTE FUNCTION threadmill_refuse_erased();
CREATE TRIGGER refuse_erased AFTER INSERT ON entity_extractions FOR EACH ROW WHEN (NEW.thread_id <> '')
    EXECUTE FUNCTION threadmill_refuse_erased();
CREATE TRIGGER refuse_erased AFTER INSERT OR UPDATE OF thread_id ON knowledge_documents FOR EACH ROW WHEN (NEW.thread_id <> '')
    EXECUTE FUNCTION threadmill_refuse_erased();

-- The thread for which one works, if it is that of a sub-agent. It comes from that thread, and never from a client. It
-- stays with what was erased, so that an erasure that was stopped half way finds the rest.
ALTER TABLE threads ADD COLUMN parent_id text NOT NULL DEFAULT '' COLLATE "C";
CREATE INDEX threads_by_parent ON threads (namespace, parent_id, id) WHERE parent_id <> '';
CREATE INDEX erased_threads_by_parent ON erased_threads (namespace, parent_id, id) WHERE parent_id <> '';
CREATE INDEX entity_extractions_by_thread ON entity_extractions (namespace, thread_id) WHERE NOT ended;

-- Two threads may have messages of the same id, each with its mention.
ALTER TABLE entity_mentions ALTER COLUMN thread_id TYPE text COLLATE "C";
ALTER TABLE entity_mentions DROP CONSTRAINT entity_mentions_pkey, ADD PRIMARY KEY (namespace, entity, source_type, source_id, thread_id);
DROP INDEX entity_mentions_by_time;
CREATE INDEX entity_mentions_by_time ON entity_mentions (namespace, entity, at DESC, source_type, source_id, thread_id);
CREATE INDEX entity_mentions_by_thread ON entity_mentions (namespace, thread_id, source_type, source_id, entity);

-- The threads that gave a document what is found of it: thread_id is that of its newest revision only.
ALTER TABLE knowledge_documents ADD COLUMN indexed_thread_id text NOT NULL DEFAULT '';
ALTER TABLE knowledge_documents ADD COLUMN title_thread_id text NOT NULL DEFAULT '';
ALTER TABLE knowledge_documents ADD COLUMN metadata_thread_id text NOT NULL DEFAULT '';
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
DROP INDEX entity_mentions_by_thread;
DROP INDEX entity_mentions_by_time;
DELETE FROM entity_mentions m USING entity_mentions o WHERE (o.namespace, o.entity, o.source_type, o.source_id)
    = (m.namespace, m.entity, m.source_type, m.source_id) AND o.thread_id < m.thread_id;
ALTER TABLE entity_mentions DROP CONSTRAINT entity_mentions_pkey, ADD PRIMARY KEY (namespace, entity, source_type, source_id);
CREATE INDEX entity_mentions_by_time ON entity_mentions (namespace, entity, at DESC, source_type, source_id);
DROP INDEX entity_extractions_by_thread;
DROP INDEX erased_threads_by_parent;
DROP INDEX threads_by_parent;
ALTER TABLE threads DROP COLUMN parent_id;
DROP TRIGGER refuse_erased ON knowledge_documents;
DROP TRIGGER refuse_erased ON entity_extractions;
DROP TRIGGER refuse_erased ON tool_logs;
DROP TRIGGER refuse_erased ON threads;
DROP FUNCTION threadmill_refuse_erased;
DROP TABLE erased_threads;
