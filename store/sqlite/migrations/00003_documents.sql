-- +goose Up
-- content is NULL of what is deleted: versions go on when it is created again.
CREATE TABLE documents (
    namespace  TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT,
    changed_by TEXT    NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, kind, name)
) STRICT;

-- +goose Down
DROP TABLE documents;
