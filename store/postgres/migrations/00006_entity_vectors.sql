-- +goose Up
-- The vectors of the names of entities: one for each embedder, NULL of a name that has no direction. They have the length 1, as
-- little-endian float32.
CREATE TABLE entity_vectors (
    namespace text NOT NULL COLLATE "C",
    entity    text NOT NULL COLLATE "C",
    embedder  text NOT NULL COLLATE "C",
    type      text NOT NULL COLLATE "C",
    vector    bytea,
    PRIMARY KEY (namespace, entity, embedder)
);

INSERT INTO entity_vectors (namespace, entity, embedder, type, vector)
SELECT namespace, id, embedder, type, vector FROM entities WHERE vector IS NOT NULL;

CREATE INDEX entity_vectors_by_embedder ON entity_vectors (namespace, embedder, type);

DROP INDEX entities_by_embedder;
ALTER TABLE entities DROP COLUMN embedder, DROP COLUMN vector;

UPDATE compatibility SET lowest_version = greatest(lowest_version, 6);

-- +goose Down
ALTER TABLE entities ADD COLUMN embedder text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN vector bytea;
CREATE INDEX entities_by_embedder ON entities (namespace, type, embedder) WHERE vector IS NOT NULL;
UPDATE entities e SET embedder = v.embedder, vector = v.vector
FROM (SELECT DISTINCT ON (namespace, entity) * FROM entity_vectors WHERE vector IS NOT NULL ORDER BY namespace, entity, embedder) v
WHERE v.namespace = e.namespace AND v.entity = e.id;
DROP TABLE entity_vectors;
UPDATE compatibility SET lowest_version = 2;
