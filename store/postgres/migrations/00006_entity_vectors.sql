-- +goose Up
-- The vectors of the names of entities: one for each embedder, NULL of a name that has no direction. They have the length 1, as
-- little-endian float32. The columns embedder and vector of entities are those of programs that know no other vectors.
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

-- +goose Down
DROP TABLE entity_vectors;
