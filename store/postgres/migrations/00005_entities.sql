-- +goose Up
-- The texts in which entities are to be found. Of those that were ended, the ids stay, so that none is queued again.
CREATE TABLE entity_extractions (
    namespace    text NOT NULL COLLATE "C",
    id           text NOT NULL COLLATE "C",
    ended        boolean NOT NULL,
    thread_id    text NOT NULL,
    event_id     text NOT NULL,
    content      text NOT NULL,
    source_type  text NOT NULL COLLATE "C",
    source_id    text NOT NULL COLLATE "C",
    queued_at    timestamptz NOT NULL,
    PRIMARY KEY (namespace, id)
);

CREATE INDEX entity_extractions_queued ON entity_extractions (namespace, queued_at, id) WHERE NOT ended;

-- merged_into is NULL of a root. root is the last entity to which that leads, or the entity itself. mentions and mentioned_at
-- are an entity's own; total counts those of a root and of all that was merged into it, and means nothing elsewhere.
-- descriptions is JSON, name_key the name without regard to case. vector has the length 1, as little-endian float32.
CREATE TABLE entities (
    namespace    text NOT NULL COLLATE "C",
    id           text NOT NULL COLLATE "C",
    root         text NOT NULL COLLATE "C",
    merged_into  text COLLATE "C",
    name         text NOT NULL,
    name_key     text NOT NULL COLLATE "C",
    type         text NOT NULL COLLATE "C",
    descriptions json NOT NULL,
    mentions     bigint NOT NULL,
    mentioned_at timestamptz,
    total        bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    embedder     text NOT NULL COLLATE "C",
    vector       bytea,
    PRIMARY KEY (namespace, id)
);

CREATE INDEX entities_by_root ON entities (namespace, root, created_at, id);
CREATE INDEX entities_by_merge ON entities (namespace, merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX entities_by_name ON entities (namespace, name_key);
CREATE INDEX entities_by_embedder ON entities (namespace, type, embedder) WHERE vector IS NOT NULL;
CREATE INDEX entities_by_mentions ON entities (namespace, total DESC, id) WHERE merged_into IS NULL;
CREATE INDEX entities_by_type ON entities (namespace, type, total DESC, id) WHERE merged_into IS NULL;

CREATE TABLE entity_mentions (
    namespace    text NOT NULL COLLATE "C",
    entity       text NOT NULL COLLATE "C",
    name         text NOT NULL,
    thread_id    text NOT NULL,
    source_type  text NOT NULL COLLATE "C",
    source_id    text NOT NULL COLLATE "C",
    text         text NOT NULL,
    at           timestamptz NOT NULL,
    PRIMARY KEY (namespace, entity, source_type, source_id)
);

CREATE INDEX entity_mentions_by_time ON entity_mentions (namespace, entity, at DESC, source_type, source_id);

CREATE TABLE entity_relations (
    namespace    text NOT NULL COLLATE "C",
    from_entity  text NOT NULL COLLATE "C",
    to_entity    text NOT NULL COLLATE "C",
    type         text NOT NULL COLLATE "C",
    reason       text NOT NULL,
    at           timestamptz NOT NULL,
    PRIMARY KEY (namespace, from_entity, to_entity, type)
);

CREATE INDEX entity_relations_to ON entity_relations (namespace, to_entity);

-- undone_at is NULL until the merge is undone.
CREATE TABLE entity_merges (
    namespace    text NOT NULL COLLATE "C",
    id           text NOT NULL COLLATE "C",
    from_entity  text NOT NULL COLLATE "C",
    into_entity  text NOT NULL COLLATE "C",
    similarity   double precision NOT NULL,
    decided_by   text NOT NULL,
    at           timestamptz NOT NULL,
    undone_by    text NOT NULL,
    undone_at    timestamptz,
    PRIMARY KEY (namespace, id)
);

CREATE INDEX entity_merges_by_time ON entity_merges (namespace, at DESC, id);
CREATE INDEX entity_merges_from ON entity_merges (namespace, from_entity);
CREATE INDEX entity_merges_into ON entity_merges (namespace, into_entity);

-- +goose Down
DROP TABLE entity_merges;
DROP TABLE entity_relations;
DROP TABLE entity_mentions;
DROP TABLE entities;
DROP TABLE entity_extractions;
