-- +goose Up
-- The texts in which entities are to be found. Of those that were ended, the ids stay, so that none is queued again.
CREATE TABLE entity_extractions (
    namespace   TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    ended       INTEGER NOT NULL,
    thread_id   TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,
    content     TEXT    NOT NULL,
    source_type TEXT    NOT NULL,
    source_id   TEXT    NOT NULL,
    queued_at   INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT;

CREATE INDEX entity_extractions_queued ON entity_extractions (namespace, queued_at, id) WHERE ended = 0;

-- merged_into is NULL of a root. root is the last entity to which that leads, or the entity itself. mentions and mentioned_at
-- are an entity's own; total counts those of a root and of all that was merged into it, and means nothing elsewhere.
-- descriptions is JSON, name_key the name without regard to case. vector has the length 1, as little-endian float32.
CREATE TABLE entities (
    namespace    TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    root         TEXT    NOT NULL,
    merged_into  TEXT,
    name         TEXT    NOT NULL,
    name_key     TEXT    NOT NULL,
    type         TEXT    NOT NULL,
    descriptions TEXT    NOT NULL,
    mentions     INTEGER NOT NULL,
    mentioned_at INTEGER,
    total        INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    embedder     TEXT    NOT NULL,
    vector       BLOB,
    PRIMARY KEY (namespace, id)
) STRICT;

CREATE INDEX entities_by_root ON entities (namespace, root, created_at, id);
CREATE INDEX entities_by_merge ON entities (namespace, merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX entities_by_name ON entities (namespace, name_key);
CREATE INDEX entities_by_embedder ON entities (namespace, type, embedder) WHERE vector IS NOT NULL;
CREATE INDEX entities_by_mentions ON entities (namespace, total DESC, id) WHERE merged_into IS NULL;
CREATE INDEX entities_by_type ON entities (namespace, type, total DESC, id) WHERE merged_into IS NULL;

CREATE TABLE entity_mentions (
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

CREATE INDEX entity_mentions_by_time ON entity_mentions (namespace, entity, at DESC, source_type, source_id);

CREATE TABLE entity_relations (
    namespace   TEXT    NOT NULL,
    from_entity TEXT    NOT NULL,
    to_entity   TEXT    NOT NULL,
    type        TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (namespace, from_entity, to_entity, type)
) STRICT;

CREATE INDEX entity_relations_to ON entity_relations (namespace, to_entity);

-- undone_at is NULL until the merge is undone.
CREATE TABLE entity_merges (
    namespace   TEXT NOT NULL,
    id          TEXT NOT NULL,
    from_entity TEXT NOT NULL,
    into_entity TEXT NOT NULL,
    similarity  REAL NOT NULL,
    decided_by  TEXT NOT NULL,
    at          INTEGER NOT NULL,
    undone_by   TEXT NOT NULL,
    undone_at   INTEGER,
    PRIMARY KEY (namespace, id)
) STRICT;

CREATE INDEX entity_merges_by_time ON entity_merges (namespace, at DESC, id);
CREATE INDEX entity_merges_from ON entity_merges (namespace, from_entity);
CREATE INDEX entity_merges_into ON entity_merges (namespace, into_entity);

-- +goose Down
DROP TABLE entity_merges;
DROP TABLE entity_relations;
DROP TABLE entity_mentions;
DROP TABLE entities;
DROP TABLE entity_extractions;
