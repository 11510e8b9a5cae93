-- +goose Up
-- The vectors of the names of entities: one for each embedder, NULL of a name that has no direction. They have the length 1, as
-- little-endian float32.
CREATE TABLE entity_vectors (
    namespace TEXT NOT NULL,
    entity    TEXT NOT NULL,
    embedder  TEXT NOT NULL,
    type      TEXT NOT NULL,
    vector    BLOB,
    PRIMARY KEY (namespace, entity, embedder)
) STRICT;

INSERT INTO entity_vectors (namespace, entity, embedder, type, vector)
SELECT namespace, id, embedder, type, vector FROM entities WHERE vector IS NOT NULL;

CREATE INDEX entity_vectors_by_embedder ON entity_vectors (namespace, embedder, type);

DROP INDEX entities_by_embedder;
ALTER TABLE entities DROP COLUMN embedder;
ALTER TABLE entities DROP COLUMN vector;

UPDATE compatibility SET lowest_version = max(lowest_version, 6);

-- +goose Down
ALTER TABLE entities ADD COLUMN embedder TEXT NOT NULL DEFAULT '';
ALTER TABLE entities ADD COLUMN vector BLOB;
CREATE INDEX entities_by_embedder ON entities (namespace, type, embedder) WHERE vector IS NOT NULL;
UPDATE entities SET (embedder, vector) = (
    SELECT embedder, vector FROM entity_vectors v WHERE v.namespace = entities.namespace AND v.entity = entities.id
    AND vector IS NOT NULL ORDER BY embedder LIMIT 1)
WHERE EXISTS (SELECT 1 FROM entity_vectors v WHERE v.namespace = entities.namespace AND v.entity = entities.id AND vector IS NOT NULL);
DROP TABLE entity_vectors;
UPDATE compatibility SET lowest_version = 2;
