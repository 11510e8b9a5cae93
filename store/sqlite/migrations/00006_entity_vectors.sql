-- +goose Up
-- The vectors of the names of entities: one for each embedder, NULL of a name that has no direction. They have the length 1, as
-- little-endian float32. The columns embedder and vector of entities are those of programs that know no other vectors.
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

-- +goose Down
DROP TABLE entity_vectors;
